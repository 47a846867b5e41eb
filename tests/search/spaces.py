"""Small searches: words of runs that take a few tenths of a second, and studies without any run."""

from __future__ import annotations

from pathlib import Path

from ol2r_cli.search.objective import Direction
from ol2r_cli.search.plan import plan
from ol2r_cli.search.space import Space
from ol2r_cli.search.study import Study

TINY = [
    "dataset.queries={train: 12, validation: 4, test: 4}",
    "dataset.documents=8",
    "dataset.features=5",
    "rounds=40",
    "evaluate_every=10",
    "checkpoint_rounds=10",
]


def study(folder: Path, *words: str, seed: int = 0, prune: bool = True, direction: Direction = "maximize") -> Study:
    """A study over these ranges, for runs of 40 rounds."""
    space = Space(words or ("ranker.l2=log(1e-4,10)", "exploration.alpha=float(0,1)"))
    return Study(folder, space, plan(space, "validation_ndcg_10", prune, seed), direction, rounds=40)
