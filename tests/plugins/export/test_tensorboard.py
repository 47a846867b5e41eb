"""Runs for TensorBoard: read from their files in plain loops, written twice, and read back with its package."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from statistics import fmean
from typing import Any

import polars as pl
import pytest

from ol2r_cli import cli
from ol2r_cli.plugins.export.tensorboard import TrackedRun, tracked_run, write
from tests.finished import ROUNDS

STRETCHES = [range(1, 9), range(9, 17), range(17, 25), range(25, 31)]  # 30 rounds in 4, hence of 8 rounds


@pytest.fixture(scope="module")
def linear(runs) -> TrackedRun:
    return tracked_run(runs["linear"], points=4)


def mean(rows: list[dict[str, Any]], column: str, rounds: Sequence[int]) -> Any:
    """The mean over these rounds of all seeds."""
    return pytest.approx(fmean(row[column] for row in rows if row["round"] in rounds))


def test_points_are_means_and_of_a_total_the_last_value(linear):
    """Over their rounds and seeds."""
    rows = pl.read_parquet(linear.run.path / "trace.parquet").to_dicts()
    expected = [(rounds[-1], mean(rows, "online_ndcg", rounds)) for rounds in STRETCHES]
    assert linear.curves["trace/online_ndcg"] == expected
    expected = [(rounds[-1], mean(rows, "cumulative_ndcg", rounds[-1:])) for rounds in STRETCHES]
    assert linear.curves["trace/cumulative_ndcg"] == expected


def test_evaluations_are_points(linear):
    rows = pl.read_parquet(linear.run.path / "evaluation.parquet").filter(split="test").to_dicts()
    expected = [(round, mean(rows, "ndcg_10", [round])) for round in (0, 10, 20, ROUNDS)]
    assert linear.curves["evaluation/test_ndcg_10"] == expected


def test_what_is_null_throughout_or_no_measure_is_no_curve(linear):
    assert not {"trace/regret", "trace/query"} & linear.curves.keys()


def test_settings_summary_and_facts(runs):
    run = tracked_run(runs["network"])
    summary = json.loads((runs["network"] / "summary.json").read_text())["metrics"]["test_ndcg_10"]
    assert run.name == f"letor/{runs['network'].name}"
    assert run.settings["ranker.model.width"] == 64
    assert (run.facts["seeds"], run.facts["choices.ranker/model"]) == ("[4, 5]", "mlp")
    assert (run.summary["test_ndcg_10"], run.summary["test_ndcg_10_sd"]) == (summary["mean"], summary["sd"])


def test_rounds_take_equal_parts_of_the_time_of_the_run(linear):
    run = replace(linear, ended=linear.started + timedelta(seconds=2 * ROUNDS))
    assert [run.time(round) - run.started.timestamp() for round in (0, 1, ROUNDS)] == [0, 2, 2 * ROUNDS]


def test_a_damaged_run_is_refused(runs, tmp_path):
    shutil.copytree(runs["linear"], tmp_path / "run")
    (tmp_path / "run" / "trace.parquet").write_bytes(b"half of it")
    with pytest.raises(ValueError, match=r"is damaged \(trace.parquet has 10 bytes, .*: type ol2r run "):
        tracked_run(tmp_path / "run")


def events(folder: Path) -> Any:
    """What the package of TensorBoard reads in a folder."""
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    (file,) = folder.glob("*.ol2r")
    return EventAccumulator(str(file), size_guidance={"scalars": 0}).Reload()


@pytest.mark.filterwarnings("ignore")  # warnings of the package of TensorBoard are not ours
def test_its_package_reads_what_was_exported(runs, tmp_path, capsys):
    tracked = [tracked_run(runs[name], points=7) for name in ("linear", "network")]
    paths = [str(run.run.path) for run in tracked]
    capsys.readouterr()
    assert cli.main(["export", *paths, "--to", "tensorboard", "--out", str(tmp_path), "--points", "7"]) == 0
    assert capsys.readouterr().out.splitlines() == [f"written: {tmp_path / run.name}" for run in tracked]
    for run in tracked:
        found = events(tmp_path / run.name)
        assert {*run.curves, *(f"summary/{name}" for name in run.summary)} == set(found.Tags()["scalars"])
        for name, curve in run.curves.items():
            assert [(event.step, pytest.approx(event.value)) for event in found.Scalars(name)] == curve
        assert "settings/text_summary" in found.Tags()["tensors"]


@pytest.mark.filterwarnings("ignore")
def test_a_run_is_replaced_and_files_of_others_are_kept(linear, tmp_path):
    folder = tmp_path / linear.name
    folder.mkdir(parents=True)
    (folder / "events.out.tfevents.of.another").write_bytes(b"")
    changed = replace(linear, summary={**linear.summary, "test_ndcg_10": 0.125})  # it was run again
    told = [line for run in (linear, changed) for line in write([run], tmp_path)]
    assert told == [f"written: {folder}", f"replaced: {folder}"]
    assert events(folder).Scalars("summary/test_ndcg_10")[0].value == 0.125
    assert (folder / "events.out.tfevents.of.another").exists()
