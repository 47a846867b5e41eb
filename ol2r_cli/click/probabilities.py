"""Which probability belongs to which grade, chosen by how many grades the dataset has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from ol2r_cli.interfaces import Sizes
from ol2r_cli.shapes import Float

Tables = Mapping[int, Mapping[str, Sequence[float]]]


def by_grade(name: str, given: Sequence[float] | None, tables: Tables, sizes: Sizes) -> Float[Tensor, "G"]:
    """The probabilities `given`, or else those the tables hold for a dataset with this number of grades."""
    if given is None:
        if sizes.grades not in tables:
            known = ", ".join(str(grades) for grades in tables)
            values = ",".join("." for _ in range(sizes.grades))
            wanted = " ".join(f"click.{column}=[{values}]" for column in next(iter(tables.values())))
            raise ValueError(
                f"this click model has probabilities for {known} grades, the dataset has {sizes.grades}: give {wanted}"
            )
        given = tables[sizes.grades][name]
    if len(given) != sizes.grades or not all(0 <= p <= 1 for p in given):
        raise ValueError(f"click.{name} must be {sizes.grades} probabilities, one per grade, got {list(given)}")
    return torch.tensor(list(given), dtype=torch.float64, device=sizes.device)
