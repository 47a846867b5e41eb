"""The lines below the tables of a report: what the numbers are, and how rows were chosen and compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from ol2r_cli.columns import weighed_rounds
from ol2r_cli.metrics.intervals import LEAST_UNITS, LEVEL
from ol2r_cli.report.best_settings import Selection, criterion
from ol2r_cli.report.comparison import Comparison, PairedDifference
from ol2r_cli.report.estimates import ALPHA, least_p
from ol2r_cli.report.measures import heading
from ol2r_cli.report.run_groups import Group
from ol2r_cli.report.units import SEEDS, as_units
from ol2r_cli.text.formatting import plural

WITHOUT_RELEVANT = (
    "Queries without a relevant document count 0 in NDCG (no_relevant=zero). Tables that leave them out have higher "
    "values."
)
TEST_NAMES = {"t": "paired t test", "permutation": "permutation test of the signs of the differences"}
_CUMULATIVE = "cumulative_ndcg"
_NAMED_TASKS = 3  # of those without a comparison


def values_note(groups: Sequence[Group], runs: int) -> str:
    """Return what a value is the mean of, and what ± is."""
    values, units = (groups[0].units if groups else SEEDS).note(groups)
    return (
        f"{plural(runs, 'run')}. Values are means over n numbers, one for each {values}. ± is half the {LEVEL:.0%} "
        f"interval of a mean (Student's t){units}."
    )


def counts_without_relevant(groups: Sequence[Group], metrics: Iterable[str]) -> bool:
    """Return whether queries without a relevant document count 0 in an NDCG of the table."""
    has_ndcg = any("ndcg" in metric and group.estimate(metric) for metric in metrics for group in groups)
    return has_ndcg and any(group.settings.get("no_relevant") == "zero" for group in groups)


def discount_notes(groups: Iterable[Group], metrics: Iterable[str]) -> list[str]:
    """Return how many rounds the discount of cumulative NDCG weighs, where it leaves out more than half of them."""
    lines: dict[str, None] = {}
    for metric in metrics:
        if not metric.startswith(_CUMULATIVE):
            continue
        setting = f"measure.ndcg{metric.removeprefix(_CUMULATIVE).replace('_', '@')}.discount"
        for group in groups:
            with_it = (run.settings[setting] for run in group.runs if setting in run.settings)
            rounds, discount = group.settings["rounds"], next(with_it, 1)
            weighed = weighed_rounds(discount, rounds)
            if group.estimate(metric) and weighed < rounds / 2:
                lines[
                    f"{heading(metric)} weighs round t by {discount}^(t-1): 95% of the weight is on the first "
                    f"{weighed:,} of {rounds:,} rounds. The sum without it is online NDCG times the number of rounds, "
                    f"or this column with measure.ndcg.discount=1."
                ] = None
    return [line[:1].upper() + line[1:] for line in lines]


def choice_note(selection: Selection) -> str:
    """Return how the settings were chosen."""
    return f"Settings were selected by the {criterion(selection.by).about}."


def what_marks_say(baseline: str | None) -> str:
    """Return what the marks of a comparison with a baseline say, or with None of one of all rows."""
    if baseline is None:
        return "Letters name the rows that a value is significantly better than"
    return f"↑ and ↓ are significantly higher and lower than {baseline}"


def comparison_notes(comparison: Comparison) -> list[str]:
    """Return how rows were compared, and what could not be."""
    differences = comparison.differences
    tested = [difference for difference in differences if difference.p is not None]
    lines = []
    if tested:
        lines += _test_notes(comparison, tested)
    if len(tested) < len(differences) or not tested:
        lines.append(
            f"{len(tested)} of {plural(len(differences), 'difference')} were tested: a test needs {LEAST_UNITS} seeds, "
            "or folds where there are several, that both rows have."
        )
    missing = sum(difference.missing > 0 for difference in differences)
    if missing:
        lines.append(f"Not all {differences[0].group.units.pair} are in both rows of {plural(missing, 'comparison')}.")
    if comparison.alone:
        named = comparison.alone[:_NAMED_TASKS]
        more = ["others"] if len(comparison.alone) > _NAMED_TASKS else []
        lines.append(f"Not compared, without a second row or a baseline: {'; '.join([*named, *more])}.")
    return lines


def _test_notes(comparison: Comparison, tested: Sequence[PairedDifference]) -> list[str]:
    """Return what marks mean, and which test of which units stands behind them; also where it cannot find anything."""
    units = tested[0].group.units
    family = max(Counter(difference.metric for difference in tested).values())
    comparisons = plural(family, "comparison")
    names = {units.name(difference.estimate) for difference in tested}
    lines = [
        f"{what_marks_say(comparison.baseline)}: p < {ALPHA} after Holm's correction for the {comparisons} of each "
        f"metric. p is that of the {TEST_NAMES[comparison.test]} over the {units.tested} that both have, with the "
        f"{as_units(*sorted(names))}."
    ]
    most = max((difference.estimate for difference in tested), key=lambda estimate: estimate.units)
    least = min(1.0, family * least_p(comparison.test, most.units))
    if least >= ALPHA:
        name = units.name(most)
        lines.append(
            f"With {most.units} {name} and {comparisons} no p of this test can be below {least:.2g} after the "
            f"correction, so nothing can be significant: type --test t, or run more {name}."
        )
    return lines
