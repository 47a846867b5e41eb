"""Probabilities by relevance grade, chosen by the number of grades of the dataset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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

    ValueError, with what to type, if there is no such table or not one probability per grade.
    """
    grades = context.grades
    if values is None:
        if grades not in tables:
            known = ", ".join(str(number) for number in tables)
            dots = ",".join("." for _ in range(grades))
            missing = " ".join(f"{model.setting(column)}=[{dots}]" for column in next(iter(tables.values())))
            raise ValueError(
                f"this click model has probabilities for {known} grades, the dataset has {grades}: give {missing}"
            )
        values = tables[grades][name]
    if len(values) != grades:
        raise ValueError(f"{model.setting(name)} must be {grades} probabilities, one per grade, got {list(values)}")
    return torch.tensor(list(values), dtype=torch.float64, device=context.device)
