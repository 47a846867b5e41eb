"""Certain pairs that an order breaks, and the fewest that it has to break for a placement template.

Jia and Wang, "Calibrating Explore-Exploit Trade-off for Fair Online Learning to Rank" (2021), section 4.2.2: added
regret and Theorem 2; Jia's dissertation, chapter 3, Algorithm 4, line 17. Documents and blocks as in `fairswap`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from tests.reference.arrays import Relation
from tests.reference.fairswap import Blocks


class Broken(NamedTuple):
    """Certain pairs that an order reverses."""

    across: int  # pairs from two blocks
    inside: int  # pairs from the same block


def broken(order: Sequence[int], certain: Relation, blocks: Blocks) -> Broken:
    """count_violations of line 17. `certain[i, j]`: i is certainly above j.

    Of a whole order, this is the added regret; of its first k places, the violations among what is shown. Where a
    cycle makes a pair certain both ways, every order breaks it once.
    """
    number = {d: i for i, block in enumerate(blocks) for d in block}
    across = inside = 0
    for upper, lower in combinations(order, 2):
        if certain[lower, upper]:
            across += number[lower] != number[upper]
            inside += number[lower] == number[upper]
    return Broken(across, inside)


def certain_across(blocks: Blocks) -> Relation:
    """The relation that blocks alone give: every pair across blocks is certain, none inside."""
    documents = sum(map(len, blocks))
    certain = np.zeros((documents, documents), dtype=bool)
    for upper, lower in combinations(blocks, 2):
        for i in upper:
            certain[i, list(lower)] = True
    return certain
