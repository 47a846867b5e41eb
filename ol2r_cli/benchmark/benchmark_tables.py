"""The tables of a benchmark: one for each dataset and click model, one row for each ranker."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from statistics import fmean

from ol2r_cli.benchmark.benchmark_plan import ROLES_OF_A_ROW, role
from ol2r_cli.benchmark.benchmark_recipe import BenchmarkRecipe
from ol2r_cli.benchmark.entries import Entry
from ol2r_cli.formatting import plus_minus
from ol2r_cli.report.comparison import compare_with
from ol2r_cli.report.measures import described, digits, gain, heading
from ol2r_cli.report.text_table import Cell, TextTable

Table = tuple[str, str]  # dataset and click model


def by_table(entries: Iterable[Entry]) -> dict[Table, list[Entry]]:
    """The rows of each table, in the order in which tables occur."""
    tables: dict[Table, list[Entry]] = {}
    for entry in entries:
        tables.setdefault(entry.table, []).append(entry)
    return tables


def result_table(recipe: BenchmarkRecipe, rows: Sequence[Entry]) -> TextTable:
    """One table: best first, by the first metric of the recipe, with marks against its baseline and the costs."""
    base = baseline(recipe, rows)
    comparison = compare_with(base.group, [row.group for row in rows], recipe.metrics) if base else None
    places = {metric: ranks(rows, metric) for metric in recipe.metrics}
    best_first = sorted(rows, key=lambda row: places[recipe.metrics[0]].get(row, len(rows)))

    def cells(row: Entry) -> list[Cell]:
        values = [
            Cell(_value(row, metric), comparison.mark(row.group, metric) if comparison else "", place.get(row) == 1)
            for metric, place in places.items()
        ]
        cost = [
            "" if row.cpu_seconds is None else f"{row.cpu_seconds:,.{1 if row.cpu_seconds < 10 else 0}f}",
            "" if row.peak_memory_gb is None else f"{row.peak_memory_gb:.2f}",
        ]
        name = row.about.competitor + (" (baseline)" if row is base else "")
        return [Cell(name), Cell(settings(row)), *values, *map(Cell, cost)]

    headings = ["ranker", "settings", *map(heading, recipe.metrics), "CPU s", "peak GB"]
    numbers = [column > 1 for column in range(len(headings))]
    return TextTable(headings, [cells(row) for row in best_first], numbers).without_empty()


def baseline(recipe: BenchmarkRecipe, rows: Iterable[Entry]) -> Entry | None:
    """The row with which the others are compared; None where it is missing."""
    return next((row for row in rows if row.about.competitor == recipe.baseline), None)


def settings(row: Entry) -> str:
    """The chosen settings by the last part of their names, such as `l2=10 alpha=0.1*`; * at the end of a grid."""
    chosen = [word for word in row.about.words if word.partition("=")[0] in row_settings(row)]
    return " ".join(_brief(word, row.about.edges) for word in chosen)


def row_settings(row: Entry) -> list[str]:
    """The names of what the row has typed of its ranker, exploration and fairness, but for the ranker itself."""
    names = [word.partition("=")[0] for word in row.about.words]
    return [name for name in names if role(name) in ROLES_OF_A_ROW and name != "ranker"]


def ranks(rows: Iterable[Entry], metric: str) -> dict[Entry, int]:
    """The place of each row by the mean of a metric: 1 is best, equal ones share the better place.

    Rows without the metric have none, and no row has one where neither direction is better.
    """
    means = {row: estimate.mean for row in rows if (estimate := row.group.estimate(metric)) is not None}
    if described(metric).higher_is_better is None:
        return {}
    gains = {row: gain(metric, mean) for row, mean in means.items()}
    return {row: 1 + sum(other > own for other in gains.values()) for row, own in gains.items()}


def mean_ranks(tables: Iterable[Sequence[Entry]], metric: str) -> dict[str, float]:
    """The mean place of each competitor over tables in which it occurs, best first."""
    places: dict[str, list[int]] = {}
    for rows in tables:
        for row, place in ranks(rows, metric).items():
            places.setdefault(row.about.competitor, []).append(place)
    return dict(sorted(((name, fmean(each)) for name, each in places.items()), key=lambda item: item[1]))


def _value(row: Entry, metric: str) -> str:
    estimate = row.group.estimate(metric)
    return "" if estimate is None else plus_minus(estimate.mean, estimate.half_width, digits(metric))


def _brief(word: str, edges: Sequence[str]) -> str:
    name, _, value = word.partition("=")
    return f"{re.split('[./]', name)[-1]}={value}" + "*" * (name in edges)
