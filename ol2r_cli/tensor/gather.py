"""Fast gathers of rows from a batch of tables."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from ol2r_cli.tensor.shapes import Int, Shaped


@cache
def cached_arange(count: int, device: torch.device) -> Int[Tensor, "D"]:
    """Return 0, 1, .., count - 1. The tensor is shared: do not write to it."""
    return torch.arange(count, device=device)


def gather(table: Shaped[Tensor, "B D *X"], index: Int[Tensor, "B M"]) -> Shaped[Tensor, "B M *X"]:
    """Return table[b, index[b, m]]. One index_select copies whole rows, several times faster than indexing."""
    replicas, rows = table.shape[:2]
    if replicas == 1:
        return table[0].index_select(0, index[0])[None]
    first = cached_arange(replicas, index.device)[:, None] * rows
    selected = table.flatten(0, 1).index_select(0, (index + first).flatten())
    return selected.unflatten(0, index.shape)


def unique_rows(values: Int[Tensor, "B X"]) -> tuple[Int[Tensor, "B Y"], Int[Tensor, "B X"]]:
    """Return the different numbers of each row in rising order, zeros after them, and the place of each value there.

    That is `torch.unique` of every row, which a GPU would have to be waited for as often as there are rows.
    """
    rising, order = values.sort(1)
    is_new = torch.ones_like(rising, dtype=torch.bool)
    is_new[:, 1:] = rising[:, 1:] != rising[:, :-1]
    place = is_new.cumsum(1) - 1
    different = rising.new_zeros(len(values), int(is_new.sum(1).max())).scatter_(1, place, rising)
    return different, torch.empty_like(place).scatter_(1, order, place)
