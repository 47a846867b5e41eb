"""Whether a full covariance matrix of tangents will fit into the machine, asked before there is any of it."""

from __future__ import annotations

import math
import os

import torch

from ol2r_cli.interfaces import Sizes
from ol2r_cli.learning.covariance import most_rows
from ol2r_cli.learning.dual import STRIP


def check_memory(sizes: Sizes, dtype: torch.dtype) -> None:
    """ValueError, with what to type, where the worst case is more than all memory: K // 2 pairs in every round."""
    pairs, there = max(sizes.positions // 2, 1), available(sizes.device)
    rows = most_rows(sizes.rounds * pairs, sizes.parameters)
    if needed(rows, sizes, dtype) <= there:
        return
    per_row = there / sizes.replicas / dtype.itemsize
    fitting = int(math.sqrt(2 * per_row)) // pairs
    while fitting > 0 and needed(fitting * pairs, sizes, dtype) > there:
        fitting = fitting * 99 // 100
    single = "" if dtype == torch.float32 else "exploration.precision=float32, "
    raise ValueError(
        f"rounds must be at most {fitting} with exploration.covariance=full and replicas={sizes.replicas} in "
        f"{there / 2**30:.1f} GiB of memory, got {sizes.rounds}: {single}fewer replicas or "
        "exploration.covariance=diagonal need less"
    )


def needed(rows: int, sizes: Sizes, dtype: torch.dtype) -> float:
    """Bytes for all replicas: the triangle, the history, and what one query makes of it.

    A gradient is kept as some vectors of a hidden layer's width, which is at most the root of P, and the features.
    """
    factors = sizes.features + 4 * math.isqrt(sizes.parameters)
    triangle = rows * (rows + STRIP) / 2
    return float(sizes.replicas * dtype.itemsize * (triangle + rows * (2 * factors + sizes.documents)))


def available(device: torch.device) -> int:
    """Bytes of memory: all of the machine's, or what is free of the GPU's."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
