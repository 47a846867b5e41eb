"""`load` and the frames behind csv and parquet: one row for each seed, group or difference, in full precision."""

from __future__ import annotations

import polars as pl
import pytest

from ol2r_cli.report import load
from ol2r_cli.report.comparison import compare
from ol2r_cli.report.frames import as_frame, differences_frame, groups_frame
from ol2r_cli.report.result_tables import differences_table
from ol2r_cli.report.selection import Selection
from ol2r_cli.run.directory import RunDirectory
from tests.manifests import accept_changes
from tests.report.runs import make


def test_one_row_for_each_run_and_seed(tmp_path):
    first = make(tmp_path / "a", "ranker.l2=1", test={0: 0.25, 1: 0.5})
    make(tmp_path / "a", "ranker.l2=2", "dataset.fold=2", test={1: 0.75}, validation={1: 0.125})
    make(tmp_path / "b", "ranker=pdgd", status="failed")
    frame = load(tmp_path / "a", str(tmp_path / "b"))
    assert frame.columns[:12] == [
        "run", "path", "group", "dataset", "fold", "click",
        "intent", "ranker", "model", "exploration", "fairness", "ranker.l2",
    ]  # fmt: skip
    assert frame.select("group", "fold", "ranker.l2", "seed", "test_ndcg_10", "validation_ndcg_10").rows() == [
        (0, 1, 1, 0, 0.25, None),
        (0, 1, 1, 1, 0.5, None),
        (1, 2, 2, 1, 0.75, 0.125),
    ]
    assert frame["path"][0] == str(first)
    assert frame["run"].unique().to_list() == ["0123456789"]


def test_runs_that_differ_in_fold_and_seed_are_one_group(tmp_path):
    for fold, seeds in ((1, {0: 0.1, 1: 0.1}), (2, {0: 0.1}), (1, {1: 0.1})):
        make(tmp_path, f"dataset.fold={fold}", test=seeds)
    frame = load(tmp_path)
    assert frame["group"].unique().to_list() == [0]
    assert len(frame) == 4
    assert len(frame.unique(["group", "fold", "seed"])) == 3


def test_the_summary_has_the_metrics_of_each_seed(tmp_path):
    make(tmp_path, test={0: 0.25, 1: 0.5})
    frame = load(tmp_path)
    assert frame["test_ndcg_10"].to_list() == [0.25, 0.5]
    assert "regret" not in frame.columns, "no run has it"


def test_all_settings(tmp_path):
    make(tmp_path)
    assert "rounds" not in load(tmp_path).columns
    assert load(tmp_path, settings=True)["rounds"].to_list() == [2]


@pytest.mark.parametrize(
    ("table", "rows", "key"), [("trace", 2, ("seed", "round")), ("evaluation", 4, ("seed", "round", "split"))]
)
def test_other_tables_stand_beside_what_the_run_was(tmp_path, table, rows, key):
    make(tmp_path, "ranker.l2=1", test={0: 0.25, 1: 0.5})
    make(tmp_path, "ranker.l2=2", test={0: 0.75, 1: 0.5})
    measure = {"trace": "online_ndcg", "evaluation": "ndcg_10"}[table]
    frame = load(tmp_path, table=table, columns=[measure])
    assert frame.columns[-len(key) - 1 :] == [*key, measure]
    assert len(frame) == 2 * rows
    last = frame.filter(pl.col("round") == pl.col("round").max()).select("ranker.l2", "seed", measure)
    assert last.rows() == [(1, 0, 0.25), (1, 1, 0.5), (2, 0, 0.75), (2, 1, 0.5)]


def test_a_table_without_a_column_that_came_later(tmp_path):
    make(tmp_path, test={0: 0.25})
    old = RunDirectory(make(tmp_path, "ranker.l2=2", test={0: 0.5}))
    trace = pl.read_parquet(old / "trace.parquet")
    old.write_parquet("trace.parquet", trace.drop("unfairness"))
    accept_changes(old.path)
    frame = load(tmp_path, table="trace")
    assert frame.select("ranker.l2", "online_ndcg", "unfairness").rows() == [(0.1, 0.25, None), (2.0, 0.5, None)]


def test_runs_without_blocks_have_no_rows(tmp_path):
    make(tmp_path)
    assert load(tmp_path, table="blocks").is_empty()


def test_damage_is_a_warning(tmp_path):
    make(tmp_path)
    (make(tmp_path, "ranker.l2=2") / "config.yaml").unlink()
    with pytest.warns(UserWarning, match="left out, damaged: .*config.yaml"):
        assert len(load(tmp_path)) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"table": "summaries"}, "table must be one of summary, evaluation, trace, blocks, got summaries"),
        ({"columns": ["ndcg"]}, "columns must be some of online_ndcg, .*, got ndcg"),
        ({"table": "trace", "columns": ["ndcg"]}, "a measure in trace.parquet must be one of query, .*, got ndcg"),
    ],
)
def test_errors(tmp_path, arguments, message):
    make(tmp_path)
    with pytest.raises(ValueError, match=message):
        load(tmp_path, **arguments)


def test_a_folder_without_runs(tmp_path):
    with pytest.raises(ValueError, match="there are no finished runs below"):
        load(tmp_path)


def test_a_row_a_group_in_full_precision(two):
    groups, labels = two
    frame = groups_frame(groups, labels, ["test_ndcg_10"], Selection(groups, [2, 1], []))
    assert frame.columns[:7] == ["dataset", "click", "intent", "ranker", "model", "exploration", "fairness"]
    assert frame.columns[7:] == [
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
    shown = differences_table(comparison, labels)
    row = dict(zip(shown.headings, shown.rows[0], strict=True))
    assert (row["ranker"].text, row["minus"].text, row["win/tie/loss"].text, row["pairs"].text) == (
        "pairrank", "pdgd", "6/0/0", "6",
    )  # fmt: skip
    assert row["difference"].text.startswith("+0.10050 ± 0.000")
    assert row["difference"].mark == "↑"


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
