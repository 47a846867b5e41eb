"""Runs for trackers: read from their files in plain loops, written twice, and read back with the trackers' packages."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from statistics import fmean

import polars as pl
import pytest

from ol2r_cli import cli
from ol2r_cli.plugins.export.trackers import TrackedRun, tracked_run, write_mlflow, write_tensorboard, write_wandb
from tests.plugins.export.finished import ROUNDS, SEEDS, FinishedRuns

other_packages = pytest.mark.filterwarnings("ignore")  # warnings of the trackers' packages are not ours


def test_points_are_means_and_of_a_total_the_last_value(runs):
    """Points are means over their rounds and seeds, and of a total the last value."""
    curves = tracked_run(runs["linear"], points=4).curves
    rows = pl.read_parquet(runs["linear"] / "trace.parquet").to_dicts()
    stretches = [range(1, 9), range(9, 17), range(17, 25), range(25, 31)]  # 30 rounds in 4, hence of 8 rounds
    by_seed = [[[r for r in rows if r["round"] in s and r["seed"] == seed] for seed in SEEDS] for s in stretches]
    ndcg = [fmean(fmean(r["online_ndcg"] for r in rows_of) for rows_of in parts) for parts in by_seed]
    total = [fmean(rows_of[-1]["cumulative_ndcg"] for rows_of in parts) for parts in by_seed]
    assert [round for round, _ in curves["trace/online_ndcg"]] == [8, 16, 24, 30]
    assert [value for _, value in curves["trace/online_ndcg"]] == pytest.approx(ndcg)
    assert [value for _, value in curves["trace/cumulative_ndcg"]] == pytest.approx(total)
    assert not {"trace/regret", "trace/query"} & curves.keys(), "null throughout, and no measure"
    rows = pl.read_parquet(runs["linear"] / "evaluation.parquet").filter(split="test").to_dicts()
    means = [(round, fmean(r["ndcg_10"] for r in rows if r["round"] == round)) for round in (0, 10, 20, ROUNDS)]
    assert curves["evaluation/test_ndcg_10"] == [(round, pytest.approx(mean)) for round, mean in means]


def test_settings_summary_and_facts_and_a_damaged_run(runs, tmp_path):
    run = tracked_run(runs["network"])
    summary = json.loads((runs["network"] / "summary.json").read_text())["metrics"]
    assert run.name == f"letor/{runs['network'].name}"
    assert run.settings["ranker.model.width"] == 64
    assert run.facts["seeds"] == "[4, 5]"
    assert run.facts["choices.ranker/model"] == "mlp"
    assert run.summary["test_ndcg_10"] == summary["test_ndcg_10"]["mean"]
    assert run.summary["test_ndcg_10_sd"] == summary["test_ndcg_10"]["sd"]
    run = replace(run, ended=run.started + timedelta(seconds=2 * ROUNDS))
    assert [run.time(round) - run.started.timestamp() for round in (0, 1, ROUNDS)] == [0, 2, 2 * ROUNDS]
    shutil.copytree(runs["linear"], tmp_path / "run")
    (tmp_path / "run" / "trace.parquet").write_bytes(b"half of it")
    with pytest.raises(ValueError, match=r"is damaged \(trace.parquet has 10 bytes, .*: type ol2r run "):
        tracked_run(tmp_path / "run")


@pytest.fixture
def tracked(runs: FinishedRuns) -> list[TrackedRun]:
    return [tracked_run(runs[name], points=7) for name in ("linear", "network")]


def later(run: TrackedRun) -> TrackedRun:
    """The same run, run again with another result."""
    summary = {**run.summary, "test_ndcg_10": 0.125}
    ended = run.ended + timedelta(hours=1)
    return replace(run, ended=ended, facts={**run.facts, "ended": ended.isoformat()}, summary=summary)


@other_packages
def test_tensorboard(tracked: list[TrackedRun], tmp_path: Path, capsys):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    (tmp_path / tracked[0].name).mkdir(parents=True)
    foreign = tmp_path / tracked[0].name / "events.out.tfevents.of.another"
    foreign.write_bytes(b"")
    paths = [str(run.run.path) for run in tracked]
    assert cli.main(["export", *paths, "--to", "tensorboard", "--out", str(tmp_path), "--points", "7"]) == 0
    assert capsys.readouterr().out.splitlines() == [f"written: {tmp_path / run.name}" for run in tracked]
    again = list(write_tensorboard([tracked[1], later(tracked[0])], tmp_path))
    assert again == [f"replaced: {tmp_path / run.name}" for run in reversed(tracked)]
    for run in tracked:
        (file,) = (tmp_path / run.name).glob("*.ol2r")
        events = EventAccumulator(str(file), size_guidance={"scalars": 0}).Reload()
        tags = events.Tags()
        assert {*run.curves, *(f"summary/{name}" for name in run.summary)} == set(tags["scalars"])
        for name, curve in run.curves.items():
            assert [(event.step, pytest.approx(event.value)) for event in events.Scalars(name)] == curve
        assert "settings/text_summary" in tags["tensors"]
    file = next((tmp_path / tracked[0].name).glob("*.ol2r"))
    assert EventAccumulator(str(file)).Reload().Scalars("summary/test_ndcg_10")[0].value == 0.125
    assert foreign.exists()


@other_packages
def test_mlflow(tracked: list[TrackedRun], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("mlflow")
    monkeypatch.chdir(tmp_path)
    from mlflow.tracking import MlflowClient

    out = tmp_path / "store" / "runs.db"
    with pytest.raises(ValueError, match=r"--out must be a file that ends in \.db, got .*/store"):
        list(write_mlflow(tracked, out.parent))
    assert list(write_mlflow(tracked, out)) == [f"written: {run.name}" for run in tracked]
    again = [later(tracked[0]), tracked[1]]
    assert list(write_mlflow(again, out)) == [f"replaced: {tracked[0].name}", f"there already: {tracked[1].name}"]
    client = MlflowClient(f"sqlite:///{out}")
    number = client.get_experiment_by_name("ol2r").experiment_id
    records = {run.data.tags["ol2r.run"]: run for run in client.search_runs([number])}
    assert records.keys() == {run.run.id for run in tracked}
    for run in again:
        record = records[run.run.id]
        assert record.data.params == {name: str(value) for name, value in run.settings.items()}
        assert record.data.metrics["test_ndcg_10"] == run.summary["test_ndcg_10"]
        assert record.info.end_time == 1000 * run.ended.timestamp()
        for name in ("trace/online_ndcg", "evaluation/test_ndcg_10"):
            history = client.get_metric_history(record.info.run_id, name)
            assert sorted((point.step, point.value) for point in history) == run.curves[name]
    assert {path.name for path in tmp_path.iterdir()} == {"store"}, "nothing is written elsewhere"


@other_packages
def test_wandb(tracked: list[TrackedRun], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("wandb")
    for name in ("HOME", "WANDB_CACHE_DIR", "WANDB_CONFIG_DIR", "WANDB_DATA_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "home"))

    out = tmp_path / "out"
    assert list(write_wandb(tracked, out)) == [f"written: {run.name}" for run in tracked]
    assert list(write_wandb(tracked[:1], out)) == [f"replaced: {tracked[0].name}"]
    files = {folder.name.rpartition("-")[2]: folder for folder in (out / "wandb").glob("offline-run-*")}
    assert files.keys() == {run.run.id for run in tracked}
    for run in tracked:
        content = (files[run.run.id] / f"run-{run.run.id}.wandb").read_bytes()
        for text in (*run.curves, *run.summary, *run.settings):
            assert text.encode() in content, text
