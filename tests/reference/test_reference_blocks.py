"""The block oracle against enumeration, Definition 4 and Figure 1 of the PairRank paper."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tests.reference.blocks import (
    finest_admissible,
    is_admissible,
    ordered_partitions,
    partition,
    transitive_closure,
    uncertain_pairs,
)
from tests.reference.relations import figure_1, from_edges, random_relation

pytestmark = pytest.mark.slow  # tests of the oracle itself

SHAPES = [(4, 150), (5, 100), (6, 20)]  # documents, relations tried for every density


def relations(seed: int, acyclic: bool):
    """Relations of every size of SHAPES, from sparse to dense, raw and closed."""
    rng = np.random.default_rng(seed)
    for documents, count in SHAPES:
        for density in (0.3, 0.6, 0.9):
            for _ in range(count // 3):
                raw = random_relation(rng, documents, density, acyclic)
                yield raw
                yield transitive_closure(raw)


def test_figure_1_has_two_blocks():
    certain = figure_1()
    assert uncertain_pairs(certain) == {(0, 1), (2, 4), (3, 4)}
    assert np.array_equal(transitive_closure(certain), certain)
    assert partition(certain) == [{0, 1}, {2, 3, 4}]
    assert finest_admissible(certain) == [[{0, 1}, {2, 3, 4}]]


@pytest.mark.parametrize("documents", [1, 2, 3])
def test_partition_is_the_finest_for_every_small_relation(documents):
    pairs = [(i, j) for i in range(documents) for j in range(documents) if i != j]
    for chosen in product((False, True), repeat=len(pairs)):
        certain = from_edges(documents, [pair for pair, there in zip(pairs, chosen, strict=True) if there])
        assert finest_admissible(certain) == [partition(certain)]


@pytest.mark.parametrize("acyclic", [True, False])
def test_partition_is_the_finest_for_random_relations(acyclic):
    for certain in relations(seed=1, acyclic=acyclic):
        assert finest_admissible(certain) == [partition(certain)]


def test_definition_4_holds_for_every_block():
    for certain in relations(seed=2, acyclic=True):
        everybody = set(range(len(certain)))
        for block in partition(certain):
            outside = everybody - block
            assert all(certain[i, k] or certain[k, i] for i in block for k in outside)  # condition (1)
            assert not any(certain[i, k] and certain[k, j] for i in block for j in block for k in outside)  # (2)


def test_components_whose_order_disagrees_are_merged():
    # 0 above 1 above 2, but 0 and 2 uncertain: components {0, 2} and {1}, with one certain pair each way.
    raw = from_edges(3, [(0, 1), (1, 2)])
    assert partition(raw) == [{0, 1, 2}]
    assert partition(transitive_closure(raw)) == [{0}, {1}, {2}]


def test_a_cycle_of_certain_pairs_is_one_block():
    cycle = from_edges(4, [(0, 1), (1, 2), (2, 0), (3, 0), (3, 1), (3, 2)])
    assert partition(cycle) == [{3}, {0, 1, 2}]
    closed = transitive_closure(cycle)
    assert closed[:3, :3].tolist() == [[False, True, True], [True, False, True], [True, True, False]]
    assert partition(closed) == [{3}, {0, 1, 2}]


@pytest.mark.parametrize("acyclic", [True, False])
def test_closure_is_reachability(acyclic):
    for certain in relations(seed=3, acyclic=acyclic):
        reached = certain.copy()
        for _ in range(len(certain)):
            reached |= reached @ certain
        np.fill_diagonal(reached, False)
        assert np.array_equal(transitive_closure(certain), reached)


def test_nothing_certain_is_one_block_and_everything_certain_is_a_ranking():
    assert partition(np.zeros((4, 4), dtype=bool)) == [{0, 1, 2, 3}]
    assert partition(np.tril(np.ones((4, 4), dtype=bool), -1)) == [{3}, {2}, {1}, {0}]
    assert partition(np.zeros((1, 1), dtype=bool)) == [{0}]


def test_ordered_partitions_are_all_different_and_complete():
    # Fubini numbers: a(n) = sum over sizes k of the top block of (n choose k) a(n - k)
    for documents, count in enumerate([1, 1, 3, 13, 75, 541]):
        found = {tuple(map(frozenset, blocks)) for blocks in ordered_partitions(frozenset(range(documents)))}
        assert len(found) == count
        assert all(sum(map(len, blocks)) == documents for blocks in found)


def test_admissible_needs_all_pairs_across_blocks():
    certain = figure_1()
    assert is_admissible([{0, 1, 2, 3, 4}], certain)
    assert not is_admissible([{2, 3, 4}, {0, 1}], certain)
    assert not is_admissible([{0}, {1}, {2, 3, 4}], certain)
    both_ways = from_edges(2, [(0, 1), (1, 0)])
    assert not is_admissible([{0}, {1}], both_ways)


def test_enumeration_refuses_more_than_six_documents():
    with pytest.raises(ValueError, match="certain must be of at most 6 documents, got 7"):
        finest_admissible(np.zeros((7, 7), dtype=bool))
