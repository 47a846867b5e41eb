"""The table of a report: one row a group."""

from __future__ import annotations

from collections.abc import Sequence

from ol2r_cli.report import formats
from ol2r_cli.report.comparison import Comparison
from ol2r_cli.report.formats import Cell, Table
from ol2r_cli.report.groups import Group
from ol2r_cli.report.labels import Labels
from ol2r_cli.report.measures import METRICS, digits, gain, has_a_better, heading
from ol2r_cli.report.select import Selection
from ol2r_cli.report.statistics import Estimate
from ol2r_cli.report.tasks import of_task, tasks


def ordered(groups: Sequence[Group], labels: Labels, metric: str) -> list[Group]:
    """By dataset, click model and what else makes a task; then the best NDCG first, by name for other metrics."""

    def key(group: Group) -> tuple[object, ...]:
        estimate = group.estimate(metric) if "ndcg" in metric else None
        task = labels.order(group, of_task)
        own = labels.order(group, lambda name: not of_task(name))
        place = (group.choices["dataset"], group.choices["click"], task)
        return (*place, estimate is None, -estimate.mean if estimate else 0, labels.ranker(group), own)

    return sorted(groups, key=key)


def table(
    groups: Sequence[Group],
    labels: Labels,
    metrics: Sequence[str] = METRICS,
    selection: Selection | None = None,
    comparison: Comparison | None = None,
) -> Table:
    """One row a group, with the marks of a comparison; columns that would be empty are left out."""
    metrics = [name for name in metrics if any(group.estimate(name) for group in groups)]
    best = {(group, name) for task in tasks(groups) for name in metrics for group in _best(task, name)}
    rows = []
    for group in ordered(groups, labels, (*metrics, "test_ndcg_10")[0]):
        letter = comparison.letters.get(group, "") if comparison else ""
        base = " (baseline)" if comparison and group in comparison.bases else ""
        row = [letter, group.choices["dataset"], group.choices["click"], labels.ranker(group) + base]
        row += [
            labels.short(group),
            str(selection.cells[selection.groups.index(group)]) if selection else "",
            _n(group),
        ]
        marks = [comparison.mark(group, name) if comparison else "" for name in metrics]
        values = [_value(group, name) for name in metrics]
        cells = [Cell(v, m, (group, name) in best) for v, m, name in zip(values, marks, metrics, strict=True)]
        rows.append([*map(Cell, row), *cells])
    words = ["", "dataset", "click", "ranker", "settings"]
    headings = [*words, "chosen from", "n", *map(heading, metrics)]
    return Table(headings, rows, [place >= len(words) for place in range(len(headings))]).without_empty()


def markdown(
    groups: Sequence[Group],
    labels: Labels,
    metrics: Sequence[str] = METRICS,
    selection: Selection | None = None,
    comparison: Comparison | None = None,
) -> str:
    """`table` as markdown."""
    return formats.markdown(table(groups, labels, metrics, selection, comparison))


def plus_minus(estimate: Estimate, places: int, sign: str = "") -> str:
    """0.4123 ± 0.0021, with `sign` + also before what is above 0; without an interval where there is one unit."""
    half = estimate.half_width
    return f"{estimate.mean:{sign}.{places}f}" + ("" if half is None else f" ± {half:.{places}f}")


def _best(task: Sequence[Group], metric: str) -> list[Group]:
    """Those with the best mean, where there is a choice and a better."""
    means = {group: estimate.mean for group in task if (estimate := group.estimate(metric))}
    if len(means) < 2 or not has_a_better(metric):
        return []
    best = max(gain(metric, mean) for mean in means.values())
    return [group for group, mean in means.items() if gain(metric, mean) == best]


def _n(group: Group) -> str:
    folds, sizes = len(group.seeds), {len(seeds) for seeds in group.seeds.values()}
    if folds == 1:
        return str(group.n)
    seeds = sizes.pop()
    return f"{group.n} ({folds} folds" + ("" if sizes else f" x {seeds} seed{'s' * (seeds > 1)}") + ")"


def _value(group: Group, metric: str) -> str:
    estimate = group.estimate(metric)
    if estimate is None:
        return ""
    return plus_minus(estimate, digits(metric)) + (f" (n = {estimate.n})" if estimate.n != group.n else "")
