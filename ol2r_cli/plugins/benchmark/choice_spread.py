"""What the choice of settings adds to an interval: its spread when the choosing runs are drawn again.

docs/benchmark/protocol.md has the rule.
"""

from __future__ import annotations

import re

import numpy as np

from ol2r_cli.lazy import pl
from ol2r_cli.metrics.intervals import quantile
from ol2r_cli.plugins.benchmark.trials import AIMS, aim_of
from ol2r_cli.tensor.shapes import Float

RESAMPLES = 2000
SEED = 20_260_001  # the same values always give the same intervals


def times_drawn(random: np.random.Generator, count: int, draws: int | tuple[int, ...] = RESAMPLES) -> np.ndarray:
    """Return [draws, count]: how often each of `count` folds or seeds is drawn, when as many are drawn again."""
    return random.multinomial(count, [1 / count] * count, draws)


def spread_of_choice(cells: pl.DataFrame, metric: str) -> float:
    """Return the standard deviation that the choice of settings gives to the mean of a metric; 0 without a choice.

    Choosing folds and seeds are drawn with replacement, apart from each other, and the choice is made again; the value
    of each choice is the mean over all of its choosing runs. Where one seed chooses, the spread is that over folds
    alone. Choosing runs are not evaluated on test queries: for these the metric of validation queries stands in. cells:
    the rows of a condition in `choice_frame`. ValueError for a metric that choosing runs lack.
    """
    if cells["settings"].n_unique() < 2:
        return 0.0
    return float(values_of_choices(cells, metric, AIMS[aim_of(metric)]).std())


def values_of_choices(cells: pl.DataFrame, metric: str, maximised: str) -> Float[np.ndarray, "draws"]:
    """Return the mean of a metric over all choosing runs, of the cell that is chosen in each draw.

    maximised: the column whose mean over the folds and seeds of a draw chooses. Conditions with equally many folds and
    seeds have the same draws. Otherwise as `spread_of_choice`.
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
    chosen = (weights @ aims.T).argmax(axis=1)
    return np.asarray(values.mean(axis=1)[chosen])


def with_choice(half_width: float, *spreads: float) -> float:
    """Return half the 95 % interval that contains the choice of settings, from that without it."""
    normal = quantile(10**6)  # Student's t with so many degrees of freedom
    return (half_width**2 + sum((normal * spread) ** 2 for spread in spreads)) ** 0.5
