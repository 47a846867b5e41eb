"""Model selection by validation: the cell of a grid with the best validation NDCG represents its competitor.

A competitor is a ranker with a model, an exploration and a fairness, under the same dataset, users and settings of the
run. Its cells differ in settings of the ranker, the model and the exploration. The selection compares means after the
last evaluated round; the test split has no part in it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ol2r_cli.report.finished_run import CODE
from ol2r_cli.report.labels import Labels, part_of
from ol2r_cli.report.measures import ndcg_metrics
from ol2r_cli.report.run_groups import Group

CHOSEN = ("ranker", "ranker/model", "exploration")  # parts whose settings are chosen


@dataclass(frozen=True)
class Selection:
    """The chosen cells, the number of cells that each was chosen from, and warnings."""

    groups: list[Group]
    cells: list[int]
    warnings: list[str]

    @property
    def chose(self) -> bool:
        """Whether any competitor had several cells."""
        return max(self.cells, default=0) > 1


def select(groups: Sequence[Group], labels: Labels, keep: Iterable[str] = ()) -> Selection:
    """The best cell of every competitor. Different values of a setting in `keep` are different competitors.

    Only cells with as many seeds and folds as the fullest cell are compared; of equally good cells the first in the
    order of settings is chosen. ValueError for a setting in `keep` that no run has, and without validation.
    """
    keep = tuple(keep)
    known = dict.fromkeys(name for group in groups for name in group.settings)
    for name in keep:
        if name not in known:
            examples = (
                setting for setting in known if part_of(setting) in CHOSEN and not setting.endswith("._target_")
            )
            raise ValueError(f"--keep must be settings such as {', '.join(examples)}, got {name}")
    competitors: dict[str, list[Group]] = {}
    for group in groups:
        fixed = {name: group.settings[name] for name in group.settings if name in keep or not _is_chosen(name)}
        key = json.dumps([group.choices, fixed], sort_keys=True, default=str)
        competitors.setdefault(key, []).append(group)
    selection = Selection([], [], [])
    for cells in competitors.values():
        complete = _complete(cells, labels, selection.warnings)
        selection.groups.append(_best(complete, labels))
        selection.cells.append(len(complete))
    return selection


def _is_chosen(setting: str) -> bool:
    """Whether cells may differ in a setting; another version of the code is another competitor."""
    return part_of(setting) in CHOSEN and not setting.endswith(f".{CODE}")


def _complete(cells: Sequence[Group], labels: Labels, warnings: list[str]) -> list[Group]:
    """The cells with as many seeds in every fold as the fullest, which has most values and, of these, most folds."""
    sizes = [{fold: len(seeds) for fold, seeds in cell.seeds.items()} for cell in cells]
    fullest = max(sizes, key=lambda size: (sum(size.values()), len(size)))
    for cell, size in zip(cells, sizes, strict=True):
        if size != fullest:
            warnings.append(
                f"left out of the choice, {_extent(size)} where the fullest has {_extent(fullest)}: "
                f"{labels.overrides(cell)}"
            )
    return [cell for cell, size in zip(cells, sizes, strict=True) if size == fullest]


def _extent(size: dict[object, int]) -> str:
    """For example `6 values in folds 1 and 2`."""
    values, folds = sum(size.values()), sorted(map(str, size))
    where = f" in fold{'s' * (len(folds) > 1)} {' and '.join(folds)}" if size.keys() - {None} else ""
    return f"{values} value{'s' * (values > 1)}{where}"


def _best(cells: Sequence[Group], labels: Labels) -> Group:
    if len(cells) == 1:  # without alternatives no validation is needed
        return cells[0]
    means = []
    metric = ndcg_metrics(cells)[1]
    for cell in cells:
        estimate = cell.estimate(metric)
        if estimate is None:
            raise ValueError(f"--select validation needs {metric}, which {cell.runs[0].path} lacks: {_advice(cell)}")
        means.append(estimate.mean)
    best = max(means)
    equal = [cell for cell, mean in zip(cells, means, strict=True) if mean == best]
    return min(equal, key=lambda cell: labels.sort_key(cell, lambda name: True))


def _advice(cell: Group) -> str:
    if "validation" not in cell.runs[0].settings.get("evaluate_on", ["validation"]):
        return "run it with evaluate_on=[validation,test]"
    if cell.estimate(ndcg_metrics([cell])[0]) is None:
        return "its ranker is not evaluated offline, so name its settings behind --keep, or leave it out"
    return "run it with dataset.validation=0.2"
