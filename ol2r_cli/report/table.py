"""A report as a markdown table, and the lines under it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from ol2r_cli.report.collect import Collection
from ol2r_cli.report.groups import Group
from ol2r_cli.report.labels import Labels, part_of
from ol2r_cli.report.select import Selection
from ol2r_cli.report.statistics import LEVEL, Estimate

METRICS = ("test_ndcg_10", "validation_ndcg_10", "cumulative_ndcg", "online_ndcg")
_DIGITS = {"cumulative_ndcg": 2, "cosine": 4, "certain_top10": 4, "unfairness": 3}  # 4 for other NDCG, else 2


def usual_metrics(groups: Sequence[Group]) -> tuple[str, ...]:
    """The columns that a table has when nobody asks for others: what fairness costs and brings, where there is any."""
    fair = any(group.choices.get("fairness", "none") != "none" for group in groups)
    return (*METRICS, "unfairness", "violations") if fair else METRICS


def check_metrics(metrics: Sequence[str], groups: Sequence[Group]) -> None:
    """ValueError unless each of these metrics is in the summary of some run."""
    known = dict.fromkeys(name for group in groups for run in group.runs for name in run.metrics)
    for name in metrics:
        if name not in known:
            raise ValueError(f"--metric must be one of {', '.join(known) or 'none: nothing was measured'}, got {name}")


def ordered(groups: Sequence[Group], labels: Labels, metric: str) -> list[Group]:
    """By dataset, click model and what else makes a task; then the best NDCG first, by name for other metrics."""

    def key(group: Group) -> tuple[object, ...]:
        estimate = group.estimate(metric) if "ndcg" in metric else None
        task = labels.order(group, lambda name: part_of(name) in ("dataset", "click", ""))
        own = labels.order(group, lambda name: part_of(name) not in ("dataset", "click", ""))
        place = (group.choices["dataset"], group.choices["click"], task)
        return (*place, estimate is None, -estimate.mean if estimate else 0, labels.ranker(group), own)

    return sorted(groups, key=key)


def markdown(
    groups: Sequence[Group], labels: Labels, metrics: Sequence[str] = METRICS, selection: Selection | None = None
) -> str:
    """One row a group, under headings; columns that would be empty are left out."""
    metrics = [name for name in metrics if any(group.estimate(name) for group in groups)]
    rows = []
    for group in ordered(groups, labels, (*metrics, "test_ndcg_10")[0]):
        row = [group.choices["dataset"], group.choices["click"], labels.ranker(group), labels.short(group)]
        row.append(str(selection.cells[selection.groups.index(group)]) if selection else "")
        row.append(_n(group))
        rows.append([*row, *(_cell(group, name) for name in metrics)])
    headings = ["dataset", "click", "ranker", "settings", "chosen from", "n", *map(heading, metrics)]
    kept = [place for place, column in enumerate(zip(*rows, strict=True)) if any(column)]
    table = [[row[place].replace("|", "\\|") for place in kept] for row in [headings, *rows]]
    widths = [max(3, *map(len, column)) for column in zip(*table, strict=True)]
    numbers = [place >= headings.index("chosen from") for place in kept]
    rule = ["-" * (width - 1) + ":" if number else "-" * width for width, number in zip(widths, numbers, strict=True)]
    return "\n".join(_line(row, widths, numbers) for row in (table[0], rule, *table[1:]))


def notes(collection: Collection, groups: Sequence[Group], selected: bool) -> list[str]:
    """What the figures are, and what is not in them."""
    runs, folds = len(collection.runs), any(len(group.seeds) > 1 for group in groups)
    unit = "(fold, seed) as if all were independent" if folds else "seed"
    lines = [
        f"{runs} run{'s' * (runs > 1)}. Figures are means over n values, one for each {unit}; ± is half the width of "
        f"the {LEVEL:.0%} interval of the mean (Student's t), left out for a single value."
    ]
    if selected:
        lines.append("The settings are those with the best mean validation NDCG@10 after the last evaluated round.")
    return lines + left_out(collection)


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


def heading(metric: str) -> str:
    """The name of a metric of summary.json as a person says it."""
    if found := re.fullmatch(r"(test|validation)_ndcg_(\d+)(?:_(untrained|best))?", metric):
        suffix = {"untrained": ", untrained", "best": ", best round"}.get(found[3], "")
        return f"{found[1]} NDCG@{found[2]}{suffix}"
    return metric.replace("_", " ").replace("ndcg", "NDCG")


def _n(group: Group) -> str:
    folds, sizes = len(group.seeds), {len(seeds) for seeds in group.seeds.values()}
    if folds == 1:
        return str(group.n)
    seeds = sizes.pop()
    return f"{group.n} ({folds} folds" + ("" if sizes else f" x {seeds} seed{'s' * (seeds > 1)}") + ")"


def _cell(group: Group, metric: str) -> str:
    estimate = group.estimate(metric)
    if estimate is None:
        return ""
    digits = _DIGITS.get(metric, 4 if "ndcg" in metric else 2)
    return _plus_minus(estimate, digits) + (f" (n = {estimate.n})" if estimate.n != group.n else "")


def _plus_minus(estimate: Estimate, digits: int) -> str:
    half = estimate.half_width
    return f"{estimate.mean:.{digits}f}" + ("" if half is None else f" ± {half:.{digits}f}")


def _line(cells: Sequence[str], widths: Sequence[int], numbers: Sequence[bool]) -> str:
    padded = (
        cell.rjust(width) if number else cell.ljust(width)
        for cell, width, number in zip(cells, widths, numbers, strict=True)
    )
    return f"| {' | '.join(padded)} |"
