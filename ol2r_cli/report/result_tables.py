"""The tables of a report, one row for each group or for each paired difference, and the lines below them."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence

from ol2r_cli.formatting import plural, plus_minus, printable
from ol2r_cli.report.comparison import Comparison, Selection
from ol2r_cli.report.estimates import ALPHA, LEAST_UNITS, LEVEL, least_p
from ol2r_cli.report.measures import METRICS, described, digits, gain, heading
from ol2r_cli.report.names import Labels, tasks
from ol2r_cli.report.run_groups import Collection, Group
from ol2r_cli.report.text_table import Cell, TextTable

_TEST_NAMES = {"t": "paired t test", "permutation": "permutation test (signs of the differences)"}


def groups_table(
    groups: Sequence[Group],
    labels: Labels,
    metrics: Sequence[str] = METRICS,
    selection: Selection | None = None,
    comparison: Comparison | None = None,
) -> TextTable:
    """One row for each group, with the marks of a comparison, without columns that would be empty."""
    metrics = [name for name in metrics if any(group.estimate(name) for group in groups)]
    best = {(group, name) for task in tasks(groups) for name in metrics for group in _best(task, name)}
    rows: list[list[str | Cell]] = []
    for group in labels.ordered(groups, metrics):
        baseline = " (baseline)" if comparison and group in comparison.bases else ""
        values = [
            Cell(_value(group, name), comparison.mark(group, name) if comparison else "", (group, name) in best)
            for name in metrics
        ]
        rows.append(
            [
                comparison.letters.get(group, "") if comparison else "",
                group.choices["dataset"],
                group.choices["click"],
                group.choices.get("intent", "none").removeprefix("none"),
                labels.ranker(group) + baseline,
                labels.short(group),
                group.note,
                str(selection.cells[selection.groups.index(group)]) if selection else "",
                _number_of_values(group),
                *values,
            ]
        )
    words = ("", "dataset", "click", "intent", "ranker", "settings", "note")
    return TextTable.of(words, ["chosen from", "n", *map(heading, metrics)], rows).without_empty()


def differences_table(comparison: Comparison, labels: Labels) -> TextTable:
    """One row for each difference: interval, p, p after Holm, effect size, wins/ties/losses, number of pairs."""
    names = comparison.row_names(labels)
    rows: list[list[str | Cell]] = [
        [
            heading(d.metric),
            d.group.choices["dataset"],
            d.group.choices["click"],
            names[d.group],
            names[d.rival],
            Cell(plus_minus(d.estimate.mean, d.estimate.half_width, digits(d.metric) + 1, sign="+"), d.arrow),
            format_p(d.p),
            format_p(d.holm),
            "" if d.effect is None else f"{d.effect:+.2f}",
            f"{d.wins}/{d.ties}/{d.losses}",
            f"{d.estimate.n}" + (f" in {d.estimate.folds} folds" if d.estimate.folds > 1 else ""),
        ]
        for d in comparison.differences
    ]
    words = ("metric", "dataset", "click", "ranker", "minus")
    return TextTable.of(words, ("difference", "p", "p (Holm)", "g_z", "win/tie/loss", "pairs"), rows)


def format_p(p: float | None) -> str:
    """Three decimals, scientific notation below .001, <1e-6 below that; empty for None."""
    if p is None:
        return ""
    return "<1e-6" if p < 1e-6 else f"{p:.1e}" if p < 0.001 else f"{p:.3f}"


def _best(task: Sequence[Group], metric: str) -> list[Group]:
    """The groups with the best mean; none where there is one group, or where the metric has no direction."""
    means = {group: gain(metric, estimate.mean) for group in task if (estimate := group.estimate(metric))}
    if len(means) < 2 or described(metric).higher_is_better is None:
        return []
    return [group for group, mean in means.items() if mean == max(means.values())]


def _number_of_values(group: Group) -> str:
    folds, sizes = len(group.seeds), {len(seeds) for seeds in group.seeds.values()}
    if folds == 1:
        return str(group.n)
    seeds = "" if len(sizes) > 1 else f" x {plural(sizes.pop(), 'seed')}"
    return f"{group.n} ({folds} folds{seeds})"


def _value(group: Group, metric: str) -> str:
    estimate = group.estimate(metric)
    if estimate is None:
        return ""
    value = plus_minus(estimate.mean, estimate.half_width, digits(metric))
    return value + (f" (n = {estimate.n})" if estimate.n != group.n else "")


def notes(
    collection: Collection, groups: Sequence[Group], selection: Selection | None, comparison: Comparison | None
) -> list[str]:
    """The lines below the tables: what the numbers are, how rows were compared, which runs are left out."""
    folds = any(len(group.seeds) > 1 for group in groups)
    values = "(fold, seed), every fold counting the same" if folds else "seed"
    units = f" with the {_units('folds')} where there are several folds, else with the seeds" if folds else ""
    lines = [
        f"{plural(len(collection.runs), 'run')}. Figures are means over n values, one for each {values}; ± is "
        f"half the width of the {LEVEL:.0%} interval of the mean (Student's t){units}, left out for a single value."
    ]
    if selection is not None and selection.chose:
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
    differences = comparison.differences
    tested = [d for d in differences if d.p is not None]
    few = f"too few seeds, or folds where there are several, that both have: a test needs {LEAST_UNITS}"
    family = max(Counter(d.metric for d in tested).values(), default=0)
    comparisons = plural(family, "comparison")
    lines = []
    if tested:
        mark = (
            "Letters name the rows that a value is significantly better than"
            if comparison.baseline is None
            else f"↑ and ↓ are significantly more and less than {comparison.baseline}"
        )
        units = _units(*sorted({"folds" if d.estimate.folds > 1 else "seeds" for d in tested}))
        lines.append(
            f"{mark}, at {ALPHA} after Holm's correction for the {comparisons} of each metric: "
            f"{_TEST_NAMES[comparison.test]} over the (fold, seed) that both have, with the {units}."
        )
    if len(tested) < len(differences) or not tested:
        count = f"{len(differences) - len(tested)} of {len(differences)} not tested" if tested else "Nothing was tested"
        lines.append(f"{count}: {few}.")
    most = max(differences, key=lambda d: d.estimate.units, default=None)
    if most is not None and most.p is not None:
        least = min(1.0, family * least_p(comparison.test, most.estimate.units))
        unit = "folds" if most.estimate.folds > 1 else "seeds"
        if least >= ALPHA:
            lines.append(
                f"With {most.estimate.units} {unit} and {comparisons} no p of this test can be below {least:.2g} "
                f"after the correction, so nothing can be significant: type --test t, or run more {unit}."
            )
    if missing := [d for d in differences if d.missing]:
        worst = max(missing, key=lambda d: d.missing)
        lines.append(
            f"Not all (fold, seed) are in both rows of {plural(len(missing), 'comparison')}; where most are missing, "
            f"{worst.missing} of {worst.estimate.n + worst.missing} are."
        )
    if comparison.alone:
        more = f", and {len(comparison.alone) - 3} more" * (len(comparison.alone) > 3)
        reason = "a single row" if comparison.baseline is None else "no other row, or no baseline"
        lines.append(f"Not compared, with {reason}: {'; '.join(comparison.alone[:3])}{more}.")
    return lines


def _units(first: str, *others: str) -> str:
    text = f"{first} as units (degrees of freedom: {first} - 1)"
    return ", or ".join([text, *(f"{unit} as units ({unit} - 1)" for unit in others)])
