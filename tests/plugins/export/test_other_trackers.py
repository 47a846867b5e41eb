"""The recipes of docs/how-to/export.md for MLflow and W&B: what they log of a finished run. Stand-ins take it here."""

from __future__ import annotations

import re
import sys
from contextlib import nullcontext
from pathlib import Path
from statistics import fmean
from types import SimpleNamespace

import polars as pl
import pytest

PAGE = (Path(__file__).parents[3] / "docs" / "how-to/export.md").read_text()


@pytest.mark.parametrize("tracker", ["mlflow", "wandb"])
def test_curves_of_means_over_seeds_are_logged(tracker, runs, monkeypatch):
    recipe = re.search(rf"```python\n(import {tracker}, .*?)```", PAGE, re.DOTALL)
    assert recipe is not None
    logged: list[tuple[int, dict[str, float]]] = []

    def log(values: dict[str, float], step: int) -> None:
        logged.append((step, dict(values)))

    named = {"mlflow": {"start_run": lambda run_name: nullcontext(), "log_metrics": log}}
    named["wandb"] = {"init": lambda project, name, mode: nullcontext(SimpleNamespace(log=log))}
    monkeypatch.setitem(sys.modules, tracker, SimpleNamespace(**named[tracker]))
    monkeypatch.chdir(runs["linear"])
    exec(recipe[1], {})
    rows = pl.read_parquet("trace.parquet").to_dicts()  # 30 rounds of two seeds
    stretches = {20: range(1, 21), 40: range(21, 31)}
    means = {step: fmean(r["online_ndcg"] for r in rows if r["round"] in rounds) for step, rounds in stretches.items()}
    assert logged == [(step, {"online_ndcg": pytest.approx(mean)}) for step, mean in means.items()]
