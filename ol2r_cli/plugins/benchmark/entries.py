"""The entries of a benchmark's tables: a competitor with its runs, and what is compared between them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from ol2r_cli.lazy import pl
from ol2r_cli.metrics.intervals import quantile
from ol2r_cli.plugins.benchmark.choice_spread import spread_of_choice, with_choice
from ol2r_cli.plugins.benchmark.results import About, Results, published, published_choices
from ol2r_cli.plugins.benchmark.trials import Condition, aim_of
from ol2r_cli.report.comparison import paired
from ol2r_cli.report.estimates import ALPHA, Values, holm, of_values, two_sided
from ol2r_cli.report.measures import described, gain
from ol2r_cli.report.names import click_order
from ol2r_cli.report.run_groups import Group, group_runs
from ol2r_cli.tensor.shapes import Float


class Entry(NamedTuple):
    """A competitor on a dataset under a click model, with settings for an aim.

    choices: its choosing runs, the rows of a condition in `choice_frame`; None without them.
    """

    about: About
    group: Group
    choices: pl.DataFrame | None = None

    @property
    def run_ids(self) -> frozenset[str]:
        """Return the ids of its runs, which other competitors may have, too."""
        return frozenset(run.id for run in self.group.runs)

    def spread(self, metric: str) -> float:
        """Return what the choice of settings adds to the standard error; ValueError without its choosing runs."""
        if not self.about.aim:
            return 0.0
        if self.choices is None:
            raise ValueError(
                f"results of {self.about.competitor} must have choosing runs beside them, in NAME_choice.parquet"
            )
        return spread_of_choice(self.choices, metric)


Tables = dict[tuple[str, str], list[Entry]]  # by dataset and click model


def tables_of(results: Results, choices: pl.DataFrame | None = None) -> Tables:
    """Return the tables of results: an entry for the runs of a competitor that differ in nothing but fold and seed.

    Users are in the order of figures.
    """
    choosing_runs = {} if choices is None else choices.partition_by("table", "click", "competitor", as_dict=True)
    rows: dict[Condition, Results] = {}
    for run, about in results:
        rows.setdefault(about.row(run), []).append((run, about))
    tables: Tables = {}
    for row, of_row in rows.items():
        _, about = of_row[0]
        chosen_from = choosing_runs.get((row.slot, row.click, row.competitor))
        for group in group_runs(run for run, _ in of_row):
            tables.setdefault((row.slot, row.click), []).append(Entry(about, group, chosen_from))
    titles = list(dict.fromkeys(title for title, _ in tables))
    ordered = sorted(tables, key=lambda table: (titles.index(table[0]), click_order(table[1])))
    return {table: tables[table] for table in ordered}


def published_tables(name: str) -> Tables:
    """Return the tables of the published results of a benchmark."""
    return tables_of(published(name), published_choices(name))


def for_metric(rows: Iterable[Entry], metric: str) -> dict[str, Entry]:
    """Return the entry of each competitor whose settings were chosen for the aim of a metric, or were not chosen."""
    return {row.about.competitor: row for row in rows if row.about.aim in ("", aim_of(metric))}


def of_two_settings(entries: Iterable[Entry]) -> bool:
    """Return whether the values of a row are of two settings, each chosen for its own aim."""
    return len({tuple(entry.about.words) for entry in entries}) > 1


class Difference(NamedTuple):
    """The mean of paired differences, half its interval with the choices of both rows, and the p of its test."""

    mean: float
    half_width: float
    p: float

    @property
    def arrow(self) -> str:
        """Return ↑ where the difference is significantly above 0, ↓ where it is below."""
        if self.p >= ALPHA:
            return ""
        return "↑" if self.mean > 0 else "↓"


def differences(rows: Mapping[str, Entry], metric: str, baseline: str) -> dict[str, Difference]:
    """Return the difference of each row from the baseline, where there is one, with Holm's p.

    Rows with the same runs count once in Holm's correction.
    """
    if baseline not in rows:
        return {}
    base = rows[baseline]
    base_spread = base.spread(metric)
    runs = {name: row.run_ids for name, row in rows.items()}
    uncorrected: dict[str, Difference] = {}
    for name, row in rows.items():
        if runs[name] == runs[baseline]:
            continue
        difference = mean_difference(paired(row.group, base.group, metric), row.spread(metric), base_spread)
        if difference is not None:
            uncorrected[name] = difference
    p_of_runs = {runs[name]: difference.p for name, difference in uncorrected.items()}
    corrected = dict(zip(p_of_runs, holm(list(p_of_runs.values())), strict=True))
    return {name: difference._replace(p=corrected[runs[name]]) for name, difference in uncorrected.items()}


def mean_difference(paired_values: Values, *spreads: float) -> Difference | None:
    """Return the mean of paired differences; None for fewer than three units.

    spreads: what the choices of settings add to the standard error.
    """
    estimate = of_values(paired_values)
    without_choice = estimate.band() if estimate else None
    if estimate is None or without_choice is None:
        return None
    half_width = with_choice(without_choice, *spreads)
    degrees = estimate.units - 1
    p = two_sided(estimate.mean, half_width / quantile(degrees), degrees)
    return Difference(estimate.mean, half_width, p)


def places(rows: Mapping[str, Entry], metric: str) -> dict[str, int]:
    """Return the place of each competitor by the mean of a metric: 1 is best, equal ones share the better place.

    Rows without the metric have none, and no row has one where neither direction is better.
    """
    if described(metric).higher_is_better is None:
        return {}
    estimates = {name: row.group.estimate(metric) for name, row in rows.items()}
    gains = {name: gain(metric, estimate.mean) for name, estimate in estimates.items() if estimate is not None}
    return {name: 1 + sum(other > own for other in gains.values()) for name, own in gains.items()}


def by_unit(rows: Sequence[Entry], metric: str) -> Float[np.ndarray, "n folds seeds"]:
    """Return the values of rows by fold and seed, both in order, so that an index is the same unit in all rows.

    ValueError where a row lacks a fold or seed of the first one.
    """
    values = [row.group.values(metric) for row in rows]
    folds = list(dict.fromkeys(fold for fold, _ in values[0]))
    seeds = list(dict.fromkeys(seed for _, seed in values[0]))
    for row, of_row in zip(rows, values, strict=True):
        if list(of_row) != list(product(folds, seeds)):
            raise ValueError(f"{row.about.competitor} must have the folds and seeds of {rows[0].about.competitor}")
    return np.array([list(of_row.values()) for of_row in values]).reshape(len(rows), len(folds), len(seeds))
