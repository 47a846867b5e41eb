"""The tables of a report: one row for each group, and one row for each paired difference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ol2r_cli.formatting import plus_minus
from ol2r_cli.report.comparison import Comparison, PairedDifference
from ol2r_cli.report.labels import Labels, defines_task, tasks
from ol2r_cli.report.measures import METRICS, described, digits, gain, heading
from ol2r_cli.report.run_groups import Group
from ol2r_cli.report.selection import Selection
from ol2r_cli.report.text_table import Cell, TextTable


def ordered(groups: Sequence[Group], labels: Labels, metric: str) -> list[Group]:
    """Groups sorted by dataset, click model and task; then by NDCG, best first, or by name for another metric."""

    def key(group: Group) -> tuple[object, ...]:
        estimate = group.estimate(metric) if "ndcg" in metric else None
        task = labels.sort_key(group, defines_task)
        other_settings = labels.sort_key(group, lambda name: not defines_task(name))
        mean = (estimate is None, -estimate.mean if estimate else 0)
        return (group.choices["dataset"], group.choices["click"], task, *mean, labels.ranker(group), other_settings)

    return sorted(groups, key=key)


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
    rows = []
    for group in ordered(groups, labels, (*metrics, METRICS[0])[0]):
        baseline = " (baseline)" if comparison and group in comparison.bases else ""
        texts = [
            comparison.letters.get(group, "") if comparison else "",
            group.choices["dataset"],
            group.choices["click"],
            group.choices.get("intent", "none").removeprefix("none"),
            labels.ranker(group) + baseline,
            labels.short(group),
            group.note,
            str(selection.cells[selection.groups.index(group)]) if selection else "",
            _number_of_values(group),
        ]
        values = [
            Cell(_value(group, name), comparison.mark(group, name) if comparison else "", (group, name) in best)
            for name in metrics
        ]
        rows.append([*map(Cell, texts), *values])
    words = ["", "dataset", "click", "intent", "ranker", "settings", "note"]
    headings = [*words, "chosen from", "n", *map(heading, metrics)]
    return TextTable(headings, rows, [column >= len(words) for column in range(len(headings))]).without_empty()


def differences_table(comparison: Comparison, labels: Labels) -> TextTable:
    """One row for each difference: interval, p, p after Holm, effect size, wins/ties/losses, number of pairs."""
    rows, names = [], row_names(comparison, labels)
    for d in comparison.differences:
        choices = d.group.choices
        texts = [heading(d.metric), choices["dataset"], choices["click"], names[d.group], names[d.rival]]
        value = plus_minus(d.estimate.mean, d.estimate.half_width, digits(d.metric) + 1, sign="+")
        numbers = [
            format_p(d.p),
            format_p(d.holm),
            "" if d.effect is None else f"{d.effect:+.2f}",
            f"{d.wins}/{d.ties}/{d.losses}",
            _number_of_pairs(d),
        ]
        rows.append([*map(Cell, texts), Cell(value, d.arrow), *map(Cell, numbers)])
    words = ["metric", "dataset", "click", "ranker", "minus"]
    headings = [*words, "difference", "p", "p (Holm)", "g_z", "win/tie/loss", "pairs"]
    return TextTable(headings, rows, [column >= len(words) for column in range(len(headings))])


def row_names(comparison: Comparison, labels: Labels) -> dict[Group, str]:
    """The ranker of each compared group; with its settings where several have the same dataset and click model."""
    compared = dict.fromkeys(group for d in comparison.differences for group in (d.group, d.rival))

    def row(group: Group) -> tuple[str, str, str]:
        return group.choices["dataset"], group.choices["click"], labels.ranker(group)

    rows = Counter(map(row, compared))
    return {
        group: f"{labels.ranker(group)} {labels.short(group)}".rstrip()
        if rows[row(group)] > 1
        else labels.ranker(group)
        for group in compared
    }


def format_p(p: float | None) -> str:
    """Three decimals, scientific notation below .001, <1e-6 below that; empty for None."""
    if p is None:
        return ""
    return "<1e-6" if p < 1e-6 else f"{p:.1e}" if p < 0.001 else f"{p:.3f}"


def _best(task: Sequence[Group], metric: str) -> list[Group]:
    """The groups with the best mean; none where there is one group, or where the metric has no direction."""
    means = {group: estimate.mean for group in task if (estimate := group.estimate(metric))}
    if len(means) < 2 or described(metric).higher_is_better is None:
        return []
    best = max(gain(metric, mean) for mean in means.values())
    return [group for group, mean in means.items() if gain(metric, mean) == best]


def _number_of_values(group: Group) -> str:
    folds, sizes = len(group.seeds), {len(seeds) for seeds in group.seeds.values()}
    if folds == 1:
        return str(group.n)
    seeds = sizes.pop()
    return f"{group.n} ({folds} folds" + ("" if sizes else f" x {seeds} seed{'s' * (seeds > 1)}") + ")"


def _value(group: Group, metric: str) -> str:
    estimate = group.estimate(metric)
    if estimate is None:
        return ""
    value = plus_minus(estimate.mean, estimate.half_width, digits(metric))
    return value + (f" (n = {estimate.n})" if estimate.n != group.n else "")


def _number_of_pairs(difference: PairedDifference) -> str:
    folds = difference.estimate.folds
    return f"{difference.estimate.n}" + (f" in {folds} folds" if folds > 1 else "")
