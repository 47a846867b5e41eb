"""Settings that groups differ in, as axes of a figure, and groups as its points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ol2r_cli.report.figures.legend import Legend
from ol2r_cli.report.figures.options import NothingToDraw
from ol2r_cli.report.groups import Group
from ol2r_cli.report.labels import Labels
from ol2r_cli.report.override import text
from ol2r_cli.report.statistics import Estimate


def chosen(groups: Sequence[Group], labels: Labels, given: Sequence[str | None], options: Sequence[str]) -> list[str]:
    """The settings of the axes: those given, else the only ones in which groups with the same ranker differ.

    `options` are what the axes are called on the command line. ValueError for a setting that they do not differ in, and
    where there is a choice; NothingToDraw where there are too few.
    """
    if not groups:
        raise NothingToDraw
    legend = Legend(groups, labels)
    varying = legend.varying()
    for name, setting in zip(options, given, strict=True):
        if setting is not None and setting not in varying:
            there = ", ".join(varying) or "nothing: all groups have the same"
            raise ValueError(f"{name} must be a setting that groups differ in ({there}), got {setting}")
    left = [name for name in varying if name not in given]
    missing = sum(setting is None for setting in given)
    if len(left) < missing:
        raise NothingToDraw(f"these differ in {', '.join(varying) or 'nothing'}")
    if missing and len(left) > missing:
        raise ValueError(
            f"{' and '.join(options)} must be chosen from {', '.join(varying)}: type {options[0]}={left[0]}"
        )
    remaining = iter(left)
    return [setting if setting is not None else next(remaining) for setting in given]


def put(cells: dict[Any, Estimate], place: Any, group: Group, metric: str, name: str) -> None:
    """Set a group at its place; ValueError where another one is."""
    if place in cells:
        raise ValueError(f"there must be one group for every value, got several of {name}: name fewer folders")
    estimate = group.estimate(metric)
    if estimate is not None:
        cells[place] = estimate


def values_of(groups: Sequence[Group], name: str) -> list[Any]:
    """The values of a setting, by size where they are numbers."""
    unique = {text(group.settings[name]): group.settings[name] for group in groups}
    numbers = all(isinstance(value, int | float) for value in unique.values())
    return sorted(unique.values(), key=None if numbers else text)
