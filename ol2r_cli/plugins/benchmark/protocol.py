"""The protocol of a plan of a paper in one line, and whether its numbers can be compared with those of the paper."""

from __future__ import annotations

from ol2r_cli.config.grammar import expand
from ol2r_cli.plugins.benchmark.overrides import Overrides, value_of
from ol2r_cli.plugins.benchmark.run_plan import RunPlan
from ol2r_cli.run.identity import HASHED_OTHERWISE, NOT_HASHED
from ol2r_cli.text.formatting import plural

# Settings that may be typed, as the path of the data: numbers remain comparable.
_COMPARABLE_WITH = {*NOT_HASHED, *HASHED_OTHERWISE, "click"}
# Rankers with a network that ol2r fits in another way than the papers: docs/explanation/reproduced.md says how.
_REFITTED = {f"ranker={name}" for name in ("olranknet", "ollambdarank", "ollambdarank_gt", "p2neurrank")}


def protocol(plan: RunPlan) -> tuple[str, bool]:
    """Return the protocol of the runs in one line, and whether numbers can be compared with those of the paper.

    Where they cannot, the line ends in the reason: `quick: T = 1,000, 5 seeds, generated data: shapes can ..`.
    """
    reason = _why_not_comparable(plan)
    line = f"{plan.scale}: {', '.join([*_extents(plan), _data(plan)])}"
    return f"{line}{reason}", not reason


def _data(plan: RunPlan) -> str:
    """Return the titles of the data, such as `MSLR-WEB10K and Yahoo`."""
    titles = ["generated data" if plan.stand_in in slot.shared.values() else slot.title for slot in plan.slots]
    return " and ".join(dict.fromkeys(titles))


def _extents(plan: RunPlan) -> list[str]:
    """Return how much is run, such as `T = 10,000` and `5 seeds x 5 folds`; empty where nothing is run."""
    shared = plan.slots[0].shared
    if not plan.kind.plays_rounds:
        fold = plan.kind.fold
        return [plural(len(expand(shared[fold])), fold.rpartition(".")[2])]
    if not plan.recipe.competitors:
        return []
    rounds = _whole_number(shared, "rounds")
    seeds = plural(_whole_number(shared, "replicas"), "seed")
    folds = len(expand(shared["dataset.fold"])) if "dataset.fold" in shared else 1
    return [f"T = {rounds:,}", f"{seeds} x {folds} folds" if folds > 1 else seeds]


def _whole_number(shared: Overrides, name: str) -> int:
    value = value_of(shared, name)
    if not value.isdecimal():
        raise ValueError(f"{name} must be a whole number, got {value}")
    return int(value)


def _why_not_comparable(plan: RunPlan) -> str:
    """Return the end of the line that says why numbers cannot be compared; empty where they can."""
    recipe = plan.recipe
    if plan.scale == "quick":
        return ": shapes can be compared, numbers cannot"
    for slot in plan.slots:
        used = value_of(slot.shared, plan.kind.data)
        if any(used != recipe.data[name].choice for name in slot.stands_for):
            return ", which is not the data of the paper: numbers cannot be compared"
    allowed = {*_COMPARABLE_WITH, f"{plan.kind.data}.path"}
    typed = [override for name, override in plan.typed.items() if name not in allowed]
    if typed:
        return f", with {' '.join(typed)}, which is not the protocol of the paper"
    if recipe.caveat:
        return f", {recipe.caveat}"
    if any(not _REFITTED.isdisjoint(competitor.words.split()) for competitor in recipe.competitors.values()):
        return ", with networks that are not fitted as in the paper: numbers cannot be compared"
    return ""
