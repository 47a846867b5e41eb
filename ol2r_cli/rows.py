"""Rows picked from a batch of tables: the gather that everything here is made of, in its fastest form."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from ol2r_cli.shapes import Int, Shaped


@cache
def places(count: int, device: torch.device) -> Int[Tensor, "D"]:
    """0, 1, .., count - 1; shared, not to be written to."""
    return torch.arange(count, device=device)


def pick(table: Shaped[Tensor, "B D *X"], index: Int[Tensor, "B M"]) -> Shaped[Tensor, "B M *X"]:
    """table[b, index[b, m]]: whole rows, copied by one index_select, several times faster than indexing does it."""
    replicas, rows = table.shape[:2]
    if replicas == 1:
        return table[0].index_select(0, index[0])[None]
    first = places(replicas, index.device)[:, None] * rows
    picked = table.flatten(0, 1).index_select(0, (index + first).flatten())
    return picked.unflatten(0, index.shape)


def pick_both(matrix: Shaped[Tensor, "B D D"], index: Int[Tensor, "B M"]) -> Shaped[Tensor, "B M M"]:
    """matrix[b, index[b, m], index[b, n]]."""
    return pick(pick(matrix, index).mT.contiguous(), index).mT
