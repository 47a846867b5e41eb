"""Blocks, shuffles and metrics: Figure 1 of the PairRank paper, networkx, scikit-learn, scipy, and by hand."""

from __future__ import annotations

from fractions import Fraction
from math import isnan

import networkx as nx
import numpy as np
import pytest
from scipy.stats import kendalltau
from sklearn.metrics import ndcg_score

from tests.reference.blocks import partition, transitive_closure, uncertain_pairs
from tests.reference.ensemble import certain
from tests.reference.metrics import block_size_at, certain_ratio, cumulative_ndcg, ndcg, pairwise_regret
from tests.reference.relations import figure_1, from_edges, random_relation
from tests.reference.shuffles import dominators, order_by_clocks, order_probabilities

FIGURE_1_BLOCKS = [{0, 1}, {2, 3, 4}]


def test_figure_1_has_two_blocks():
    assert uncertain_pairs(figure_1()) == {(0, 1), (2, 4), (3, 4)}
    assert np.array_equal(transitive_closure(figure_1()), figure_1())
    assert partition(figure_1()) == FIGURE_1_BLOCKS


def test_blocks_of_cycles_and_of_relations_that_are_not_closed():
    cycle = from_edges(4, [(0, 1), (1, 2), (2, 0), (3, 0), (3, 1), (3, 2)])
    assert partition(cycle) == partition(transitive_closure(cycle)) == [{3}, {0, 1, 2}]
    assert not transitive_closure(cycle).diagonal().any()
    assert dominators(cycle, "conservative") == [{3}, {3}, {3}, set()]
    # 0 above 1 above 2, but 0 and 2 uncertain: components {0, 2} and {1}, with one certain pair each way
    chain = from_edges(3, [(0, 1), (1, 2)])
    assert partition(chain) == [{0, 1, 2}]
    assert partition(transitive_closure(chain)) == [{0}, {1}, {2}]


def test_the_regrets_of_figure_1_occur():
    """The caption: the list of random exploration has regret 3, that of conservative exploration has 2."""
    for shuffle, regret, most in ("random", 3, 4), ("conservative", 2, 3):
        orders = order_probabilities(figure_1(), FIGURE_1_BLOCKS, shuffle)
        regrets = {pairwise_regret(order, [5, 4, 3, 2, 1]) for order in orders}
        assert regret in regrets, shuffle
        assert max(regrets) == most, shuffle


def test_conservative_order_of_figure_1_by_hand():
    # {1, 2}: either order. {3, 4, 5} keeps 3 above 4: first 3 or 5; after 3, then 4 or 5. Counted from 0.
    lower = {(2, 3, 4): Fraction(1, 4), (2, 4, 3): Fraction(1, 4), (4, 2, 3): Fraction(1, 2)}
    expected = {(*top, *rest): chance / 2 for top in [(0, 1), (1, 0)] for rest, chance in lower.items()}
    assert order_probabilities(figure_1(), FIGURE_1_BLOCKS, "conservative") == expected


def test_conservative_orders_are_the_topological_sorts_of_networkx():
    rng = np.random.default_rng(1)
    for documents in (3, 4, 5):
        for density in (0.2, 0.5, 0.8):
            relation = random_relation(rng, documents, density)
            graph = nx.from_numpy_array(relation, create_using=nx.DiGraph)
            distribution = order_probabilities(relation, partition(relation), "conservative")
            assert set(distribution) == {tuple(order) for order in nx.all_topological_sorts(graph)}
            assert sum(distribution.values()) == 1


def test_clocks_by_hand():
    """A clock starts when the last dominator has rung: 0 rings at 1, 1 at 1 + .5 or at 1 + 1.5, 2 at 2."""
    pair = from_edges(3, [(0, 1)])
    for shuffle, second, expected in [
        ("conservative", 0.5, (0, 1, 2)),
        ("conservative", 1.5, (0, 2, 1)),
        ("random", 0.5, (1, 0, 2)),
    ]:
        assert order_by_clocks(pair, [{0, 1, 2}], (1.0, second, 2.0), shuffle) == expected
    assert order_by_clocks(figure_1(), FIGURE_1_BLOCKS, (5.0, 4.0, 3.0, 2.0, 1.0), "conservative") == (1, 0, 4, 2, 3)


@pytest.mark.parametrize("k", [1, 3, 10])
def test_ndcg_is_that_of_scikit_learn(k):
    rng = np.random.default_rng(1)
    for _ in range(30):
        labels, scores = rng.integers(0, 5, size=12), rng.normal(size=12)
        other = ndcg_score([2.0**labels - 1], [scores], k=k, ignore_ties=True)
        assert ndcg(np.argsort(-scores).tolist(), labels.tolist(), k) == pytest.approx(other)


def test_regret_is_the_discordance_in_kendall_tau_of_scipy():
    # tau_b = (C - D) / sqrt(P n0), with n0 pairs in all, P = C + D of them untied
    rng = np.random.default_rng(2)
    for _ in range(30):
        labels, order = rng.integers(0, 3, size=9), rng.permutation(9)
        tau = kendalltau(-np.arange(9), labels[order], variant="b").statistic
        untied = sum(labels[i] != labels[j] for i in range(9) for j in range(i))
        expected = (untied - tau * np.sqrt(untied * 36)) / 2
        assert pairwise_regret(order.tolist(), labels.tolist()) == pytest.approx(expected)


def test_other_measures_by_hand():
    assert cumulative_ndcg([0.5, 0.25, 1.0], gamma=0.9) == pytest.approx(0.5 + 0.25 * 0.9 + 0.81)
    order = [1, 0, 4, 2, 3]
    assert [block_size_at(rank, order, FIGURE_1_BLOCKS) for rank in range(1, 6)] == [2, 2, 3, 3, 3]
    # uncertain: (0, 1), (2, 4), (3, 4)
    assert [certain_ratio(order, figure_1(), k) for k in (5, 3, 2)] == pytest.approx([7 / 10, 2 / 3, 0])
    assert isnan(certain_ratio([2], figure_1()))


def test_what_an_ensemble_is_certain_of_by_hand():
    # 0 is on top for both; they disagree about 1 and 2, and the second has 2 and 3 level
    assert certain([[3.0, 2.0, 1.0, 0.0], [9.0, 1.0, 2.0, 2.0]]) == {(0, 1), (0, 2), (0, 3)}
