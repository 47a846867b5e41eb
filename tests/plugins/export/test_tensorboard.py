"""Runs for TensorBoard: read from their files in plain loops, written twice, and read back with its package."""

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
from ol2r_cli.plugins.export.tensorboard import tracked_run, write
from tests.finished import ROUNDS, SEEDS, FinishedRuns


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


@pytest.mark.filterwarnings("ignore")  # warnings of the package of TensorBoard are not ours
def test_tensorboard(runs: FinishedRuns, tmp_path: Path, capsys):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    tracked = [tracked_run(runs[name], points=7) for name in ("linear", "network")]
    (tmp_path / tracked[0].name).mkdir(parents=True)
    foreign = tmp_path / tracked[0].name / "events.out.tfevents.of.another"
    foreign.write_bytes(b"")
    paths = [str(run.run.path) for run in tracked]
    assert cli.main(["export", *paths, "--to", "tensorboard", "--out", str(tmp_path), "--points", "7"]) == 0
    assert capsys.readouterr().out.splitlines() == [f"written: {tmp_path / run.name}" for run in tracked]
    changed = replace(tracked[0], summary={**tracked[0].summary, "test_ndcg_10": 0.125})  # it was run again
    again = list(write([tracked[1], changed], tmp_path))
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
