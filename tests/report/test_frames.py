"""Frames with one row for each seed, and files of results: the same runs again."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from ol2r_cli.plugins.benchmark.results import read_results, results_frame
from ol2r_cli.report import load
from ol2r_cli.report.collection import collect
from ol2r_cli.report.frames import as_frame
from ol2r_cli.report.names import Labels
from ol2r_cli.report.run_groups import group_runs
from ol2r_cli.run.store import RunDirectory
from tests.manifests import accept_changes
from tests.report.runs import make


def test_one_row_for_each_run_and_seed(tmp_path):
    first = make(tmp_path / "a", "ranker.l2=1", test={0: 0.25, 1: 0.5})
    make(tmp_path / "a", "ranker.l2=2", "dataset.fold=2", test={1: 0.75}, validation={1: 0.125})
    make(tmp_path / "b", "ranker=pdgd", status="failed")
    with pytest.warns(UserWarning, match="1 run not finished: ol2r status"):
        frame = load(tmp_path / "a", str(tmp_path / "b"))
    assert frame.columns[:12] == [
        *("run", "path", "group", "dataset", "fold", "click", "intent", "ranker", "model", "exploration", "fairness"),
        "ranker.l2",
    ]
    assert frame.select("group", "fold", "ranker.l2", "seed", "test_ndcg_10", "validation_ndcg_10").rows() == [
        (0, 1, 1, 0, 0.25, None),
        (0, 1, 1, 1, 0.5, None),
        (1, 2, 2, 1, 0.75, 0.125),
    ]
    assert (frame["path"][0], frame["run"].unique().to_list()) == (str(first), ["0123456789"])
    assert not {"rounds", "regret"} & set(frame.columns)
    assert load(tmp_path / "a", settings=True)["rounds"].unique().to_list() == [2]
    make(tmp_path / "a", "ranker.l2=1", test={1: 0.5})
    frame = load(tmp_path / "a")
    assert (len(frame), len(frame.unique(["group", "fold", "seed"]))) == (4, 3)


def test_other_tables_stand_beside_what_the_run_was(tmp_path):
    make(tmp_path, "ranker.l2=1", test={0: 0.25, 1: 0.5})
    old = RunDirectory(make(tmp_path, "ranker.l2=2", test={0: 0.75, 1: 0.5}))
    for table, rows, key, measure in (
        ("trace", 2, ("seed", "round"), "online_ndcg"),
        ("evaluation", 4, ("seed", "round", "split"), "ndcg_10"),
    ):
        frame = load(tmp_path, table=table, columns=[measure])
        assert frame.columns[-len(key) - 1 :] == [*key, measure]
        assert len(frame) == 2 * rows
        last = frame.filter(pl.col("round") == pl.col("round").max()).select("ranker.l2", "seed", measure)
        assert last.rows() == [(1, 0, 0.25), (1, 1, 0.5), (2, 0, 0.75), (2, 1, 0.5)]
    assert load(tmp_path, table="blocks").is_empty()
    many = pl.lit(40_000, pl.Int64)  # pairs, beyond the Int16 of other runs
    trace = pl.read_parquet(old / "trace.parquet").drop("unfairness").with_columns(pairs=many)
    old.write_parquet("trace.parquet", trace)
    accept_changes(old.path)
    frame = load(tmp_path, table="trace").filter(seed=0)
    assert frame.select("ranker.l2", "online_ndcg", "unfairness").rows() == [(1.0, 0.25, None), (2.0, 0.75, None)]
    assert frame["pairs"].to_list() == [None, 40_000]


def test_damage_is_a_warning_and_wrong_arguments_are_errors(tmp_path):
    with pytest.raises(ValueError, match="there are no finished runs below"):
        load(tmp_path)
    make(tmp_path)
    for arguments, message in (
        ({"table": "summaries"}, "table must be one of summary, evaluation, trace, blocks, got summaries"),
        ({"columns": ["ndcg"]}, "columns must be some of online_ndcg, .*, got ndcg"),
        ({"table": "trace", "columns": ["ndcg"]}, "columns must be some of seed, round, query, .*, got ndcg"),
    ):
        with pytest.raises(ValueError, match=message):
            load(tmp_path, **arguments)
    (make(tmp_path, "ranker.l2=2") / "config.yaml").unlink()
    with pytest.warns(UserWarning, match="1 run damaged: .*config.yaml"):
        assert len(load(tmp_path)) == 1


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
    assert (frame.schema["x"], frame["x"].to_list()) == (kind, expected), values


def test_a_file_of_results_has_the_same_runs_once_and_no_traces(tmp_path):
    make(tmp_path / "runs", "ranker.l2=1", "dataset.fold=1", test={0: 0.25, 1: 0.5})
    make(tmp_path / "runs", "ranker.l2=1", "dataset.fold=2", test={0: 0.75, 2: 0.1}, validation={0: 0.3, 2: 0.2})
    make(tmp_path / "runs", "ranker=pdgd", "click=navigational", test={3: 1 / 3})
    runs = [
        replace(run, manifest={**run.manifest, "id": f"run{number}"})
        for number, run in enumerate(collect([tmp_path / "runs"]).runs)
    ]
    folder = tmp_path / "published"
    folder.mkdir()
    file = folder / "results.parquet"
    results_frame(runs, [{"note": ["a", 1]}, {}, {}], [["one", "two"], [], ["two"]]).write_parquet(file)
    read = read_results(file)
    assert pl.read_parquet(file)["rows"].to_list() == [["one", "two"]] * 2 + [[]] * 2 + [["two"]]
    assert [about for _, about in read] == [{"note": ["a", 1]}, {}, {}]
    for (run, _), before in zip(read, runs, strict=True):
        assert run.path == file / before.id
        for name in ("choices", "settings", "fold", "fingerprint", "values", "typed", "id"):
            assert getattr(run, name) == getattr(before, name), name
    before, after = group_runs(runs), group_runs(collect([file]).runs)
    assert [Labels(after).overrides(group) for group in after] == [Labels(before).overrides(group) for group in before]
    assert [g.values("test_ndcg_10") for g in before] == [g.values("test_ndcg_10") for g in after]
    both = group_runs(collect([tmp_path / "runs", file]).runs)
    assert [group.n for group in both] == [group.n for group in before], "the same runs in both are one group"
    assert len(load(file)) == len(pl.read_parquet(file)) == 5
    with pytest.raises(ValueError, match=r"table must be summary for .*results.parquet, which has final values only"):
        load(file, table="trace")
    with pytest.raises(ValueError, match=f"no finished runs below {folder}: start one"):
        load(folder)
    pl.DataFrame({"run": [1]}).write_parquet(folder / "other.parquet")
    (folder / "text.parquet").write_text("no table")
    for name, message in (
        ("other", "must have the results of runs, got a table without rows, dataset, fold"),
        ("text", "text.parquet cannot be read"),
    ):
        with pytest.raises(ValueError, match=message):
            collect([folder / f"{name}.parquet"])
