"""The lines below a table: what the numbers are, how rows were compared, and which runs are left out."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence

from ol2r_cli.formatting import plural, printable
from ol2r_cli.report.comparison import Comparison
from ol2r_cli.report.estimates import ALPHA, LEAST_UNITS, LEVEL, least_p
from ol2r_cli.report.run_groups import Collection, Group

_TEST_NAMES = {"t": "paired t test", "permutation": "permutation test (signs of the differences)"}


def notes(
    collection: Collection, groups: Sequence[Group], chose: bool, comparison: Comparison | None = None
) -> list[str]:
    """Lines that explain the numbers, the comparison and the runs that are left out.

    chose: whether any group was chosen from several cells.
    """
    runs, folds = len(collection.runs), any(len(group.seeds) > 1 for group in groups)
    figures = (
        "means over n values, one for each (fold, seed), every fold counting the same; ± is half the width of the "
        f"{LEVEL:.0%} interval of the mean (Student's t) with the {_units(['folds'])} where there are several folds, "
        "else with the seeds"
        if folds
        else f"means over n values, one for each seed; ± is half the width of the {LEVEL:.0%} interval of the mean "
        "(Student's t)"
    )
    lines = [f"{plural(runs, 'run')}. Figures are {figures}, left out for a single value."]
    if chose:
        lines.append(
            "The settings are those with the best mean validation NDCG after the last evaluated round. The seeds "
            "that chose them are those that report: to report others, run the chosen ones with them (--overrides)."
        )
    return lines + (_comparison_notes(comparison) if comparison else []) + left_out(collection)


def left_out(collection: Collection) -> list[str]:
    """Lines about the runs that are not in the report."""
    lines = [
        f"{plural(count, 'run')} not finished: {shlex.join(['ol2r', 'status', str(folder)])}"
        for folder, count in collection.unfinished.items()
    ]
    lines += [
        f"{plural(count, 'run')} of {folder.name} left out: {shlex.join(['ol2r', 'report', str(folder)])}"
        for folder, count in collection.elsewhere.items()
    ]
    if collection.damaged:
        count = len(collection.damaged)
        first = "the first is " if count > 1 else ""
        lines.append(f"{plural(count, 'run')} damaged: {first}{collection.damaged[0]}")
    return list(map(printable, lines))


def _comparison_notes(comparison: Comparison) -> list[str]:
    tested = [d for d in comparison.differences if d.p is not None]
    units = sorted({"folds" if d.estimate.folds > 1 else "seeds" for d in tested})
    few = f"too few seeds, or folds where there are several, that both have: a test needs {LEAST_UNITS}"
    family = max(Counter(d.metric for d in tested).values(), default=0)
    mark = (
        "Letters name the rows that a value is significantly better than"
        if comparison.baseline is None
        else f"↑ and ↓ are significantly more and less than {comparison.baseline}"
    )
    lines = [
        f"{mark}, at {ALPHA} after Holm's correction for the {plural(family, 'comparison')} of each metric: "
        f"{_TEST_NAMES[comparison.test]} over the (fold, seed) that both have, with the {_units(units)}."
        if tested
        else f"Nothing was tested: {few}."
    ]
    if tested and len(tested) < len(comparison.differences):
        lines.append(f"{len(comparison.differences) - len(tested)} of {len(comparison.differences)} not tested: {few}.")
    lines += _too_few_units(comparison, family)
    missing = [d for d in comparison.differences if d.missing]
    if missing:
        most = max(missing, key=lambda d: d.missing)
        several = plural(len(missing), "comparison")
        pairs = f"{most.missing} of {most.estimate.n + most.missing}"
        lines.append(f"Not all (fold, seed) are in both rows of {several}; where most are missing, {pairs} are.")
    if comparison.alone:
        more = f", and {len(comparison.alone) - 3} more" * (len(comparison.alone) > 3)
        reason = "a single row" if comparison.baseline is None else "no other row, or no baseline"
        lines.append(f"Not compared, with {reason}: {'; '.join(comparison.alone[:3])}{more}.")
    return lines


def _too_few_units(comparison: Comparison, family: int) -> list[str]:
    """A line where no p of the test could be significant, whatever the values."""
    most = max(comparison.differences, key=lambda d: d.estimate.units, default=None)
    if most is None or most.p is None:
        return []
    least = min(1.0, family * least_p(comparison.test, most.estimate.units))
    unit = "folds" if most.estimate.folds > 1 else "seeds"
    if least < ALPHA:
        return []
    return [
        f"With {most.estimate.units} {unit} and {plural(family, 'comparison')} no p of this test can be below "
        f"{least:.2g} after the correction, so nothing can be significant: type --test t, or run more {unit}."
    ]


def _units(units: Sequence[str]) -> str:
    first, *others = (f"{unit} as units (degrees of freedom: {unit} - 1)" for unit in units)
    return ", or ".join([first, *(other.replace("degrees of freedom: ", "") for other in others)])
