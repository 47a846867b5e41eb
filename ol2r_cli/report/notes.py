"""The lines below the tables of a report: what the numbers are, and how rows were chosen and compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from ol2r_cli.formatting import plural
from ol2r_cli.metrics.intervals import LEAST_UNITS, LEVEL
from ol2r_cli.report.best_settings import Selection
from ol2r_cli.report.comparison import Comparison, PairedDifference
from ol2r_cli.report.estimates import ALPHA, least_p
from ol2r_cli.report.run_groups import Group
from ol2r_cli.report.units import SEEDS, as_units

_CHOSEN_BY = {
    "validation": "best mean validation NDCG after the last evaluated round",
    "online": "highest mean cumulative NDCG",
}
_TEST_NAMES = {"t": "paired t test", "permutation": "permutation test (signs of the differences)"}
_NAMED_TASKS = 3  # of those without a comparison


def values_note(groups: Sequence[Group], runs: int) -> str:
    """Return what a figure is the mean of, and what ± is."""
    folds = any(len(group.seeds) > 1 for group in groups)
    values, units = (groups[0].units if groups else SEEDS).note(folds)
    return (
        f"{plural(runs, 'run')}. Figures are means over n values, one for each {values}; ± is half the width of the "
        f"{LEVEL:.0%} interval of the mean (Student's t){units}, left out for a single value."
    )


def counts_without_relevant(groups: Sequence[Group], metrics: Iterable[str]) -> bool:
    """Return whether queries without a relevant document count 0 in an NDCG of the table."""
    has_ndcg = any("ndcg" in metric and group.estimate(metric) for metric in metrics for group in groups)
    return has_ndcg and any(group.settings.get("no_relevant") == "zero" for group in groups)


def without_relevant_note(groups: Sequence[Group]) -> str:
    """Return that queries without a relevant document count 0 in NDCG, and what that does to comparisons."""
    line = "Queries without a relevant document count 0 in NDCG (no_relevant=zero); tables that leave them out have "
    line += "higher values"
    if any(group.choices["dataset"] == "mq2008" for group in groups):
        line += ": on MQ2008, where they are 28 % of all, .48 here is about .67 there"
    return f"{line}."


def choice_note(selection: Selection) -> str:
    """Return how the settings were chosen."""
    return f"The settings are those with the {_CHOSEN_BY[selection.by]}."


def comparison_notes(comparison: Comparison) -> list[str]:
    """Return how rows were compared, and what could not be."""
    tested = [difference for difference in comparison.differences if difference.p is not None]
    lines = []
    if tested:
        lines.append(_test_note(comparison, tested))
    if len(tested) < len(comparison.differences) or not tested:
        lines.append(_untested_note(len(tested), len(comparison.differences)))
    if tested:
        lines += _power_note(comparison, tested)
    missing = [difference for difference in comparison.differences if difference.missing]
    if missing:
        lines.append(_missing_note(missing))
    if comparison.alone:
        lines.append(_alone_note(comparison))
    return lines


def _test_note(comparison: Comparison, tested: Sequence[PairedDifference]) -> str:
    """Return what marks mean, and which test of which units stands behind them."""
    mark = f"↑ and ↓ are significantly more and less than {comparison.baseline}"
    if comparison.baseline is None:
        mark = "Letters name the rows that a value is significantly better than"
    names = {difference.group.units.name(difference.estimate) for difference in tested}
    pairs = tested[0].group.units.tested
    comparisons = plural(_family(tested), "comparison")
    return (
        f"{mark}, at {ALPHA} after Holm's correction for the {comparisons} of each metric: "
        f"{_TEST_NAMES[comparison.test]} over the {pairs} that both have, with the {as_units(*sorted(names))}."
    )


def _family(tested: Iterable[PairedDifference]) -> int:
    """Return the number of comparisons that one metric is corrected for."""
    return max(Counter(difference.metric for difference in tested).values())


def _untested_note(tested: int, differences: int) -> str:
    count = f"{differences - tested} of {differences} not tested" if tested else "Nothing was tested"
    few = f"too few seeds, or folds where there are several, that both have: a test needs {LEAST_UNITS}"
    return f"{count}: {few}."


def _power_note(comparison: Comparison, tested: Sequence[PairedDifference]) -> list[str]:
    """Return that nothing can be significant, where that is so."""
    family = _family(tested)
    most = max(comparison.differences, key=lambda difference: difference.estimate.units)
    least = min(1.0, family * least_p(comparison.test, most.estimate.units))
    if least < ALPHA:
        return []
    unit = most.group.units.name(most.estimate)
    return [
        f"With {most.estimate.units} {unit} and {plural(family, 'comparison')} no p of this test can be below "
        f"{least:.2g} after the correction, so nothing can be significant: type --test t, or run more {unit}."
    ]


def _missing_note(missing: Sequence[PairedDifference]) -> str:
    worst = max(missing, key=lambda difference: difference.missing)
    pairs = worst.group.units.pair
    return (
        f"Not all {pairs} are in both rows of {plural(len(missing), 'comparison')}; where most are missing, "
        f"{worst.missing} of {worst.estimate.n + worst.missing} are."
    )


def _alone_note(comparison: Comparison) -> str:
    named = "; ".join(comparison.alone[:_NAMED_TASKS])
    if len(comparison.alone) > _NAMED_TASKS:
        named += f", and {len(comparison.alone) - _NAMED_TASKS} more"
    reason = "a single row" if comparison.baseline is None else "no other row, or no baseline"
    return f"Not compared, with {reason}: {named}."
