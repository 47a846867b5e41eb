"""Certain pairs that an order breaks, and the fewest that it has to break for a placement template.

Jia and Wang, "Calibrating Explore-Exploit Trade-off for Fair Online Learning to Rank" (2021), section 4.2.2: added
regret and Theorem 2; Jia's dissertation, chapter 3, Algorithm 4, line 17. Documents and blocks as in `fairswap`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import combinations, permutations
from typing import NamedTuple

import numpy as np

from ol2r_cli.tensor.shapes import Bool, Int
from tests.reference.exposure import letters
from tests.reference.fairswap import Blocks


class Broken(NamedTuple):
    """Certain pairs that an order reverses."""

    across: int  # pairs from two blocks
    inside: int  # pairs from the same block


def broken(order: Sequence[int], certain: Bool[np.ndarray, "D D"], blocks: Blocks) -> Broken:
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


def certain_across(blocks: Blocks) -> Bool[np.ndarray, "D D"]:
    """The relation that blocks alone give: every pair across blocks is certain, none inside."""
    documents = sum(map(len, blocks))
    certain = np.zeros((documents, documents), dtype=bool)
    for upper, lower in combinations(blocks, 2):
        for i in upper:
            certain[i, list(lower)] = True
    return certain


@cache
def all_orders(documents: int) -> Int[np.ndarray, "N D"]:
    """All orders of documents 0 .. documents - 1, for at most 7."""
    return np.array(list(permutations(range(documents))))


def brute_force_minima(certain: Bool[np.ndarray, "D D"], groups: str) -> dict[str, int]:
    """The fewest certain pairs that any order with a template breaks, for every template of every length.

    Templates that no order has are absent.
    """
    documents = range(len(groups))
    orders = all_orders(len(groups))
    counts = np.zeros(len(orders), dtype=int)
    for p, q in combinations(documents, 2):
        counts += certain[orders[:, q], orders[:, p]]
    is_b = np.array([group == "B" for group in groups], dtype=int)[orders]
    minima = {}
    for length in range(1, len(groups) + 1):
        number = is_b[:, :length] @ 2 ** np.arange(length)  # of the template: place p counts 2^p where it has a B
        fewest = np.full(2**length, len(groups) ** 2)
        np.minimum.at(fewest, number, counts)
        for template in set(number.tolist()):
            minima[letters([template >> place & 1 for place in range(length)])] = int(fewest[template])
    return minima


def brute_force_minimum(blocks: Blocks, groups: str, template: str) -> int:
    """Theorem 2: the fewest cross-block orders that any of all orders with the template at its top breaks."""
    return brute_force_minima(certain_across(blocks), groups)[template]
