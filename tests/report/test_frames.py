"""Frames in full precision, and tables with the marks of a comparison."""

from __future__ import annotations

import polars as pl
import pytest

from ol2r_cli.report.comparison import compare
from ol2r_cli.report.differences import differences, probability
from ol2r_cli.report.frames import as_frame, differences_frame, groups_frame
from ol2r_cli.report.labels import Labels
from ol2r_cli.report.select import Selection
from ol2r_cli.report.table import table
from tests.report.runs import found, make

SEEDS = range(6)
EVEN = {seed: 0.25 + 0.01 * seed for seed in SEEDS}
HIGH = {seed: value + 0.1 + 0.001 * (seed % 2) for seed, value in EVEN.items()}


@pytest.fixture
def two(tmp_path):
    """pairrank, better in every seed, and pdgd, in this order."""
    make(tmp_path, "ranker=pdgd", "ranker.l2=1", test=EVEN)
    make(tmp_path, "ranker.pairs=all", "ranker.l2=2", test=HIGH)
    make(tmp_path, "ranker.pairs=all", "ranker.l2=3", test={0: 0.1, 1: 0.1})
    groups = found(tmp_path)
    labels = Labels(groups)
    return [groups[1], groups[0]], labels


def test_a_row_a_group_in_full_precision(two):
    groups, labels = two
    frame = groups_frame(groups, labels, ["test_ndcg_10"], Selection(groups, [2, 1], []))
    assert frame.columns[:6] == ["dataset", "click", "ranker", "model", "exploration", "fairness"]
    assert frame.columns[6:] == [
        "ranker.l2", "chosen_from", "folds", "n",
        "test_ndcg_10_mean", "test_ndcg_10_sd", "test_ndcg_10_half_width", "test_ndcg_10_n",
    ]  # fmt: skip
    first = frame.row(0, named=True)
    estimate = groups[0].estimate("test_ndcg_10")
    assert (first["ranker"], first["ranker.l2"], first["chosen_from"], first["n"]) == ("pairrank", 2, 2, 6)
    assert first["test_ndcg_10_mean"] == estimate.mean
    assert (first["test_ndcg_10_sd"], first["test_ndcg_10_half_width"]) == (estimate.sd, estimate.half_width)


def test_comparisons_are_columns(two):
    groups, labels = two
    frame = groups_frame(groups, labels, ["test_ndcg_10"], comparison=compare(groups, labels, ["test_ndcg_10"], "pdgd"))
    better, base = frame.to_dicts()
    assert better["test_ndcg_10_difference"] == pytest.approx(0.1005, abs=1e-6)
    assert 0 < better["test_ndcg_10_p_holm"] < 0.001
    assert [better[f"test_ndcg_10_{what}"] for what in ("wins", "ties", "losses", "pairs", "missing")] == [
        6,
        0,
        0,
        6,
        0,
    ]
    assert base["test_ndcg_10_difference"] is None
    letters = groups_frame(groups, labels, ["test_ndcg_10"], comparison=compare(groups, labels, ["test_ndcg_10"]))
    assert letters["letter"].to_list() == ["a", "b"]
    assert letters["test_ndcg_10_better_than"].to_list() == ["b", ""]


def test_a_row_a_difference(two):
    groups, labels = two
    comparison = compare(groups, labels, ["test_ndcg_10", "online_ndcg"])
    frame = differences_frame(comparison, labels)
    assert frame["metric"].to_list() == ["test_ndcg_10", "online_ndcg"]
    assert frame.select("ranker", "rival_ranker", "wins", "losses").rows() == [("pairrank", "pdgd", 6, 0)] * 2
    shown = differences(comparison, labels)
    row = dict(zip(shown.headings, shown.rows[0], strict=True))
    assert (row["ranker"].text, row["minus"].text, row["win/tie/loss"].text, row["pairs"].text) == (
        "pairrank", "pdgd", "6/0/0", "6",
    )  # fmt: skip
    assert row["difference"].text.startswith("+0.10050 ± 0.000")
    assert row["difference"].mark == "↑"


def test_the_table_has_marks_and_says_which_is_the_baseline(two):
    groups, labels = two
    marked = table(groups, labels, ["test_ndcg_10"], comparison=compare(groups, labels, ["test_ndcg_10"], "pdgd"))
    place = marked.headings.index("ranker")
    assert [row[place].text for row in marked.rows] == ["pairrank", "pdgd (baseline)"]
    assert [(row[-1].mark, row[-1].best) for row in marked.rows] == [("↑", True), ("", False)]
    lettered = table(groups, labels, ["test_ndcg_10"], comparison=compare(groups, labels, ["test_ndcg_10"]))
    assert [(row[0].text, row[-1].mark) for row in lettered.rows] == [("a", "b"), ("b", "")]


def test_rows_of_one_ranker_are_told_apart_by_their_settings(tmp_path):
    for l2 in (1, 2):
        make(tmp_path, f"ranker.l2={l2}", test={0: 0.1 * l2, 1: 0.1})
    labels = Labels(groups := found(tmp_path))
    shown = differences(compare(groups, labels, ["test_ndcg_10"]), labels)
    assert [cell.text for cell in shown.rows[0][3:5]] == ["pairrank l2=1", "pairrank l2=2"]


def test_rows_of_different_tasks_are_told_apart_by_what_makes_the_task(tmp_path):
    for rounds in (4, 8):
        for ranker, level in ("pairrank", 0.2), ("pdgd", 0.1):
            make(tmp_path, f"ranker={ranker}", f"rounds={rounds}", test={0: level, 1: level + 0.1})
    labels = Labels(groups := found(tmp_path))
    shown = differences(compare(groups, labels, ["test_ndcg_10"]), labels)
    assert {row[3].text for row in shown.rows} == {"pairrank rounds=4", "pairrank rounds=8"}


@pytest.mark.parametrize(
    ("p", "text"), [(None, ""), (1.0, "1.000"), (0.0449, "0.045"), (0.00012, "1.2e-04"), (0.0, "<1e-6")]
)
def test_small_probabilities(p, text):
    assert probability(p) == text


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        ([1, None], pl.Int64, [1, None]),
        ([1, 0.5], pl.Float64, [1.0, 0.5]),
        ([True, None], pl.Boolean, [True, None]),
        ([1, "auto"], pl.String, ["1", "auto"]),
        ([True, 2], pl.String, ["true", "2"]),
        ([[1, 2], None], pl.String, ["[1,2]", None]),
        ([None, None], pl.Null, [None, None]),
    ],
)
def test_columns_keep_numbers_and_write_mixtures_as_typed(values, kind, expected):
    frame = as_frame([{"x": value} for value in values])
    assert (frame.schema["x"], frame["x"].to_list()) == (kind, expected)


def test_the_best_is_the_least_where_less_is_better(tmp_path):
    from ol2r_cli.results.directory import RunDirectory

    for ranker, regret in (("a", 2), ("b", 1)):
        directory = RunDirectory(make(tmp_path, f"ranker={ranker}"))
        summary = directory.read_json("summary.json")
        summary["metrics"]["regret"] = summary["metrics"]["clicks"] = {"mean": regret, "sd": None, "n": 1}
        directory.write_json("summary.json", summary)
    labels = Labels(groups := found(tmp_path))
    rows = table(groups, labels, ["regret", "clicks"]).rows
    assert [[cell.best for cell in row[-2:]] for row in rows] == [[False, False], [True, False]]
