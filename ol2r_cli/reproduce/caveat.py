"""What a figure was made with, in a line, and loudly so where that is not the protocol of the paper."""

from __future__ import annotations

from ol2r_cli.reproduce.protocol import STAND_IN, Protocol
from ol2r_cli.reproduce.words import Words, values
from ol2r_cli.results.identity import NOT_HASHED

_ALL_THE_SAME = {*NOT_HASHED, "dataset.path", "click"}  # words that leave every number as it is
GENERATED = "generated data"


def made_with(protocol: Protocol) -> str:
    """Such as: quick: T = 1,000, 5 seeds, generated data."""
    grounds = dict.fromkeys(GENERATED if ground.words["dataset"] == f"dataset={STAND_IN}" else ground.title
                            for ground in protocol.grounds)  # fmt: skip
    parts = [*_runs(protocol), " and ".join(grounds)]
    return f"{protocol.scale}: {', '.join(parts)}"


def caveat(protocol: Protocol) -> str:
    """Why numbers cannot be compared with those of the paper; empty where they can."""
    said = made_with(protocol)
    typed = [word for name, word in protocol.typed.items() if name not in _ALL_THE_SAME]
    if protocol.scale == "quick":
        return f"{said}: shapes can be compared, numbers cannot"
    if not protocol.own_data:
        return f"{said}, which is not the data of the paper: numbers cannot be compared"
    return f"{said}, with {' '.join(typed)}, which is not the protocol of the paper" if typed else ""


def _runs(protocol: Protocol) -> list[str]:
    """Rounds, seeds and folds, where anything is run."""
    if not protocol.recipe.competitors:
        return []
    shared = protocol.shared(protocol.grounds[0])
    rounds, seeds = _number(shared, "rounds"), _number(shared, "replicas")
    folds = len(values(shared["dataset.fold"])) if "dataset.fold" in shared else 1
    several = f" x {folds} folds" if folds > 1 else ""
    return [f"T = {rounds:,}", f"{seeds} seed{'s' * (seeds > 1)}{several}"]


def _number(shared: Words, name: str) -> int:
    given = shared[name].partition("=")[2]
    if not given.isdecimal():
        raise ValueError(f"{name} must be a whole number, got {given}")
    return int(given)
