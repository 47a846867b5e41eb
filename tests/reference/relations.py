"""Certain relations to test with: Figure 1 of the PairRank paper, relations from edges, and random ones."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tests.reference.arrays import Relation


def from_edges(documents: int, edges: Iterable[tuple[int, int]]) -> Relation:
    """The relation with i certainly above j for every edge (i, j), and nothing else."""
    certain = np.zeros((documents, documents), dtype=bool)
    for i, j in edges:
        certain[i, j] = True
    return certain


def figure_1() -> Relation:
    """Jia et al., PairRank (WWW 2021), Figure 1: the order is 1 > 2 > 3 > 4 > 5, all certain but (1,2) (3,5) (4,5).

    Documents count from 0 here.
    """
    uncertain = {(0, 1), (2, 4), (3, 4)}
    return from_edges(5, [(i, j) for i in range(5) for j in range(i + 1, 5) if (i, j) not in uncertain])


def random_relation(rng: np.random.Generator, documents: int, density: float, acyclic: bool = True) -> Relation:
    """Every ordered pair is certain with probability `density`; if `acyclic`, only along a hidden random order.

    Neither kind is closed transitively. A cyclic one may call both directions of a pair certain.
    """
    certain = rng.random((documents, documents)) < density
    np.fill_diagonal(certain, False)
    if acyclic:
        place = rng.permutation(documents)
        certain &= place[:, None] < place[None, :]
    return certain
