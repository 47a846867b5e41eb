"""Frames with one row for each seed, and files of results: the same runs again."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import polars as pl
import pytest

from ol2r_cli.plugins.benchmark.results import read_results, results_frame
from ol2r_cli.report import load
from ol2r_cli.report.collection import collect
from ol2r_cli.report.finished_run import FinishedRun
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


MANY = 40_000  # pairs, beyond the Int16 of other runs


@pytest.fixture
def tables(tmp_path):
    """Two runs, of which the second has no column of unfairness, as an old one."""
    make(tmp_path, "ranker.l2=1", test={0: 0.25, 1: 0.5})
    old = RunDirectory(make(tmp_path, "ranker.l2=2", test={0: 0.75, 1: 0.5}))
    trace = pl.read_parquet(old / "trace.parquet").drop("unfairness")
    old.write_parquet("trace.parquet", trace.with_columns(pairs=pl.lit(MANY, pl.Int64)))
    accept_changes(old.path)
    return tmp_path


@pytest.mark.parametrize(
    ("table", "rows", "key", "measure"),
    [
        ("trace", 2, ("seed", "round"), "online_ndcg"),
        ("evaluation", 4, ("seed", "round", "split"), "ndcg_10"),
    ],
)
def test_other_tables_stand_beside_what_the_run_was(tables, table, rows, key, measure):
    frame = load(tables, table=table, columns=[measure])
    assert frame.columns[-len(key) - 1 :] == [*key, measure]
    assert len(frame) == 2 * rows
    last = frame.filter(pl.col("round") == pl.col("round").max()).select("ranker.l2", "seed", measure)
    assert last.rows() == [(1, 0, 0.25), (1, 1, 0.5), (2, 0, 0.75), (2, 1, 0.5)]


def test_tables_of_runs_may_have_other_columns_and_types(tables):
    assert load(tables, table="blocks").is_empty()
    frame = load(tables, table="trace").filter(seed=0)
    columns = frame.select("ranker.l2", "online_ndcg", "unfairness", "pairs")
    assert columns.rows() == [(1.0, 0.25, None, None), (2.0, 0.75, None, MANY)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"table": "summaries"}, "table must be one of summary, evaluation, trace, blocks, got summaries"),
        ({"columns": ["ndcg"]}, "columns must be some of online_ndcg, .*, got ndcg"),
        ({"table": "trace", "columns": ["ndcg"]}, "columns must be some of seed, round, query, .*, got ndcg"),
    ],
)
def test_wrong_arguments_are_errors(tmp_path, arguments, message):
    make(tmp_path)
    with pytest.raises(ValueError, match=message):
        load(tmp_path, **arguments)


def test_a_damaged_run_is_a_warning(tmp_path):
    make(tmp_path)
    (make(tmp_path, "ranker.l2=2") / "config.yaml").unlink()
    with pytest.warns(UserWarning, match="1 run damaged: .*config.yaml"):
        assert len(load(tmp_path)) == 1


def test_columns_keep_numbers_and_write_mixtures_as_typed():
    first = {"a": 1, "b": 1, "c": True, "d": 1, "e": True, "f": [1, 2], "g": None}
    second = {"a": None, "b": 0.5, "c": None, "d": "auto", "e": 2, "f": None, "g": None}
    frame = as_frame([first, second])
    assert frame.dtypes == [pl.Int64, pl.Float64, pl.Boolean, pl.String, pl.String, pl.String, pl.Null]
    assert frame.rows() == [(1, 1.0, True, "1", "true", "[1,2]", None), (None, 0.5, None, "auto", "2", None, None)]


class Published(NamedTuple):
    """Runs with what a file of results says about each and its rows, and that file."""

    folder: Path
    runs: Sequence[FinishedRun]
    file: Path


ABOUT = [{"note": ["a", 1]}, {}, {}]


@pytest.fixture(scope="module")
def published(tmp_path_factory) -> Published:
    root = tmp_path_factory.mktemp("published")
    folder, file = root / "runs", root / "results.parquet"
    make(folder, "ranker.l2=1", "dataset.fold=1", test={0: 0.25, 1: 0.5})
    make(folder, "ranker.l2=1", "dataset.fold=2", test={0: 0.75, 2: 0.1}, validation={0: 0.3, 2: 0.2})
    make(folder, "ranker=pdgd", "click=navigational", test={3: 1 / 3})
    found = enumerate(collect([folder]).runs)
    runs = [replace(run, manifest={**run.manifest, "id": f"run{number}"}) for number, run in found]
    results_frame(runs, ABOUT, [["one", "two"], [], ["two"]]).write_parquet(file)
    return Published(folder, runs, file)


@pytest.mark.parametrize("name", ["choices", "settings", "fold", "fingerprint", "values", "typed", "id"])
def test_a_file_of_results_has_what_the_runs_were(published, name):
    read = [run for run, _ in read_results(published.file)]
    assert [getattr(run, name) for run in read] == [getattr(run, name) for run in published.runs]
    assert [run.path for run in read] == [published.file / run.id for run in published.runs]


def test_a_file_of_results_has_what_is_said_about_the_runs(published):
    assert [about for _, about in read_results(published.file)] == ABOUT
    rows = [["one", "two"]] * 2 + [[]] * 2 + [["two"]]
    assert pl.read_parquet(published.file)["rows"].to_list() == rows


def test_groups_of_a_file_of_results_are_those_of_the_runs(published):
    before, after = group_runs(published.runs), group_runs(collect([published.file]).runs)
    assert [Labels(after).overrides(group) for group in after] == [Labels(before).overrides(group) for group in before]
    assert [g.values("test_ndcg_10") for g in before] == [g.values("test_ndcg_10") for g in after]
    both = group_runs(collect([published.folder, published.file]).runs)
    assert [group.n for group in both] == [group.n for group in before], "the same runs in both are one group"
    assert len(load(published.file)) == 5


def test_a_file_of_results_has_no_traces(published):
    with pytest.raises(ValueError, match=r"table must be summary for .*results.parquet, which has final values only"):
        load(published.file, table="trace")


def test_a_file_of_results_is_not_found_by_its_folder(published, tmp_path):
    shutil.copy(published.file, tmp_path)
    with pytest.raises(ValueError, match=f"no finished runs below {tmp_path}: start one"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "must have the results of runs, got a table without rows, dataset, fold"),
        ("no table", "other.parquet cannot be read"),
    ],
)
def test_another_file_is_no_file_of_results(tmp_path, content, message):
    file = tmp_path / "other.parquet"
    file.write_text(content) if content else pl.DataFrame({"run": [1]}).write_parquet(file)
    with pytest.raises(ValueError, match=message):
        collect([file])
