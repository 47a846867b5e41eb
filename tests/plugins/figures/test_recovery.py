"""What a change of intent costs, from curves that are written down, and from runs of the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from ol2r_cli import cli
from ol2r_cli.plugins.figures import recovery as module
from ol2r_cli.plugins.figures.recovery import recovery
from ol2r_cli.plugins.figures.series import Series
from ol2r_cli.report.names import Labels
from ol2r_cli.report.run_groups import Group

CHOICES = {"dataset": "synthetic", "click": "perfect", "ranker": "pdgd", "exploration": "plackett_luce"}
# Round -> NDCG@10 of three seeds. The intent changes after round 40, and again after round 80.
CHANGING = {
    **{0: [0.1, 0.1, 0.1], 20: [0.4, 0.4, 0.4], 40: [0.5, 0.6, 0.4], 50: [0.2, 0.2, 0.2], 60: [0.3, 0.39, 0.2]},
    **{80: [0.38, 0.2, 0.3], 90: [0.6, 0.6, 0.6], 120: [0.7, 0.7, 0.7]},
}
STAYING = {0: [0.1], 40: [0.4], 80: [0.9]}  # users who have had intent 2 from the start
SCHEDULE = {"intent._target_": "x.Abrupt", "intent.intents": [1, 2, 1], "intent.every": 40, "intent.share": 1}
SCHEDULE["dataset.intent"] = None


def test_rows_of_curves(monkeypatch):
    curves: dict[int, Series] = {}

    def group(curve: dict[int, list[float]], intent: str, **settings: object) -> Group:
        made = Group({**CHOICES, "intent": intent, "fairness": "none"}, {"ranker.l2": 1, **settings}, [])
        curves[id(made)] = Series(np.array([*curve]), np.array([*curve.values()]).T)
        return made

    def rows(*groups: Group) -> tuple[list[dict], list[list[str]]]:
        table = recovery(groups, Labels(groups))
        return table.values(), [[cell.text for cell in row[-3:]] for row in table.rows]

    given = {("ndcg_10", "test"): lambda group: curves[id(group)]}
    monkeypatch.setattr(module, "evaluation_series", lambda group, *what: given[what](group))
    monkeypatch.setattr(Labels, "ordered", lambda self, groups, metric: groups)
    changing = group(CHANGING, "abrupt", rounds=120, **SCHEDULE)
    staying = group(STAYING, "none", rounds=80, **{"dataset.intent": 2, "intent._target_": "x.NoChange"})
    other = group({40: [0.01]}, "none", rounds=80, **{"dataset.intent": 2, "ranker.l2": 2})
    (first, second), texts = rows(other, changing, staying)
    assert [first[name] for name in ("round", "intent_before", "intent_after", "rounds_of_phase")] == [40, 1, 2, 40]
    numbers = [first[name] for name in ("before", "after", "end", "drop", "from_the_start")]
    assert numbers == pytest.approx([0.5, 0.2, 0.88 / 3, 0.6, 0.4])
    # .38 is reached after 40 and after 20 rounds, and what comes later does not count
    assert [first[name] for name in ("units", "recovered", "median_rounds")] == [3, 2, 40]
    assert (second["round"], second["intent_before"], second["intent_after"]) == (80, 2, 1)
    assert (second["from_the_start"], second["drop"], second["recovered"], second["median_rounds"]) == (
        None,
        0,
        0,
        None,
    )
    assert texts == [["0.4000", "2 of 3", "40"], ["", "", ""]]
    shorter = group(CHANGING, "abrupt", rounds=80, **SCHEDULE)
    (row,), texts = rows(shorter, group({40: [0.41]}, "none", rounds=40, **{"dataset.intent": 2}))
    assert (row["recovered"], row["median_rounds"]) == (1, None), "most units decide the median"
    assert texts[0][-1] == "> 40"
    settings = {**SCHEDULE, "intent.intents": [1, 2], "rounds": 120}
    again, _ = rows(group(CHANGING, "recurring", **settings | {"intent._target_": "x.Recurring"}))
    assert [(row["round"], row["intent_before"], row["intent_after"]) for row in again] == [(40, 1, 2), (80, 2, 1)]
    (smooth,), _ = rows(group(CHANGING, "smooth", **settings, **{"intent.width": 15}))
    assert smooth["before"] == pytest.approx(0.4)  # round 20, the last evaluation before the change began
    assert smooth["rounds_of_phase"] == 80
    with pytest.raises(ValueError, match="--recovery needs runs whose users change their intent"):
        rows(group(STAYING, "none", rounds=80))


def test_runs_of_the_command_line(tmp_path: Path, capsys):
    common = ["ranker=pdgd", "dataset.queries={train: 12, validation: 0, test: 6}", "dataset.documents=12"]
    common += ["dataset.features=6", "evaluate_every=10", f"output_dir={tmp_path}", "replicas=2"]
    common += ["dataset.intents={number: 2, overlap: -1}"]
    assert cli.main(["run", *common, "rounds=40", "intent=abrupt", "intent.every=20"]) == 0
    assert cli.main(["run", *common, "rounds=20", "dataset.intent=2"]) == 0
    assert cli.main(["report", str(tmp_path), "--recovery", "--out", str(tmp_path / "recovery.parquet")]) == 0
    (row,) = pl.read_parquet(tmp_path / "recovery.parquet").iter_rows(named=True)
    changing, staying = sorted(tmp_path.glob("synthetic/*"), key=lambda path: "abrupt" not in path.name)
    assert "intent" not in json.loads((staying / "run.json").read_text())["choices"]

    def mean(folder: Path, round: int) -> float:
        table = pl.read_parquet(folder / "evaluation.parquet").filter(split="test", round=round)
        return float(table["ndcg_10"].cast(pl.Float64).mean())

    found = [row["before"], row["after"], row["end"], row["from_the_start"]]
    assert found == pytest.approx([mean(changing, 20), mean(changing, 30), mean(changing, 40), mean(staying, 20)])
    assert (row["round"], row["intent_before"], row["intent_after"], row["units"]) == (20, 1, 2, 2)
    capsys.readouterr()
    assert cli.main(["report", str(tmp_path), "--recovery", "--figure", "learning_curve"]) == 2
    assert "--recovery is a table by itself" in capsys.readouterr().err
