"""What trackers are told of a run, derived from its files in plain loops."""

from __future__ import annotations

import json
import shutil
from statistics import fmean

import polars as pl
import pytest

from ol2r_cli.export.tracked import tracked
from tests.export.finished import ROUNDS, SEEDS


def test_a_point_is_the_mean_of_its_rounds_and_seeds_and_a_total_is_the_last(runs):
    found = tracked(runs["linear"], points=4).curves
    rows = pl.read_parquet(runs["linear"] / "trace.parquet").to_dicts()
    stretches = [range(1, 9), range(9, 17), range(17, 25), range(25, 31)]  # 30 rounds in 4, hence of 8 rounds
    by_seed = [[[r for r in rows if r["round"] in s and r["seed"] == seed] for seed in SEEDS] for s in stretches]
    ndcg = [fmean(fmean(r["online_ndcg"] for r in of) for of in parts) for parts in by_seed]
    total = [fmean(of[-1]["cumulative_ndcg"] for of in parts) for parts in by_seed]
    assert [round for round, _ in found["trace/online_ndcg"]] == [8, 16, 24, 30]
    assert [value for _, value in found["trace/online_ndcg"]] == pytest.approx(ndcg)
    assert [value for _, value in found["trace/cumulative_ndcg"]] == pytest.approx(total)
    assert "trace/regret" not in found, "null throughout"
    assert "trace/query" not in found, "no measure"


def test_evaluations_are_means_over_seeds_at_every_evaluated_round(runs):
    found = tracked(runs["linear"]).curves["evaluation/test_ndcg_10"]
    rows = pl.read_parquet(runs["linear"] / "evaluation.parquet").filter(split="test").to_dicts()
    rounds = (0, 10, 20, ROUNDS)
    assert found == [
        (round, pytest.approx(fmean(r["ndcg_10"] for r in rows if r["round"] == round))) for round in rounds
    ]


def test_settings_summary_and_facts(runs):
    run = tracked(runs["network"])
    summary = json.loads((runs["network"] / "summary.json").read_text())["metrics"]
    assert run.name == f"letor/{runs['network'].name}"
    assert run.settings["ranker.model.width"] == 8
    assert run.facts["seeds"] == "4 5"
    assert run.facts["choice_ranker/model"] == "mlp"
    assert run.summary["test_ndcg_10"] == summary["test_ndcg_10"]["mean"]
    assert run.summary["test_ndcg_10_sd"] == summary["test_ndcg_10"]["sd"]


def test_only_finished_runs_that_are_whole(runs, tmp_path):
    copy = tmp_path / "run"
    shutil.copytree(runs["linear"], copy)
    (copy / "trace.parquet").write_bytes(b"half of it")
    with pytest.raises(ValueError, match=r"is damaged \(ComputeError.*: type ol2r run .* force=true"):
        tracked(copy)
    manifest = json.loads((copy / "run.json").read_text())
    (copy / "run.json").write_text(json.dumps({**manifest, "status": "interrupted"}))
    with pytest.raises(ValueError, match=r"must be a finished run, got .*, which is interrupted"):
        tracked(copy)
