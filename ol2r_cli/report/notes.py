"""The lines under a table: what the figures are, how they were compared, and what is not in them."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence

from ol2r_cli.report.collect import Collection
from ol2r_cli.report.comparison import Comparison
from ol2r_cli.report.groups import Group
from ol2r_cli.report.significance import ALPHA, least_p
from ol2r_cli.report.statistics import LEVEL

_TEST = {"t": "paired t test", "permutation": "permutation test (signs of the differences)"}


def notes(
    collection: Collection, groups: Sequence[Group], selected: bool, comparison: Comparison | None = None
) -> list[str]:
    """selected: whether any of the groups was chosen from several cells."""
    runs, folds = len(collection.runs), any(len(group.seeds) > 1 for group in groups)
    figures = (
        "means over n values, one for each (fold, seed), every fold counting the same; ± is half the width of the "
        f"{LEVEL:.0%} interval of the mean (Student's t) with the {_units(['folds'])} where there are several folds, "
        "else with the seeds"
        if folds
        else f"means over n values, one for each seed; ± is half the width of the {LEVEL:.0%} interval of the mean "
        "(Student's t)"
    )
    lines = [f"{runs} run{'s' * (runs > 1)}. Figures are {figures}, left out for a single value."]
    if selected:
        lines.append(
            "The settings are those with the best mean validation NDCG@10 after the last evaluated round. The seeds "
            "that chose them are those that report: to report others, run the chosen ones with them (--overrides)."
        )
    return lines + (_compared(comparison) if comparison else []) + left_out(collection)


def left_out(collection: Collection) -> list[str]:
    """Lines about the runs that are not in the report."""
    lines = [
        f"{count} run{'s' * (count > 1)} not finished: {shlex.join(['ol2r', 'status', str(folder)])}"
        for folder, count in collection.unfinished.items()
    ]
    if collection.damaged:
        count = len(collection.damaged)
        first = "the first is " if count > 1 else ""
        lines.append(f"{count} run{'s' * (count > 1)} damaged: {first}{collection.damaged[0]}")
    return lines


def _compared(comparison: Comparison) -> list[str]:
    tested = [d for d in comparison.differences if d.p is not None]
    units = sorted({"folds" if d.estimate.folds > 1 else "seeds" for d in tested})
    family = max(Counter(d.metric for d in tested).values(), default=0)
    mark = (
        "Letters name the rows that a value is significantly better than"
        if comparison.baseline is None
        else f"↑ and ↓ are significantly more and less than {comparison.baseline}"
    )
    lines = [
        f"{mark}, at {ALPHA} after Holm's correction for the {family} comparison{'s' * (family != 1)} of each metric: "
        f"{_TEST[comparison.test]} over the (fold, seed) that both have, with the {_units(units)}."
        if tested
        else "Nothing was tested: no two rows of a task have two seeds in common. More of them: type replicas=10."
    ]
    lines += _too_few(comparison, family)
    missing = [d for d in comparison.differences if d.missing]
    if missing:
        most = max(missing, key=lambda d: d.missing)
        several = f"{len(missing)} comparison{'s' * (len(missing) > 1)}"
        pairs = f"{most.missing} of {most.estimate.n + most.missing}"
        lines.append(f"Not all (fold, seed) are in both rows of {several}; where most are missing, {pairs} are.")
    if comparison.alone:
        more = f", and {len(comparison.alone) - 3} more" * (len(comparison.alone) > 3)
        what = "a single row" if comparison.baseline is None else "no other row, or no baseline"
        lines.append(f"Not compared, with {what}: {'; '.join(comparison.alone[:3])}{more}.")
    return lines


def _units(units: Sequence[str]) -> str:
    first, *others = (f"{unit} as units (degrees of freedom: {unit} - 1)" for unit in units)
    return ", or ".join([first, *(other.replace("degrees of freedom: ", "") for other in others)])


def _too_few(comparison: Comparison, family: int) -> list[str]:
    """Where the test could not have found anything, whatever the values."""
    most = max(comparison.differences, key=lambda d: d.estimate.units, default=None)
    if most is None or most.p is None:
        return []
    least = min(1.0, family * least_p(comparison.test, most.estimate.units))
    unit = "folds" if most.estimate.folds > 1 else "seeds"
    if least < ALPHA:
        return []
    return [
        f"With {most.estimate.units} {unit} and {family} comparison{'s' * (family > 1)} no p of this test can be below "
        f"{least:.2g} after the correction, so nothing can be significant: type --test t, or run more {unit}."
    ]
