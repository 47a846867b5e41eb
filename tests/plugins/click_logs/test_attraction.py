"""Attraction by document: intervals are those of likelihood ratios, and contain the truth in 95 % of documents."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from ol2r_cli.plugins.click_logs.attraction import BELOW_LARGEST, documents_table, intervals
from ol2r_cli.plugins.click_logs.click_log import ClickLog
from ol2r_cli.plugins.click_logs.fit_clicks import main
from tests.plugins.click_logs.logs import counts


def test_intervals_are_those_of_likelihood_ratios():
    """Without a click at one rank the upper end u has -n log(1 - u theta) = 1.92; with a click each time the interval
    goes to 1; otherwise the likelihood at both ends is 1.92 below the largest."""
    shown = [[50, 0], [0, 20], [30, 0], [100, 200], [0, 1]]
    log = counts(shown, [[0, 0], [0, 0], [30, 0], [40, 30], [0, 1]])
    best, low, high = intervals(log, np.array([1, 0.4]))
    assert best[:3] == pytest.approx([0, 0, 1], abs=1e-6)
    assert low[:2].tolist() == [0, 0]
    assert high[:2] == pytest.approx([1 - np.exp(-BELOW_LARGEST / 50), (1 - np.exp(-BELOW_LARGEST / 20)) / 0.4])
    assert (low[2], high[2]) == pytest.approx((np.exp(-BELOW_LARGEST / 30), 1), abs=1e-6)
    assert high[4] == 1

    a = grid = np.linspace(0.2, 0.6, 40_001)
    values = 40 * np.log(a) + 60 * np.log(1 - a) + 30 * np.log(0.4 * a) + 170 * np.log(1 - 0.4 * a)
    inside = grid[values >= values.max() - BELOW_LARGEST]
    assert (best[3], low[3], high[3]) == pytest.approx((grid[values.argmax()], inside[0], inside[-1]), abs=2e-5)


def test_intervals_contain_the_truth():
    rng = np.random.default_rng(0)
    shown, theta = rng.poisson(30, (4000, 3)), np.array([1, 0.6, 0.3])
    attraction = rng.uniform(0.05, 0.9, 4000)
    clicks = rng.binomial(shown, attraction[:, None] * theta)
    _, low, high = intervals(counts(shown, clicks), theta)
    covered = ((low <= attraction) & (attraction <= high)).mean()
    assert covered == pytest.approx(0.95, abs=0.015)  # four standard errors


def test_the_table_has_a_row_for_each_document_of_a_query():
    shown = np.array([[10, 10], [0, 20], [30, 0]], float)
    log = ClickLog(np.array([0, 0, 1]), shown, np.array([[1.0, 0]] * 3), None, ["q", "r"], ["a", "b", "a"])
    table = documents_table(log, np.array([1, 0.5]), np.array([2, -1, 0]))
    assert table.select("query", "document").rows() == [("q", "a"), ("q", "b"), ("r", "a")]
    assert table.select("impressions", "clicks", "examined").rows() == [(20, 1, 15), (20, 1, 10), (30, 1, 30)]
    assert table["grade"].to_list() == [2, None, 0]


@pytest.mark.parametrize(("name", "read"), [("out.csv", pl.read_csv), ("out.parquet", pl.read_parquet)])
def test_the_command_writes_it(tmp_path, name, read):
    log = tmp_path / "log.csv"
    rows = [(q, d, k, 1000, round(400 / k / (1 + (d == "b")))) for q in "qr" for d in "ab" for k in (1, 2)]
    pl.DataFrame(rows, schema=["query", "document", "place", "impressions", "clicks"], orient="row").write_csv(log)
    assert main([str(log), "--documents", str(tmp_path / name)]) == 0
    table = read(tmp_path / name)
    assert table["attraction"].to_list() == pytest.approx([0.4, 0.2] * 2, abs=1e-3)
    assert ((table["low"] < table["attraction"]) & (table["attraction"] < table["high"])).all()
    assert table["impressions"].to_list() == [2000] * 4
