"""What a change of intent costs, from curves that are written down, and from runs of the command line."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from ol2r_cli import cli
from ol2r_cli.plugins.figures.recovery import recovery
from tests.finished import refused
from tests.manifests import on_disk
from tests.report.runs import groups_and_labels, play

# NDCG@10 of three seeds each ten rounds. The intent changes after round 40, and again after round 80.
CHANGING = {
    0: [0.1, 0.3, 0.4, 0.4, 0.5, 0.2, 0.30, 0.3, 0.385, 0.6, 0.6, 0.6, 0.7],
    1: [0.1, 0.3, 0.4, 0.4, 0.6, 0.2, 0.39, 0.2, 0.20, 0.6, 0.6, 0.6, 0.7],
    2: [0.1, 0.3, 0.4, 0.4, 0.4, 0.2, 0.20, 0.2, 0.30, 0.6, 0.6, 0.6, 0.7],
}
STAYING = {0: [0.1, 0.1, 0.1, 0.1, 0.4, 0.4, 0.4, 0.4, 0.9]}  # users who have had intent 2 from the start
ALWAYS_2 = ("intent=none", "intent._target_=x.NoChange", "dataset.intent=2")


def ran(root: Path, curves: dict[int, list[float]], *words: str, rounds: int):
    online = {"online_ndcg": {seed: [0.5] for seed in curves}}
    play(root, "ranker=pdgd", *words, trace=online, test=curves, every=10, rounds=rounds)


def changing(root: Path, *words: str, intent: str = "abrupt", intents: str = "[1,2,1]", rounds: int = 120):
    schedule = f"intent={intent}", f"intent._target_=x.{intent.title()}", f"intent.intents={intents}"
    ran(root, CHANGING, *schedule, "intent.every=40", "dataset.intent=null", *words, rounds=rounds)


def rows(root: Path) -> tuple[list[dict], list[list[str]]]:
    """Values, and the last three columns as they are printed."""
    table = recovery(*groups_and_labels(root))
    return table.values(), [[cell.text for cell in row[-3:]] for row in table.rows]


def test_each_change_of_intent_has_a_row(tmp_path):
    """95 % of .4 is reached after 40 and after 20 rounds by two seeds, and what comes later does not count."""
    changing(tmp_path)
    ran(tmp_path, STAYING, *ALWAYS_2, rounds=80)
    ran(tmp_path, {0: [0.01] * 5}, *ALWAYS_2, "ranker.l2=2", rounds=80)
    (first, second), texts = rows(tmp_path)
    assert texts == [["0.4000", "2 of 3", "40"], ["", "", ""]]
    told = {
        **{"round": 40, "intent_before": 1, "intent_after": 2, "rounds_of_phase": 40},
        **{"before": 0.5, "after": 0.2, "end": 0.885 / 3, "drop": 0.6, "from_the_start": 0.4},
        **{"units": 3, "recovered": 2, "median_rounds": 40},
    }
    assert {name: first[name] for name in told} == pytest.approx(told)
    told = {"round": 80, "intent_before": 2, "intent_after": 1, "from_the_start": None, "drop": 0, "recovered": 0}
    assert {name: second[name] for name in told} == told
    assert second["median_rounds"] is None


def test_most_units_decide_the_median(tmp_path):
    changing(tmp_path, rounds=80)
    ran(tmp_path, {0: [0.41] * 5}, *ALWAYS_2, rounds=40)
    (row,), texts = rows(tmp_path)
    assert (row["recovered"], row["median_rounds"], texts[0][-1]) == (1, None, "> 40")


def test_intents_may_recur(tmp_path):
    changing(tmp_path, intent="recurring", intents="[1,2]")
    found, _ = rows(tmp_path)
    assert [(row["round"], row["intent_before"], row["intent_after"]) for row in found] == [(40, 1, 2), (80, 2, 1)]


def test_the_last_evaluation_before_a_smooth_change_counts(tmp_path):
    """It begins 15 rounds earlier, after round 20, and the second intent stays."""
    changing(tmp_path, "intent.width=15", intent="smooth", intents="[1,2]")
    (row,), _ = rows(tmp_path)
    assert (row["before"], row["rounds_of_phase"]) == (pytest.approx(0.4), 80)


def test_users_who_never_change_have_no_row(tmp_path):
    ran(tmp_path, STAYING, *ALWAYS_2, rounds=80)
    with pytest.raises(ValueError, match="--recovery needs runs whose users change their intent"):
        rows(tmp_path)


def test_runs_of_the_command_line(tmp_path, capsys):
    common = ["ranker=pdgd", "dataset.queries={train: 12, validation: 0, test: 6}", "dataset.documents=12"]
    common += ["dataset.features=6", "evaluate_every=10", f"output_dir={tmp_path}", "replicas=2"]
    common += ["dataset.intents={number: 2, overlap: -1}"]
    assert cli.main(["run", *common, "rounds=40", "intent=abrupt", "intent.every=20"]) == 0
    assert cli.main(["run", *common, "rounds=20", "dataset.intent=2"]) == 0
    assert cli.main(["report", str(tmp_path), "--recovery", "--out", str(tmp_path / "recovery.parquet")]) == 0
    (row,) = pl.read_parquet(tmp_path / "recovery.parquet").iter_rows(named=True)
    (staying,) = (path for path in tmp_path.glob("synthetic/*") if "abrupt" not in path.name)
    last = pl.read_parquet(staying / "evaluation.parquet").filter(split="test", round=20)["ndcg_10"]
    assert row["from_the_start"] == pytest.approx(last.cast(pl.Float64).mean())
    assert (row["round"], row["intent_before"], row["intent_after"], row["units"]) == (20, 1, 2, 2)
    assert "intent" not in on_disk(staying)["choices"]
    for option, value in ("--figure", "learning_curve"), ("--metric", "clicks"):
        line = refused(capsys, "report", tmp_path, "--recovery", option, value)
        assert line.startswith("--recovery is a table by itself")
