"""Users fitted to real logs: their files have the numbers of the sources, and they click as often as the log says."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from ol2r_cli.config.catalogue import Catalogue
from ol2r_cli.config.instantiate import build
from ol2r_cli.interfaces import ClickModel, RunContext
from ol2r_cli.plugins.click_logs.click_log import ClickLog, read
from ol2r_cli.plugins.click_logs.fitted_user import SHARES, quantile_grades
from ol2r_cli.plugins.click_logs.position_bias import adjacent_chain, pbm

PLACES = 10


def settings(name: str) -> dict:
    return dict(Catalogue().choices["click"][name].content)


def by_grade(attraction: np.ndarray, shares: Sequence[float]) -> list[float]:
    """The mean attraction of the documents of each grade, which count alike."""
    member = quantile_grades(attraction, np.ones(len(attraction), np.bool_), shares)
    return (attraction @ member / member.sum(0)).tolist()


@pytest.fixture
def sources(data_dir: Path) -> Path:
    folder = data_dir / "real_clicks"
    if not folder.is_dir():
        pytest.skip(f"no click statistics: {folder}")
    return folder


@pytest.fixture
def log(sources: Path) -> ClickLog:
    log, skipped = read(sources / "yandex_counts.csv", "more clicks")
    assert skipped == 38
    return log


def test_files_have_the_numbers_of_their_sources(sources: Path, log: ClickLog):
    published = json.loads((sources / "yandex_fitted_users.json").read_text())
    dcm, ubm, dbn = (settings(f"yandex_{name}") for name in ("dcm", "ubm", "dbn"))
    stops = published["dcm_stop_after_click_by_place"]
    assert dcm["continuation"] == pytest.approx([1 - stop for stop in stops], abs=1e-9)
    attraction = np.ravel(published["attraction_of_ten_documents_of_60_queries_dcm"])
    for grades, shares in SHARES.items():
        assert dcm["tables"][grades]["click"] == pytest.approx(by_grade(attraction, shares), abs=6e-4)
    for place, row in enumerate(ubm["examination"]):
        after, none = published["ubm_examination"][place][:place], published["ubm_examination"][place][-1]
        assert row == pytest.approx([*after[::-1], none], abs=1e-9), place
    assert dbn["continuation"] == pytest.approx(1 - published["dbn_abandon"], abs=1e-7)
    with (sources / "baidu_position_bias.csv").open() as file:
        chain = [float(row["adjacent_chain"]) for row in list(csv.DictReader(file))[:PLACES]]
    assert settings("baidu_position")["examination"] == pytest.approx(chain, abs=6e-4)
    examination = adjacent_chain(log)
    position = settings("yandex_position")
    assert position["examination"] == pytest.approx(examination, abs=6e-4)
    attraction = pbm(log, examination)[1][log.impressions.sum(1) >= 100]
    for grades, shares in SHARES.items():
        assert position["tables"][grades]["click"] == pytest.approx(by_grade(attraction, shares), abs=6e-4)


def test_quantiles_are_means_between_the_borders_of_the_shares():
    values = np.array([0.9, 0.1, 0.3, 0.5])
    assert by_grade(values, [1, 1]) == pytest.approx([0.2, 0.7])
    assert by_grade(values, [0.5, 0.5]) == pytest.approx([0.2, 0.7])
    assert by_grade(values, [0.625, 0.375]) == pytest.approx([(0.1 + 0.3 + 0.5 / 2) / 2.5, (0.5 / 2 + 0.9) / 1.5])


# The largest error of a click rate by place: no single attraction of a document fits all places better. Cascades click
# too often far down, because a user who does not click reads on.
@pytest.mark.slow
@pytest.mark.parametrize(("name", "first", "all_places"), [
    ("yandex_position", 0.05, 0.06), ("yandex_ubm", 0.05, 0.1), ("yandex_dcm", 0.05, 0.2), ("yandex_dbn", 0.05, 0.25),
])  # fmt: skip
def test_click_rates_are_those_of_the_log_where_attraction_is(
    log: ClickLog, name: str, first: float, all_places: float
):
    """Lists have the documents of the log at each place. Attraction is clicks over examined impressions, as the model
    examines them, which is found by iteration; it is not fitted to places."""
    rng, each = np.random.default_rng(0), 300
    lists, weight = [], []
    for query in range(log.query.max() + 1):
        shown = np.where((log.query == query)[:, None], log.impressions, 0)
        lists.append([rng.choice(len(shown), each, p=column / column.sum()) for column in shown.T])
        weight.append(np.tile(shown.sum(0) / each, (each, 1)))
    documents, weights = torch.tensor(np.array(lists)).transpose(1, 2).reshape(-1, PLACES), np.concatenate(weight)
    attraction = pbm(log)[1]
    for _ in range(40):
        examined = weights * user(name, attraction).propensities(documents).numpy()
        total = np.bincount(documents.numpy().ravel(), examined.ravel(), len(attraction))
        attraction = (attraction + np.clip(log.clicks.sum(1) / np.maximum(total, 1e-9), 1e-9, 1)) / 2
    rate = (examined * attraction[documents.numpy()]).sum(0) / weights.sum(0)
    error = abs(rate / (log.clicks.sum(0) / log.impressions.sum(0)) - 1)
    assert error[:5].max() < first
    assert error.max() < all_places


def user(name: str, attraction: np.ndarray) -> ClickModel:
    """A user for whom every document is a grade. Satisfaction goes with attraction as in the table for five grades."""
    content = settings(name)
    content["click"] = attraction.tolist()
    if "stop" in content:
        table = content["tables"][5]
        content["stop"] = np.interp(attraction, table["click"], table["stop"]).tolist()
    model: ClickModel = build(content, "click")
    model.setup(RunContext(1, 9, 1, PLACES, 1, 1, grades=len(attraction)), torch.zeros(1, 1))
    return model
