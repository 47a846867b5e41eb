"""Small recipes in folders of their own."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from ol2r_cli.plugins.benchmark import recipe as recipe_module
from ol2r_cli.plugins.benchmark import results
from ol2r_cli.plugins.benchmark.recipe import Recipe, load_recipe, recipe_dir
from ol2r_cli.plugins.benchmark.results import Row

SCALES = {"quick": "rounds=100 replicas=3", "paper": "rounds=5000 replicas=20"}
PAPER: dict[str, Any] = {
    "title": "A figure",
    "paper": "pairrank",
    "where": "figure 1",
    "shows": "something",
    "claims": ["A is best"],
    "seen": ["no, B is"],
    "data": ["mslr", "yahoo"],
    "words": "click=perfect",
    "scale": SCALES,
}
BENCHMARK: dict[str, Any] = {
    "title": "Tiny",
    "shows": "two rankers",
    "data": {
        "small": {"words": "dataset=synthetic dataset.queries={train:10,validation:5,test:5} dataset.documents=8"}
    },
    "words": "click=perfect,informational device.threads=1",
    "baseline": "random",
    "competitors": {
        "random": {"words": "ranker=random"},
        "SGD": {"words": "ranker=sgd_ranknet", "grid": "ranker.learning_rate=0.001,0.01,5"},
    },
    "choose": "seed=1000 replicas=1 evaluate_on=[validation]",
    "scale": {
        "full": "rounds=40 replicas=3 evaluate_every=20",
        "check": "click=informational rounds=10 replicas=2 evaluate_every=10",
    },
}


def write(folder: Path, name: str, **content: Any) -> None:
    """A recipe; None leaves out a key."""
    text = yaml.safe_dump({key: value for key, value in content.items() if value is not None}, sort_keys=False)
    (folder / f"{name}.yaml").write_text(text)


def use(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Makes a folder that of all recipes, with the datasets of the papers."""
    folder.mkdir(exist_ok=True)
    (folder / "data").symlink_to(recipe_dir("reproduce") / "data")
    monkeypatch.setattr(recipe_module, "recipe_dir", lambda command: folder)
    return folder


@cache
def rows_of(name: str) -> list[Row]:
    """The published rows of a benchmark, which are read once for all tests."""
    return results.published(name)


def published_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes a folder that of all published results."""
    monkeypatch.setattr(results, "published_dir", lambda: folder)


def load(command: str, folder: Path, **changes: Any) -> Recipe:
    """One of the recipes above with changes, from a folder in use."""
    name, content = ("pairrank_x", PAPER) if command == "reproduce" else ("tiny", BENCHMARK)
    write(folder, name, **{**content, **changes})
    return load_recipe(command, name)
