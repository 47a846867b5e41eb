"""Small searches: overrides of runs that take a few tenths of a second, and studies without runs."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from ol2r_cli.config.composer import Composer
from ol2r_cli.plugins.search.space import Direction, Space
from ol2r_cli.plugins.search.study import Study, search_plan

TINY = [
    "dataset.queries={train: 12, validation: 4, test: 4}",
    "dataset.documents=8",
    "dataset.features=5",
    "rounds=40",
    "evaluate_every=10",
    "checkpoint_rounds=10",
]
COMPOSER = Composer()  # composes each set of choices once for all tests


@cache
def space(*words: str) -> Space:
    """The space of `ol2r search WORDS`."""
    return Space(words)


def study(folder: Path, *words: str, seed: int = 0, direction: Direction = "maximize") -> Study:
    """A study over these ranges, to be opened by `with`."""
    ranges = space(*(words or ("ranker.l2=log(1e-4,10)", "exploration.alpha=float(0,1)")))
    return Study(folder, ranges, search_plan(ranges, "validation_ndcg_10", seed), direction)
