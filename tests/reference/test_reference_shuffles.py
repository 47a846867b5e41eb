"""The two shuffles: exact distributions by hand and against networkx, exponential clocks against the exact ones."""

from __future__ import annotations

from collections import Counter, defaultdict
from fractions import Fraction
from math import factorial, prod

import networkx as nx
import numpy as np
import pytest
from scipy.stats import chisquare

from tests.reference.blocks import partition, transitive_closure
from tests.reference.metrics import pairwise_regret
from tests.reference.relations import figure_1, from_edges, random_relation
from tests.reference.shuffles import dominators, order_by_clocks, order_probabilities

pytestmark = pytest.mark.slow  # tests of the oracle itself

# The clock test, fixed before the first look: draws for each relation, and the p-value below which it fails.
DRAWS = 4000
LEAST_P = 1e-4
POSETS = {
    "free": from_edges(3, []),
    "one pair": from_edges(3, [(0, 1)]),
    "two pairs": from_edges(4, [(0, 1), (2, 3)]),
    "vee": from_edges(4, [(0, 2), (1, 2)]),
    "fan": from_edges(4, [(0, 1), (0, 2), (0, 3)]),
    "zigzag": from_edges(5, [(0, 2), (1, 2), (1, 3), (4, 3)]),
    "figure 1": figure_1(),
}


def acyclic_relations(seed: int):
    rng = np.random.default_rng(seed)
    return [random_relation(rng, documents, density) for documents in (3, 4, 5) for density in (0.2, 0.5, 0.8)]


def test_figure_1_conservative_order():
    # {1, 2}: either order. {3, 4, 5} keeps 3 above 4: first 3 or 5; after 3, then 4 or 5. Counted from 0.
    expected = {
        (*top, *rest): Fraction(1, 2) * chance
        for top in [(0, 1), (1, 0)]
        for rest, chance in {(2, 3, 4): Fraction(1, 4), (2, 4, 3): Fraction(1, 4), (4, 2, 3): Fraction(1, 2)}.items()
    }
    assert order_probabilities(figure_1(), [{0, 1}, {2, 3, 4}], "conservative") == expected


def test_figure_1_regrets_occur():
    # The caption: the first list (random exploration) has regret 3, the second (conservative) has regret 2.
    labels = [5, 4, 3, 2, 1]
    blocks = [{0, 1}, {2, 3, 4}]
    regrets = {}
    for shuffle in ("random", "conservative"):
        distribution: defaultdict[int, Fraction] = defaultdict(Fraction)
        for order, probability in order_probabilities(figure_1(), blocks, shuffle).items():
            distribution[pairwise_regret(order, labels)] += probability
        regrets[shuffle] = distribution
    # one fair swap plus the inversions of three documents (1, 2, 2, 1 orders of 6 with 0, 1, 2, 3 inversions)
    assert regrets["random"] == {r: Fraction(n, 12) for r, n in {0: 1, 1: 3, 2: 4, 3: 3, 4: 1}.items()}
    assert regrets["conservative"] == {r: Fraction(n, 8) for r, n in {0: 1, 1: 2, 2: 3, 3: 2}.items()}


def test_conservative_is_not_uniform_over_topological_orders():
    # 0 above 1, and 2 anywhere: 2 is first in one order of three, but is first half the time.
    certain = from_edges(3, [(0, 1)])
    assert order_probabilities(certain, [{0, 1, 2}], "conservative") == {
        (0, 1, 2): Fraction(1, 4),
        (0, 2, 1): Fraction(1, 4),
        (2, 0, 1): Fraction(1, 2),
    }


def test_conservative_orders_are_the_topological_orders():
    for certain in acyclic_relations(seed=1):
        graph = nx.DiGraph()
        graph.add_nodes_from(range(len(certain)))
        graph.add_edges_from(zip(*np.nonzero(certain), strict=True))
        distribution = order_probabilities(certain, partition(certain), "conservative")
        assert set(distribution) == {tuple(order) for order in nx.all_topological_sorts(graph)}
        assert sum(distribution.values()) == 1


def test_random_is_uniform_inside_each_block():
    for certain in acyclic_relations(seed=2):
        blocks = partition(transitive_closure(certain))
        orders = prod(factorial(len(block)) for block in blocks)
        distribution = order_probabilities(certain, blocks, "random")
        assert len(distribution) == orders
        assert set(distribution.values()) == {Fraction(1, orders)}
        for order in distribution:
            assert [set(order[sum(map(len, blocks[:b])) :][: len(blocks[b])]) for b in range(len(blocks))] == blocks


def test_conservative_order_does_not_depend_on_how_fine_the_blocks_are():
    # Hence `transitive` decides blocks and the random shuffle only: olRankNet sorts without any blocks.
    for certain in acyclic_relations(seed=3):
        closed = transitive_closure(certain)
        everything = [set(range(len(certain)))]
        expected = order_probabilities(certain, everything, "conservative")
        assert order_probabilities(certain, partition(certain), "conservative") == expected
        assert order_probabilities(closed, partition(closed), "conservative") == expected


def test_contradictory_pairs_are_not_kept():
    cycle = from_edges(4, [(0, 1), (1, 2), (2, 0), (0, 3)])
    assert dominators(cycle, "conservative") == [set(), set(), set(), {0, 1, 2}]
    assert dominators(cycle, "random") == [set(), set(), set(), set()]
    distribution = order_probabilities(cycle, [{0, 1, 2, 3}], "conservative")
    assert len(distribution) == 6
    assert set(distribution.values()) == {Fraction(1, 6)}


@pytest.mark.parametrize(
    ("clocks", "order"),
    [
        ((1.0, 0.5, 2.0), (0, 1, 2)),  # 0 rings at 1, 1 at 1 + 0.5, 2 at 2
        ((1.0, 1.5, 2.0), (0, 2, 1)),  # 0 at 1, 2 at 2, 1 at 1 + 1.5
        ((3.0, 0.1, 2.0), (2, 0, 1)),  # 2 at 2, 0 at 3, 1 at 3 + 0.1
    ],
)
def test_clocks_ring_after_the_last_dominator(clocks, order):
    certain = from_edges(3, [(0, 1)])
    assert order_by_clocks(certain, [{0, 1, 2}], clocks, "conservative") == order


def test_clocks_in_a_random_shuffle_ring_on_their_own_and_blocks_stay_apart():
    clocks = (5.0, 4.0, 3.0, 2.0, 1.0)
    assert order_by_clocks(figure_1(), [{0, 1}, {2, 3, 4}], clocks, "random") == (1, 0, 4, 3, 2)
    assert order_by_clocks(figure_1(), [{0, 1}, {2, 3, 4}], clocks, "conservative") == (1, 0, 4, 2, 3)


@pytest.mark.parametrize("shuffle", ["random", "conservative"])
@pytest.mark.parametrize("poset", POSETS)
def test_exponential_clocks_draw_the_exact_distribution(poset, shuffle):
    certain = POSETS[poset]
    blocks = partition(certain)
    rng = np.random.default_rng([list(POSETS).index(poset), shuffle == "random"])
    drawn = Counter(
        order_by_clocks(certain, blocks, clocks, shuffle)
        for clocks in rng.exponential(size=(DRAWS, len(certain))).tolist()
    )
    expected = order_probabilities(certain, blocks, shuffle)
    assert set(drawn) <= set(expected)
    counts = [drawn[order] for order in expected]
    assert chisquare(counts, [float(p) * DRAWS for p in expected.values()]).pvalue > LEAST_P


def test_unknown_shuffle_names_the_allowed_ones():
    with pytest.raises(ValueError, match="shuffle must be 'random' or 'conservative', got 'uniform'"):
        order_probabilities(figure_1(), [{0, 1}, {2, 3, 4}], "uniform")
