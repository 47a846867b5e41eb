"""Results in one parquet file are the same runs again, for every table of a report."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from ol2r_cli.report.frames import load
from ol2r_cli.report.names import Labels
from ol2r_cli.report.results_file import read_results, results_frame
from ol2r_cli.report.run_groups import collect, group_runs
from tests.report.runs import make


@pytest.fixture
def runs(tmp_path):
    make(tmp_path, "ranker.l2=1", "dataset.fold=1", test={0: 0.25, 1: 0.5})
    make(tmp_path, "ranker.l2=1", "dataset.fold=2", test={0: 0.75, 2: 0.1}, validation={0: 0.3, 2: 0.2})
    make(tmp_path, "ranker=pdgd", "click=navigational", test={3: 1 / 3})
    return collect([tmp_path]).runs


def test_runs_are_read_as_they_were(runs, tmp_path):
    file = tmp_path / "results.parquet"
    results_frame(runs, [{"note": ["a", 1]}, {}, {}], [["one", "two"], [], ["two"]]).write_parquet(file)
    read = read_results(file)
    assert pl.read_parquet(file)["rows"].to_list() == [["one", "two"]] * 2 + [[]] * 2 + [["two"]]
    assert [about for _, about in read] == [{"note": ["a", 1]}, {}, {}]
    for (run, _), before in zip(read, runs, strict=True):
        assert (run.choices, run.settings, run.fold) == (before.choices, before.settings, before.fold)
        assert (run.fingerprint, run.seeds, run.typed) == (before.fingerprint, before.seeds, before.typed)
        assert (run.id, run.path) == (before.id, file / before.id)
        assert run.metrics.keys() == before.metrics.keys()
        for name, estimate in run.metrics.items():
            assert (estimate.n, estimate.mean) == (before.metrics[name].n, pytest.approx(before.metrics[name].mean))
            assert estimate.sd == pytest.approx(before.metrics[name].sd)


def test_groups_of_both_are_the_same(runs, tmp_path):
    results_frame(runs).write_parquet(tmp_path / "results.parquet")
    before, after = group_runs(runs), group_runs(collect([tmp_path / "results.parquet"]).runs)
    assert [Labels(after).overrides(group) for group in after] == [Labels(before).overrides(group) for group in before]
    for one, other in zip(before, after, strict=True):
        assert one.values("test_ndcg_10") == other.values("test_ndcg_10")


def test_the_same_runs_in_a_folder_and_in_a_file_are_one_group(runs, tmp_path):
    results_frame(runs).write_parquet(tmp_path / "results.parquet")
    both = group_runs(collect([tmp_path, tmp_path / "results.parquet"]).runs)
    assert [group.n for group in both] == [group.n for group in group_runs(runs)]


def test_a_frame_has_every_run_once_and_no_traces(runs, tmp_path):
    file = tmp_path / "results.parquet"
    runs = [replace(run, id=f"run{number}") for number, run in enumerate(runs)]
    results_frame(runs, rows=[["one", "two"], [], []]).write_parquet(file)
    assert len(load(file)) == len(pl.read_parquet(file)) == 5
    with pytest.raises(ValueError, match=r"table must be summary for .*results.parquet, which has final values only"):
        load(file, table="trace")


def test_a_folder_with_such_files_alone_names_them(runs, tmp_path):
    folder = tmp_path / "published"
    folder.mkdir()
    results_frame(runs).write_parquet(folder / "results.parquet")
    pl.DataFrame({"run": [1]}).write_parquet(folder / "other.parquet")
    message = rf"no finished runs below {folder} \(published results: {folder / 'results.parquet'}\)$"
    with pytest.raises(ValueError, match=message):
        load(folder)


def test_other_files_are_refused(tmp_path):
    (tmp_path / "text.parquet").write_text("no table")
    with pytest.raises(ValueError, match=r"text.parquet cannot be read"):
        collect([tmp_path / "text.parquet"])
    pl.DataFrame({"run": [1]}).write_parquet(tmp_path / "other.parquet")
    with pytest.raises(ValueError, match=r"must have the results of runs, got a table without rows, dataset, fold"):
        collect([tmp_path / "other.parquet"])
