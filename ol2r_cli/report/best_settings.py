"""Where the best settings are chosen: among runs that differ in settings, those with the best mean of a criterion.

A criterion is NDCG on validation queries, cumulative NDCG, or what clicks on validation queries say (`click_values`).

`select` finds what competes in whatever runs a folder holds, for `ol2r report --select` and report.html; recipes
(`recipes.grid`) say themselves what competes. `best_cell` chooses for both. The test split has no part in the choice.
`ol2r search` asks Optuna for its best trial (`Study.best`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import chain

from ol2r_cli.formatting import plural
from ol2r_cli.report.click_values import (
    ClickValue,
    beside,
    click_values,
    clicks_a_session,
    doubts,
    why_undecided,
)
from ol2r_cli.report.comparison import paired_values
from ol2r_cli.report.estimates import Values, of_values
from ol2r_cli.report.names import Labels
from ol2r_cli.report.parts import part_of
from ol2r_cli.report.run_groups import Group
from ol2r_cli.report.shown_metrics import ndcg_metrics
from ol2r_cli.run.run import CODE


class NotDecided(ValueError):
    """The criterion says nothing of which cell is better. The message has the reason."""


CHOSEN = ("ranker", "ranker/model", "exploration")  # parts whose settings `select` chooses


def values_of(cells: Sequence[Group], by: str) -> dict[Group, Values]:
    """Return for each cell the values of a criterion by (fold, seed), whose highest mean is the best.

    by: `validation` for NDCG on validation queries after the last evaluated round, `online` for cumulative NDCG,
    `clicks` for what the clicks of validation sessions say, of all cells together, `raw` for their number. ValueError
    for runs that lack it.
    """
    if by == "clicks":
        return click_values(tuple(cells))
    if by == "raw":
        return clicks_a_session(tuple(cells))
    _, validation, cumulative, _ = ndcg_metrics(cells)
    metric = validation if by == "validation" else cumulative
    values: dict[Group, Values] = {cell: cell.values(metric) for cell in cells}
    lacking = [cell for cell in cells if not values[cell]]
    if lacking:
        raise ValueError(
            f"settings are chosen by {metric}, which {lacking[0].runs[0].path} lacks: leave it out, or run it with "
            "evaluate_on=[validation,test] and, where the data have no validation queries, dataset.validation=0.2"
        )
    return values


def means_of(cells: Sequence[Group], by: str) -> dict[Group, float]:
    """Return the mean of the criterion of each cell; ValueError as of `values_of`."""
    means = {}
    for cell, values in values_of(cells, by).items():
        estimate = of_values(values, cell.units.independent)
        means[cell] = estimate.mean if estimate else math.nan
    return means


def best_cell(cells: Sequence[Group], by: str, unstable: Collection[Group] = ()) -> Group:
    """Return the cell with the best mean of the criterion, the first of equal ones; ValueError for one without it.

    NotDecided where clicks say nothing of them, or a mean is no number.
    unstable: cells with which another processor gives other results. One of them is chosen only where the best of the
    others is worse by more than half the 95 % interval of the paired difference.
    """
    undecided = why_undecided(tuple(cells)) if by == "clicks" else ""
    if undecided:
        raise NotDecided(undecided)
    means = means_of(cells, by)
    if not all(map(math.isfinite, means.values())):
        raise NotDecided("a mean is no number")
    best = max(means, key=means.__getitem__)
    stable = [cell for cell in cells if cell not in unstable]
    if best in stable or not stable:
        return best
    best_stable = max(stable, key=means.__getitem__)
    values = values_of(cells, by)
    difference = of_values(paired_values(values[best], values[best_stable]))
    if difference is not None and difference.mean <= (difference.half_width or 0):
        return best_stable
    return best


@dataclass(frozen=True)
class Selection:
    """The chosen cells, each with the number of cells that it was chosen from, and warnings.

    settings: those that may differ between the cells of a grid. by_clicks: of each chosen cell, what clicks say of the
    cells that it was chosen from.
    """

    cells: dict[Group, int]
    warnings: list[str]
    by: str = "validation"
    settings: frozenset[str] = frozenset()
    by_clicks: dict[Group, list[ClickValue]] = field(default_factory=dict)

    @property
    def chose(self) -> bool:
        """Return whether any competitor had several cells."""
        return max(self.cells.values(), default=0) > 1


def select(groups: Sequence[Group], labels: Labels, keep: Collection[str] = (), by: str = "validation") -> Selection:
    """Return the best cell of every competitor's grid.

    A competitor is a ranker with a model, an exploration and a fairness, under the same dataset, users and settings of
    the run; its cells differ in settings of `CHOSEN` that are not in `keep`. Only cells with as many seeds and folds as
    the fullest cell are compared; of equally good cells the first in the order of settings is chosen. A grid of which
    clicks decide nothing has no chosen cell, and a warning says why. ValueError for a setting in `keep` that no run
    has, without validation, and where nothing is decided.
    """
    settings = _settings_of_grids(groups, keep)
    selection, undecided = Selection({}, [], by, settings), ""
    for cells in grids(groups, settings):
        extents = {cell: _extent(cell) for cell in cells}
        fullest = max(extents.values(), key=lambda extent: (sum(extent.values()), len(extent)))
        for cell, extent in extents.items():
            if extent != fullest:
                reason = "left out of the choice, with fewer or other seeds and folds than the fullest"
                selection.warnings.append(f"{reason}: {labels.overrides(cell)}")
        complete = [cell for cell in cells if extents[cell] == fullest]
        complete.sort(key=lambda cell: labels.sort_key(cell, lambda setting: True))
        # Without alternatives no validation is needed.
        try:
            best = best_cell(complete, by) if len(complete) > 1 else complete[0]
        except NotDecided as reason:
            first = complete[0]
            place = f"{first.choices['dataset']}, {first.choices['click']}, {labels.ranker(first)}"
            undecided = f"not decided, {place}, {len(complete)} settings: {reason}"
            selection.warnings.append(undecided)
            continue
        selection.cells[best] = len(complete)
        if by == "clicks" and len(complete) > 1:
            selection.by_clicks[best] = beside(tuple(complete), best)
            selection.warnings.extend(_doubts_of(best, complete, selection.by_clicks[best], labels))
    if not selection.cells:
        raise ValueError(f"{undecided}: type more validation_sessions, more replicas, or --select validation")
    return selection


def _doubts_of(best: Group, cells: Sequence[Group], values: Sequence[ClickValue], labels: Labels) -> list[str]:
    """Return lines on a choice by clicks: what it does not tell apart, and for what the sessions are too few."""
    name = f"{best.choices['dataset']}, {best.choices['click']}, {labels.ranker(best)}"
    lines = [f"{name}: {line}" for line in doubts(tuple(cells))]
    alike = sum(not value.told_apart for value in values if value.cell is not best)
    if alike:
        why = "" if values[0].half_width is not None else ", as it takes two seeds or folds"
        lines.append(
            f"{name}: clicks do not tell {alike} of {plural(len(cells) - 1, 'other setting')} from the chosen one{why}"
        )
    return lines


def grids(groups: Sequence[Group], settings: Collection[str]) -> list[list[Group]]:
    """Return the cells of each competitor, as `select` defines it, which differ in these settings."""
    cells_of: dict[str, list[Group]] = {}
    for group in groups:
        fixed = {name: value for name, value in group.settings.items() if name not in settings}
        competitor = json.dumps([group.choices, fixed], sort_keys=True, default=str)
        cells_of.setdefault(competitor, []).append(group)
    return list(cells_of.values())


def _settings_of_grids(groups: Sequence[Group], keep: Collection[str]) -> frozenset[str]:
    """Return the settings that a selection chooses; ValueError for an unknown setting in `keep`."""
    known = dict.fromkeys(chain(*(group.settings for group in groups)))
    of_chosen_parts = [name for name in known if part_of(name) in CHOSEN]
    for name in keep:
        if name not in known:
            examples = [example for example in of_chosen_parts if not example.endswith("._target_")]
            raise ValueError(f"--keep must be settings such as {', '.join(examples)}, got {name}")
    # Another version of the code is another competitor.
    return frozenset(name for name in of_chosen_parts if not name.endswith(f".{CODE}")) - set(keep)


def _extent(cell: Group) -> dict[object, int]:
    """Return the number of seeds of each fold."""
    return {fold: len(seeds) for fold, seeds in cell.seeds.items()}
