"""What is compared between rows: differences, places, and intervals that contain the choice of settings.

The choice adds to an interval its spread when the choosing runs are drawn again. docs/benchmark/protocol.md has the
rule.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import numpy as np
from scipy import special

from ol2r_cli.lazy import pl
from ol2r_cli.metrics.intervals import quantile
from ol2r_cli.plugins.benchmark.recipe import AIMS, aim_of
from ol2r_cli.plugins.benchmark.results import Row
from ol2r_cli.report.comparison import paired
from ol2r_cli.report.estimates import ALPHA, Values, holm, of_values, two_sided
from ol2r_cli.report.measures import described, gain
from ol2r_cli.tensor.shapes import Bool, Float, Int

RESAMPLES = 2000
SEED = 20_260_001  # the same values always give the same intervals


def times_drawn(random: np.random.Generator, count: int, draws: int | tuple[int, ...] = RESAMPLES) -> np.ndarray:
    """Return [draws, count]: how often each of `count` folds or seeds is drawn, when as many are drawn again."""
    return random.multinomial(count, [1 / count] * count, draws)


def spread(row: Row, metric: str) -> float:
    """Return what the choice of settings adds to the standard error of a row's mean.

    ValueError without its choosing runs.
    """
    if not row.aim:
        return 0.0
    if row.choices is None:
        raise ValueError(f"results of {row.competitor} must have choosing runs beside them, in NAME_choice.parquet")
    return spread_of_choice(row.choices, metric, row.unstable)


def spread_of_choice(cells: pl.DataFrame, metric: str, unstable: Collection[str] = ()) -> float:
    """Return the standard deviation that the choice of settings gives to the mean of a metric; 0 without a choice.

    Choosing folds and seeds are drawn with replacement, apart from each other, and the choice is made again; the value
    of each choice is the mean over all of its choosing runs. Where one seed chooses, the spread is that over folds
    alone. Choosing runs are not evaluated on test queries: for these the metric of validation queries stands in. cells:
    the rows of a condition in `choice_frame`. unstable: settings, as in a competitor. ValueError for a metric that
    choosing runs lack.
    """
    if cells["settings"].n_unique() < 2:
        return 0.0
    return float(values_of_choices(cells, metric, AIMS[aim_of(metric)], unstable).std())


def values_of_choices(
    cells: pl.DataFrame, metric: str, maximised: str, unstable: Collection[str] = ()
) -> Float[np.ndarray, "draws"]:
    """Return the mean of a metric over all choosing runs, of the cell that is chosen in each draw.

    maximised: the column whose mean over the folds and seeds of a draw chooses, by the rule of `best_of`. Conditions
    with equally many folds and seeds have the same draws. Otherwise as `spread_of_choice`.
    """
    column = re.sub("^test_", "validation_", metric)
    if column not in cells.columns or cells[column].null_count():
        raise ValueError(f"{metric} must be a metric of the choosing runs, so that its intervals contain the choice")
    cells = cells.sort("settings", "fold", "seed")
    folds, seeds = cells["fold"].n_unique(), cells["seed"].n_unique()
    aims = cells[maximised].to_numpy().reshape(-1, folds * seeds)
    values = cells[column].to_numpy().reshape(-1, folds * seeds)
    random = np.random.default_rng(SEED)
    drawn_folds = times_drawn(random, folds)
    drawn_seeds = times_drawn(random, seeds)
    weights = (drawn_folds[:, :, None] * drawn_seeds[:, None, :]).reshape(len(drawn_folds), -1)
    sums = weights @ aims.T
    chosen = sums.argmax(axis=1)
    marked = [not set(unstable).isdisjoint(text.split()) for text in cells["settings"].unique(maintain_order=True)]
    if any(marked) and not all(marked):
        stable = np.where(marked, -np.inf, sums).argmax(axis=1)
        better = (aims[chosen] - aims[stable]).reshape(-1, folds, seeds)
        chosen = np.where(_is_clearly_better(better, drawn_folds, drawn_seeds), chosen, stable)
    return np.asarray(values.mean(axis=1)[chosen])


def _is_clearly_better(
    difference: Float[np.ndarray, "draws folds seeds"],
    drawn_folds: Int[np.ndarray, "draws folds"],
    drawn_seeds: Int[np.ndarray, "draws seeds"],
) -> Bool[np.ndarray, "draws"]:
    """Return in which draws the mean difference is above half its 95 % interval: the unit is a fold, or of one fold a
    seed. Of one unit, which has no interval, it is above 0."""
    of_units, times = difference[:, 0], drawn_seeds
    if difference.shape[1] > 1:
        seeds = drawn_seeds / drawn_seeds.sum(1, keepdims=True)
        of_units, times = np.einsum("dfs,ds->df", difference, seeds), drawn_folds
    units = of_units.shape[1]
    mean = (times * of_units).sum(1) / units
    if units < 2:
        return np.asarray(mean > 0)
    variance = (times * (of_units - mean[:, None]) ** 2).sum(1) / (units - 1)
    return np.asarray(mean > quantile(units - 1) * np.sqrt(variance / units))


def with_choice(half_width: float, *spreads: float) -> float:
    """Return half the 95 % interval that contains the choice of settings, from that without it."""
    normal = quantile(10**6)  # Student's t with so many degrees of freedom
    return (half_width**2 + sum((normal * each) ** 2 for each in spreads)) ** 0.5


def for_metric(rows: Iterable[Row], metric: str) -> dict[str, Row]:
    """Return the row of each competitor whose settings were chosen for the aim of a metric, or were not chosen."""
    return {row.competitor: row for row in rows if row.aim in ("", aim_of(metric))}


def of_two_settings(rows: Iterable[Row]) -> bool:
    """Return whether the values of a row are of two settings, each chosen for its own aim."""
    return len({tuple(row.words) for row in rows}) > 1


class Difference(NamedTuple):
    """The mean of paired differences, half its interval with the choices of both rows, and the p of its test.

    degrees: of freedom of this test. smallest: the mean from which on its p would be significant after Holm's
    correction, with the same interval and other rows.
    """

    mean: float
    half_width: float
    p: float
    degrees: int
    smallest: float = math.inf

    @property
    def arrow(self) -> str:
        """Return ↑ where the difference is significantly above 0, ↓ where it is below."""
        if self.p >= ALPHA:
            return ""
        return "↑" if self.mean > 0 else "↓"


def differences(rows: Mapping[str, Row], metric: str, baseline: str) -> dict[str, Difference]:
    """Return the difference of each row from the baseline, where there is one, with Holm's p.

    Rows with the same runs count once in Holm's correction.
    """
    if baseline not in rows:
        return {}
    base = rows[baseline]
    base_spread = spread(base, metric)
    runs = {name: row.run_ids for name, row in rows.items()}
    uncorrected: dict[str, Difference] = {}
    for name, row in rows.items():
        if runs[name] == runs[baseline]:
            continue
        difference = mean_difference(paired(row.group, base.group, metric), spread(row, metric), base_spread)
        if difference is not None:
            uncorrected[name] = difference
    p_of_runs = {runs[name]: difference.p for name, difference in uncorrected.items()}
    corrected = dict(zip(p_of_runs, holm(list(p_of_runs.values())), strict=True))
    significant = {of_runs for of_runs, p in corrected.items() if p < ALPHA}

    def with_correction(name: str, difference: Difference) -> Difference:
        tests = len(corrected) - len(significant - {runs[name]})  # that are left when the others have been rejected
        error = difference.half_width / quantile(difference.degrees)
        smallest = error * float(special.stdtrit(difference.degrees, 1 - ALPHA / tests / 2))
        return difference._replace(p=corrected[runs[name]], smallest=smallest)

    return {name: with_correction(name, difference) for name, difference in uncorrected.items()}


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
    return Difference(estimate.mean, half_width, p, degrees)


def places(rows: Mapping[str, Row], metric: str) -> dict[str, int]:
    """Return the place of each competitor by the mean of a metric: 1 is best, equal ones share the better place.

    Rows without the metric have none, and no row has one where neither direction is better.
    """
    if described(metric).higher_is_better is None:
        return {}
    estimates = {name: row.group.estimate(metric) for name, row in rows.items()}
    gains = {name: gain(metric, estimate.mean) for name, estimate in estimates.items() if estimate is not None}
    return {name: 1 + sum(other > own for other in gains.values()) for name, own in gains.items()}
