"""Ordered blocks with the groups of their documents, to test FairSwap with: all that differ, and random ones."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

Case = tuple[list[list[int]], str]  # blocks, top one first, and the group of each document


def cut(proposal: list[int], ends: tuple[bool, ...]) -> list[list[int]]:
    """Blocks of a draft, one of which ends after the i-th document where `ends[i]`."""
    blocks = [[proposal[0]]]
    for document, ended in zip(proposal[1:], ends, strict=True):
        if ended:
            blocks.append([])
        blocks[-1].append(document)
    return blocks


def every_case(documents: int) -> Iterator[Case]:
    """All block sizes with all groups: 2^(V-1) x 2^V. Other numbers for the documents would not be other cases."""
    for ends in product([False, True], repeat=documents - 1):
        for groups in product("AB", repeat=documents):
            yield cut(list(range(documents)), ends), "".join(groups)


def random_case(rng: np.random.Generator, documents: int) -> Case:
    """Few or many blocks, and groups of any imbalance."""
    ends, in_b = rng.random(documents - 1) < rng.random(), rng.random(documents) < rng.random()
    return cut(rng.permutation(documents).tolist(), tuple(ends.tolist())), "".join("AB"[int(b)] for b in in_b)
