"""How a benchmark chooses the settings of a row: for two aims, from grids that grow, with what the choice is worth.

offline: the best mean NDCG@10 on validation queries after the last round. online: the highest cumulative NDCG@10 of the
choosing seeds, which needs no labels that a running system lacks. docs/benchmark/protocol.md has the rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from ol2r_cli.lazy import pl
from ol2r_cli.metrics.intervals import quantile
from ol2r_cli.report.estimates import of_values
from ol2r_cli.report.run_groups import Group
from ol2r_cli.report.shown_metrics import ndcg_metrics

if TYPE_CHECKING:
    from ol2r_cli.recipes.run_plan import Condition, Overrides

AIMS = ("offline", "online")
FACTOR = 3  # by which a grid grows beyond an end at which its best cell is
METRICS = ("validation_ndcg_10", "cumulative_ndcg", "unfairness", "dynamic_regret")  # of choosing runs
STAND_INS = {"test_ndcg_10": "validation_ndcg_10"}  # choosing runs are not evaluated on test queries
RESAMPLES = 2000
SEED = 20_260_001  # the same values always give the same intervals


@dataclass(frozen=True, eq=False)
class GridCell:
    """Settings from which a choice is made, and their runs."""

    settings: Overrides
    group: Group

    def mean(self, aim: str) -> float:
        """What the choice for an aim maximises; ValueError without validation."""
        _, validation, cumulative, _ = ndcg_metrics([self.group])
        if (estimate := self.group.estimate(validation if aim == "offline" else cumulative)) is None:
            raise ValueError(
                f"settings are chosen by validation, which {self.group.runs[0].path} lacks: type dataset.validation=0.2"
            )
        return estimate.mean


def aim_of(metric: str) -> str:
    """Return for which aim settings are chosen where a metric is compared: offline for a metric of test queries."""
    return "offline" if metric.startswith("test_") else "online"


def best(cells: Sequence[GridCell], aim: str, unstable: Iterable[str] = ()) -> GridCell:
    """Return the best settings for an aim, the first of equal ones.

    unstable: overrides with which another processor gives other results. They are chosen only where the best others are
    worse by more than half the 95 % interval of the paired difference.
    """
    top = max(cells, key=lambda each: each.mean(aim))
    stable = [each for each in cells if not set(unstable) & set(each.settings.values())]
    if top in stable or not stable:
        return top
    other = max(stable, key=lambda each: each.mean(aim))
    metric = ndcg_metrics([top.group])[1 if aim == "offline" else 2]
    values = other.group.values(metric)
    difference = of_values({unit: value - values[unit] for unit, value in top.group.values(metric).items()})
    return other if difference is not None and difference.mean <= (difference.half_width or 0) else top


def numbers(settings: Iterable[Overrides], name: str) -> list[float]:
    """Return the numbers that a setting has, in order; empty where it has words or one value."""
    with suppress(ValueError):  # words have no order
        values = sorted({float(each[name].partition("=")[2]) for each in settings})
        return values if len(values) > 1 else []
    return []


def at_an_end(cells: Sequence[GridCell], chosen: GridCell) -> Iterator[tuple[str, float]]:
    """Yield the settings that have the smallest or largest number of the grid, each with the next number beyond it."""
    for name, override in chosen.settings.items():
        if values := numbers([each.settings for each in cells], name):
            value = float(override.partition("=")[2])
            if value in (values[0], values[-1]) and value > 0:
                yield name, float(f"{value / FACTOR if value == values[0] else value * FACTOR:.2g}")


def beyond_the_ends(cells: Sequence[GridCell], unstable: Iterable[str] = ()) -> list[Overrides]:
    """Return settings beyond the ends at which the best ones for an aim are; empty where they are inside.

    A new number is combined with all values of the other settings.
    """
    added: dict[tuple[str, ...], Overrides] = {}
    for aim in AIMS:
        for name, value in at_an_end(cells, best(cells, aim, unstable)):
            others = [list(dict.fromkeys(each.settings[other] for each in cells)) for other in cells[0].settings]
            own = list(cells[0].settings).index(name)
            others[own] = [f"{name}={value:g}"]
            for words in product(*others):
                added[words] = {word.partition("=")[0]: word for word in words}
    return [*added.values()]


def choice_frame(choices: Iterable[tuple[Condition, Sequence[GridCell]]]) -> pl.DataFrame:
    """Return a row for each cell of a grid, fold and choosing seed, with the metrics of a choice."""
    rows = []
    for condition, cells in choices:
        for each in cells:
            values = {metric: each.group.values(metric) for metric in METRICS if metric in each.group.metrics}
            for fold, seed in next(iter(values.values())):
                metrics = {metric: of_metric.get((fold, seed)) for metric, of_metric in values.items()}
                names = dict(zip(("table", "click", "competitor"), condition, strict=False))
                unit = {"settings": " ".join(each.settings.values()), "fold": fold, "seed": seed}
                rows.append(names | unit | metrics)
    columns = {"table": str, "click": str, "competitor": str, "settings": str}
    return pl.from_dicts(rows, infer_schema_length=None) if rows else pl.DataFrame(schema=columns)


def spread_of_choice(cells: pl.DataFrame, metric: str) -> float:
    """Return the standard deviation that the choice of settings gives to the mean of a metric; 0 without a choice.

    Choosing folds and seeds are drawn with replacement, apart from each other, and the choice is made again; the value
    of each choice is the mean over all of its choosing runs. Where one seed chooses, the spread is that over folds
    alone. cells: the rows of a condition in `choice_frame`. ValueError for a metric that choosing runs lack, unless
    another one stands in.
    """
    if cells["settings"].n_unique() < 2:
        return 0.0
    column = STAND_INS.get(metric, metric)
    if column not in cells.columns or cells[column].null_count():
        raise ValueError(f"{metric} must be a metric of the choosing runs, so that its intervals contain the choice")
    cells = cells.sort("settings", "fold", "seed")
    folds, seeds = cells["fold"].n_unique(), cells["seed"].n_unique()
    aim = METRICS[0] if aim_of(metric) == "offline" else "cumulative_ndcg"
    aims, values = (cells[name].to_numpy().reshape(-1, folds * seeds) for name in (aim, column))
    random = np.random.default_rng(SEED)
    drawn = [random.multinomial(count, [1 / count] * count, RESAMPLES) for count in (folds, seeds)]
    weights = (drawn[0][:, :, None] * drawn[1][:, None, :]).reshape(RESAMPLES, -1)
    chosen = (weights @ aims.T).argmax(axis=1)
    return float(values.mean(axis=1)[chosen].std())


def with_choice(half_width: float, *spreads: float) -> float:
    """Return half the 95 % interval that contains the choice of settings, from that without it."""
    normal = quantile(10**6)  # Student's t with so many degrees of freedom
    return (half_width**2 + sum((normal * each) ** 2 for each in spreads)) ** 0.5
