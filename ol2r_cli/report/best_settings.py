"""Where the best settings are chosen: among runs that differ in settings, those with the best mean of a criterion.

A criterion is NDCG on validation queries, cumulative NDCG, or one of a plug-in (`plugins.Criterion`).

`select` finds what competes in whatever runs a folder holds, for `ol2r report --select` and report.html; recipes
say themselves what competes. `best_cell` chooses for both. The test split has no part in the choice.
`ol2r search` asks Optuna for its best trial (`Study.best`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any, TypeVar

from ol2r_cli.plugins import Criterion, plugins
from ol2r_cli.report.comparison import paired_values
from ol2r_cli.report.estimates import Values, of_values
from ol2r_cli.report.names import Labels
from ol2r_cli.report.parts import part_of
from ol2r_cli.report.run_groups import Group
from ol2r_cli.report.shown_metrics import ndcg_metrics
from ol2r_cli.run.run import CODE, CONTENT


class NotDecided(ValueError):
    """The criterion says nothing of which cell is better. The message has the reason."""


CHOSEN = ("ranker", "ranker/model", "exploration")  # parts whose settings `select` chooses


def criterion(name: str) -> Criterion:
    """Return a criterion by its name; ValueError where no plug-in that is installed has it."""
    found = {each.name: each for each in criteria()}
    if name not in found:
        raise ValueError(f"settings are chosen by {', '.join(found)}, got {name}, whose plug-in is not installed")
    return found[name]


def criteria() -> list[Criterion]:
    """Return all criteria, those of plug-ins last."""
    return [*_CORE, *(each for plugin in plugins() for each in plugin.criteria)]


def values_of(cells: Sequence[Group], by: str) -> Mapping[Group, Values]:
    """Return for each cell the values of a criterion by (fold, seed), whose highest mean is the best.

    ValueError for runs that lack it.
    """
    return criterion(by).values(cells)


def _ndcg(place: int, cells: Sequence[Group]) -> dict[Group, Values]:
    """Return the values of one of `ndcg_metrics`; ValueError for a cell without it."""
    metric = ndcg_metrics(cells)[place]
    values: dict[Group, Values] = {cell: cell.values(metric) for cell in cells}
    lacking = [cell for cell in cells if not values[cell]]
    if lacking:
        raise ValueError(
            f"settings are chosen by {metric}, which {lacking[0].runs[0].path} lacks: leave it out, or run it with "
            "evaluate_on=[validation,test] and, where the data have no validation queries, dataset.validation=0.2"
        )
    return values


Cell = TypeVar("Cell")

_CORE = (
    Criterion(
        name="validation", about="best mean validation NDCG after the last evaluated round", values=partial(_ndcg, 1)
    ),
    Criterion(name="online", about="highest mean cumulative NDCG", values=partial(_ndcg, 2)),
)


def means_of(cells: Sequence[Group], by: str) -> dict[Group, float]:
    """Return the mean of the criterion of each cell; ValueError as of `values_of`."""
    means = {}
    for cell, values in values_of(cells, by).items():
        estimate = of_values(values, cell.units.independent)
        means[cell] = estimate.mean if estimate else math.nan
    return means


def best_cell(cells: Sequence[Group], by: str, unstable: Collection[Group] = ()) -> Group:
    """Return the cell with the best mean of the criterion, the first of equal ones; ValueError for one without it.

    NotDecided where the criterion says nothing of them, or a mean is no number.
    unstable: cells with which another processor gives other results. One of them is chosen only where the best of the
    others is worse by more than half the 95 % interval of the paired difference.
    """
    why_undecided = criterion(by).undecided
    if why_undecided and (undecided := why_undecided(cells)):
        raise NotDecided(undecided)
    means = means_of(cells, by)
    if not all(map(math.isfinite, means.values())):
        raise NotDecided("a mean is no number")
    return best_of(values_of(cells, by), means, unstable)


def best_of(values: Mapping[Cell, Values], means: Mapping[Cell, float], unstable: Collection[Cell]) -> Cell:
    """Return the cell with the best mean, by the rule of `best_cell`; values: of each cell by fold and seed."""
    best = max(means, key=means.__getitem__)
    stable = [cell for cell in means if cell not in unstable]
    if best in stable or not stable:
        return best
    best_stable = max(stable, key=means.__getitem__)
    difference = of_values(paired_values(values[best], values[best_stable]))
    if difference is not None and difference.mean <= (difference.half_width or 0):
        return best_stable
    return best


@dataclass(frozen=True)
class Selection:
    """The chosen cells, each with the number of cells that it was chosen from, and warnings.

    settings: those that may differ between the cells of a grid. compared: of each chosen cell, what the criterion says
    of the cells that it was chosen from (`Criterion.compared`).
    """

    cells: dict[Group, int]
    warnings: list[str]
    by: str = "validation"
    settings: frozenset[str] = frozenset()
    compared: dict[Group, Sequence[Any]] = field(default_factory=dict)

    @property
    def chose(self) -> bool:
        """Return whether any competitor had several cells."""
        return max(self.cells.values(), default=0) > 1


def select(groups: Sequence[Group], labels: Labels, keep: Collection[str] = (), by: str = "validation") -> Selection:
    """Return the best cell of every competitor's grid.

    A competitor is a ranker with a model, an exploration and a fairness, under the same dataset, users and settings of
    the run; its cells differ in settings of `CHOSEN` that are not in `keep`. Only cells with as many seeds and folds as
    the fullest cell are compared; of equally good cells the first in the order of settings is chosen. A grid of which
    the criterion decides nothing has no chosen cell, and a warning says why. ValueError for a setting in `keep` that no
    run has, without the criterion, and where nothing is decided.
    """
    settings = _settings_of_grids(groups, keep)
    selection, undecided = Selection({}, [], by, settings), ""
    for cells in grids(groups, settings):
        extents = {cell: {fold: len(seeds) for fold, seeds in cell.seeds.items()} for cell in cells}
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
        compares = criterion(by).compared
        if compares and len(complete) > 1:
            selection.compared[best] = compares(complete, best)
            selection.warnings.extend(_doubts_of(best, complete, selection, labels))
    if not selection.cells:
        raise ValueError(f"{undecided}: type more validation_sessions, more replicas, or --select validation")
    return selection


def _doubts_of(best: Group, cells: Sequence[Group], selection: Selection, labels: Labels) -> list[str]:
    """Return lines on what the criterion does not tell of a choice."""
    name = f"{best.choices['dataset']}, {best.choices['click']}, {labels.ranker(best)}"
    doubts = criterion(selection.by).doubts
    return [f"{name}: {line}" for line in doubts(cells, best, selection.compared[best])] if doubts else []


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
    # Another version of the code, or of a file, is another competitor.
    return frozenset(name for name in of_chosen_parts if not name.endswith((f".{CODE}", f".{CONTENT}"))) - set(keep)
