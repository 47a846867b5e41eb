"""Model selection: of the cells of a grid, the one with the best validation NDCG@10 stands for its competitor.

A competitor is a ranker with a model, an exploration and a fairness, under the same dataset, users and settings of the
run; its cells differ in settings of the ranker, its model and the exploration. What is compared is the mean after the
last evaluated round; the test split has no part in it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ol2r_cli.report.groups import Group
from ol2r_cli.report.labels import Labels, part_of

METRIC = "validation_ndcg_10"
CHOSEN = ("ranker", "ranker/model", "exploration")  # whose settings are chosen; others make the task another one


@dataclass(frozen=True)
class Selection:
    """The cells that were chosen, each with the number of cells it was chosen from, and what to warn of."""

    groups: list[Group]
    cells: list[int]
    warnings: list[str]


def select(groups: Sequence[Group], labels: Labels, keep: Iterable[str] = ()) -> Selection:
    """The best cell of every competitor; `keep` are settings that make separate competitors.

    Only cells with as many seeds and folds as the fullest are compared; of equally good ones the first in the order of
    settings is taken. ValueError for a setting in `keep` that no run has, and without validation.
    """
    keep = tuple(keep)
    known = dict.fromkeys(name for group in groups for name in group.settings)
    for name in keep:
        if name not in known:
            own = (setting for setting in known if part_of(setting) in CHOSEN and not setting.endswith("._target_"))
            raise ValueError(f"--keep must be settings such as {', '.join(own)}, got {name}")
    competitors: dict[str, list[Group]] = {}
    for group in groups:
        fixed = {name: group.settings[name] for name in group.settings if name in keep or part_of(name) not in CHOSEN}
        key = json.dumps([group.choices, fixed], sort_keys=True, default=str)
        competitors.setdefault(key, []).append(group)
    selection = Selection([], [], [])
    for cells in competitors.values():
        complete = _complete(cells, labels, selection.warnings)
        selection.groups.append(_best(complete, labels))
        selection.cells.append(len(complete))
    return selection


def _complete(cells: Sequence[Group], labels: Labels, warnings: list[str]) -> list[Group]:
    """The cells with as many seeds in every fold as the fullest: of most values and, among these, of most folds."""
    sizes = [{fold: len(seeds) for fold, seeds in cell.seeds.items()} for cell in cells]
    fullest = max(sizes, key=lambda size: (sum(size.values()), len(size)))
    for cell, size in zip(cells, sizes, strict=True):
        if size != fullest:
            has, most = _extent(size), _extent(fullest)
            warnings.append(f"left out of the choice, {has} where the fullest has {most}: {labels.overrides(cell)}")
    return [cell for cell, size in zip(cells, sizes, strict=True) if size == fullest]


def _extent(size: dict[object, int]) -> str:
    """Such as: 6 values in folds 1 and 2."""
    values, folds = sum(size.values()), sorted(map(str, size))
    where = f" in fold{'s' * (len(folds) > 1)} {' and '.join(folds)}" if size.keys() - {None} else ""
    return f"{values} value{'s' * (values > 1)}{where}"


def _best(cells: Sequence[Group], labels: Labels) -> Group:
    if len(cells) == 1:  # nothing to choose, hence no need of validation
        return cells[0]
    means = []
    for cell in cells:
        estimate = cell.estimate(METRIC)
        if estimate is None:
            raise ValueError(f"--select validation needs {METRIC}, which {cell.runs[0].path} lacks: {_advice(cell)}")
        means.append(estimate.mean)
    best = max(means)
    equal = [cell for cell, mean in zip(cells, means, strict=True) if mean == best]
    return min(equal, key=lambda cell: labels.order(cell, lambda name: True))


def _advice(cell: Group) -> str:
    if "validation" not in cell.settings.get("evaluate_on", ["validation"]):
        return "run it with evaluate_on=[validation,test]"
    if cell.estimate("test_ndcg_10") is None:
        return "its ranker is not evaluated offline, so name its settings behind --keep, or leave it out"
    return "run it with dataset.validation=0.2"
