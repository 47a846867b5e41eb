"""Probabilities by relevance grade, chosen by the number of grades of the dataset, and by place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from ol2r_cli.config.ranges import Share
from ol2r_cli.interfaces import ClickModel, RunContext
from ol2r_cli.tensor.shapes import Float

Tables = Mapping[int, Mapping[str, Sequence[Share]]]  # number of grades -> setting -> probability of each grade


def by_grade(
    model: ClickModel, name: str, values: Sequence[float] | None, tables: Tables, context: RunContext
) -> Float[Tensor, "G"]:
    """Return the `values` of the setting `name`, or if they are None those of the table for the dataset's grades.

    Without such a table they are interpolated, and `model.warnings` says so. ValueError, with what to type, if there
    is no table to interpolate, or not one probability per grade.
    """
    grades = context.grades
    tables = {int(number): table for number, table in tables.items() if str(number).isdecimal()}  # typed ones are text
    if values is None:
        number = nearest(tables, grades)
        values = tables.get(number, {}).get(name)
        if values is None:
            dots = ",".join("." for _ in range(grades))
            missing = f"{model.setting('tables')} must have {name} for {number or grades} grades"
            raise ValueError(f"{missing}, got none: type {model.setting(name)}=[{dots}]")
        if len(values) != number:
            places = f"{model.setting('tables')}.{number}.{name} must be {number} probabilities, one per grade"
            raise ValueError(f"{places}, got {list(values)}")
        if number != grades:
            values = interpolated(values, grades)
            shown = ",".join(f"{value:.4g}" for value in values)
            model.warnings += (
                f"{model.setting(name)} for {grades} grades is interpolated from that for {number} grades: [{shown}]; "
                f"{model.setting(name)}=[..] sets your own",
            )
    if len(values) != grades:
        raise ValueError(f"{model.setting(name)} must be {grades} probabilities, one per grade, got {list(values)}")
    return torch.tensor(list(values), dtype=torch.float64, device=context.device)


def by_place(
    model: ClickModel,
    name: str,
    values: Sequence[float] | None,
    curve: Callable[[int], float],
    context: RunContext,
) -> Float[Tensor, "K"]:
    """Return the first K `values` of the setting `name`, or if they are None what `curve` gives for places 1 .. K.

    ValueError if there are fewer values than places.
    """
    positions = context.positions
    if values is None:
        values = [curve(rank) for rank in range(1, positions + 1)]
    if len(values) < positions:
        raise ValueError(f"{model.setting(name)} must be {positions} probabilities, one per place, got {list(values)}")
    return torch.tensor(list(values)[:positions], dtype=torch.float64, device=context.device)


def nearest(tables: Tables, grades: int) -> int:
    """Return the number of grades of the table for so many grades: the same, else the next larger, else the largest.

    0 if there is no table of two grades or more.
    """
    if grades in tables:
        return grades
    numbers = [number for number in tables if number > 1]
    return min((number for number in numbers if number > grades), default=max(numbers, default=0))


def interpolated(values: Sequence[float], grades: int) -> list[float]:
    """Return the probabilities of so many grades: grade g of G has that of g / (G - 1), linear between those given.

    The first and the last grade keep their probabilities. In the papers' tables, those of the informational and the
    navigational user for 3 grades follow from those for 5 in this way.
    """
    probabilities = []
    for grade in range(grades):
        place = grade * (len(values) - 1) / max(1, grades - 1)
        below = min(int(place), len(values) - 2)
        share = place - below
        probabilities.append((1 - share) * values[below] + share * values[below + 1])
    return probabilities
