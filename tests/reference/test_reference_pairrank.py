"""Algorithm 1 by hand: widths, Lemma 2, Definition 3, and rounds of the class."""

from __future__ import annotations

from math import log, sqrt

import networkx as nx
import numpy as np
import pytest

from tests.reference.pairrank import (
    PairRank,
    certain_rank_order,
    information,
    smallest_slope,
    theoretical_alpha,
    width,
)
from tests.reference.shuffles import order_probabilities

pytestmark = pytest.mark.slow  # the oracle itself; the tests of the package compare with it

COVARIANCES = ["full", "diagonal_of_inverse", "inverse_of_diagonal"]


def learned(rounds: int = 6, **settings) -> PairRank:
    """A run that has seen three random pairs in each of its rounds; the better document has the larger sum."""
    rng = np.random.default_rng(0)
    ranker = PairRank(**{"features": 3, "l2": 0.1, "alpha": 0.8, **settings})
    for _ in range(rounds):
        first, second = rng.normal(size=(3, 3)), rng.normal(size=(3, 3))
        first_wins = first.sum(1, keepdims=True) > second.sum(1, keepdims=True)
        ranker.learn(np.where(first_wins, first, second), np.where(first_wins, second, first))
    return ranker


def test_information_by_hand():
    pairs = np.array([[1.0, 2.0], [3.0, 0.0]])
    assert information(pairs, 0.5).tolist() == [[0.5 + 1 + 9, 2], [2, 0.5 + 4]]
    assert information(np.zeros((0, 2)), 0.5).tolist() == [[0.5, 0], [0, 0.5]]


@pytest.mark.parametrize(("covariance", "squared"), list(zip(COVARIANCES, [2 / 3, 4 / 3, 1], strict=True)))
def test_width_by_hand(covariance, squared):
    # M = (2 1; 1 2), M^-1 = (2 -1; -1 2) / 3, x = (1, 1)
    m = np.array([[2.0, 1.0], [1.0, 2.0]])
    assert width(np.array([1.0, 1.0]), m, covariance) == pytest.approx(sqrt(squared))


def test_widths_agree_where_m_is_diagonal_and_are_ordered_elsewhere():
    rng = np.random.default_rng(1)
    for _ in range(30):
        x, m = rng.normal(size=3), information(rng.normal(size=(4, 3)), 0.1)
        assert width(x, m, "inverse_of_diagonal") <= width(x, m, "diagonal_of_inverse")
        lengths = [width(x, np.diag(np.diag(m)), covariance) for covariance in COVARIANCES]
        assert lengths == pytest.approx([sqrt(sum(x**2 / np.diag(m)))] * 3)


def test_unknown_covariance_names_the_allowed_ones():
    with pytest.raises(ValueError, match=r"covariance must be .* got 'diagonal'"):
        width(np.ones(2), np.eye(2), "diagonal")


def test_smallest_slope_is_the_least_over_the_ball():
    differences = np.array([[3.0, 4.0], [1.0, 0.0]])
    angles = np.linspace(0, 2 * np.pi, 721)
    ball = [q * np.array([np.cos(a), np.sin(a)]) for a in angles for q in (0.5, 1.0, 2.0)]
    slopes = [1 / (2 + 2 * np.cosh(x @ theta)) for theta in ball for x in differences]  # sigma'(z)
    assert smallest_slope(differences, q=2.0) == pytest.approx(min(slopes), rel=1e-3)


def test_theoretical_alpha_by_hand():
    # Nothing seen: det M / det l2 I = 1. One pair: 1 + |x|^2 / l2, by the matrix determinant lemma.
    l2, delta, c_mu = 0.2, 1 / 5000, 0.1
    before = (2 * 0.25 / c_mu) * (sqrt(0.25 * 2 * log(5000)) + sqrt(l2))
    assert theoretical_alpha(l2 * np.eye(3), l2, delta, c_mu) == pytest.approx(before)
    m = information(np.array([[1.0, 2.0, 2.0]]), l2)
    after = (2 * 0.25 / c_mu) * (sqrt(0.25 * (log(1 + 9 / l2) + 2 * log(5000))) + sqrt(l2))
    assert theoretical_alpha(m, l2, delta, c_mu) == pytest.approx(after)
    other = (2 * 1.0 / c_mu) * (sqrt(4 * (log(1 + 9 / l2) + 2 * log(5000))) + sqrt(l2) * 3)
    assert theoretical_alpha(m, l2, delta, c_mu, r=2.0, q=3.0, k_mu=1.0) == pytest.approx(other)


def test_definition_3_by_hand():
    # sigma(log 3) = 3/4: certain as long as alpha |x| / sqrt(M) < 1/4; here |x| / sqrt(M) = 1 / 2.
    documents, theta, m = np.array([[1.0], [0.0]]), np.array([log(3)]), np.array([[4.0]])
    for alpha, expected in [(0.49, True), (0.51, False)]:
        certain = certain_rank_order(documents, theta, m, alpha, "full")
        assert certain.tolist() == [[False, expected], [False, False]]
    assert certain_rank_order(documents, -theta, m, 0.49, "full").tolist() == [[False, False], [True, False]]


def test_without_width_the_scores_decide_and_equal_documents_stay_uncertain():
    documents = np.array([[1.0], [3.0], [1.0]])
    certain = certain_rank_order(documents, np.array([2.0]), np.eye(1), 0.0, "full")
    assert certain.tolist() == [[False, False, False], [True, False, True], [False, False, False]]


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_certain_rank_order_is_acyclic(covariance):
    ranker = learned(covariance=covariance)
    counts = set()
    for seed in range(10):
        documents = np.random.default_rng(seed).normal(size=(7, 3))
        certain = ranker.certain(documents, transitive=False)
        counts.add(int(certain.sum()))
        assert nx.is_directed_acyclic_graph(nx.from_numpy_array(certain, create_using=nx.DiGraph))
    assert len(counts - {0, 21}) > 1  # some pairs certain, some not: the law was put to the test


def test_before_the_first_pair_nothing_is_certain():
    ranker = PairRank(features=2, l2=0.1, alpha=0.0)
    documents = np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 2.0]])
    assert ranker.blocks(documents) == [{0, 1, 2}]
    assert ranker.propose(documents, [3.0, 1.0, 2.0]) == (1, 2, 0)


def test_winners_rise():
    ranker = PairRank(features=2, l2=0.1, alpha=0.0)
    winner, loser = np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])
    ranker.learn(winner, loser)
    assert ranker.pairs.tolist() == [[1.0, -1.0]]
    assert ranker.blocks(np.concatenate([loser, winner])) == [{1}, {0}]


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_rounds_add_up(reduction):
    ranker = learned(rounds=2, reduction=reduction)
    assert ranker.pairs.shape == (6, 3)
    assert ranker.m == pytest.approx(0.1 * np.eye(3) + ranker.pairs.T @ ranker.pairs)
    wins = 1 / (1 + np.exp(-ranker.pairs @ ranker.theta))
    l2_effective = 0.1 if reduction == "sum" else 2 * 6 * 0.1
    assert ranker.pairs.T @ (wins - 1) + l2_effective * ranker.theta == pytest.approx(np.zeros(3), abs=1e-9)

    theta = ranker.theta.copy()
    ranker.learn(np.zeros((0, 3)), np.zeros((0, 3)))
    assert ranker.theta == pytest.approx(theta)
    assert ranker.pairs.shape == (6, 3)


def test_alpha_is_a_number_or_that_of_the_moment():
    assert learned(alpha=0.3).current_alpha == 0.3
    ranker = learned(alpha="theory", rounds=6)
    other = learned(alpha="theory", rounds=6)
    other.rounds, other.c_mu = 100, 0.125
    assert ranker.current_alpha == pytest.approx(theoretical_alpha(ranker.m, 0.1, 1 / 5000, 0.25))
    assert other.current_alpha == pytest.approx(theoretical_alpha(ranker.m, 0.1, 1 / 100, 0.125))


def test_proposals_are_orders_that_the_blocks_allow():
    ranker = learned()
    documents = np.random.default_rng(1).normal(size=(5, 3))
    blocks = ranker.blocks(documents)
    assert 1 < len(blocks) < 5
    for shuffle in ("random", "conservative"):
        possible = order_probabilities(ranker.certain(documents), blocks, shuffle)
        clocks = np.random.default_rng(4).exponential(size=(40, 5)).tolist()
        assert {ranker.propose(documents, each, shuffle) for each in clocks} <= set(possible)


def test_without_exploration_the_scores_rank():
    ranker = learned(alpha=0.0)
    documents = np.random.default_rng(5).normal(size=(6, 3))
    assert ranker.propose(documents, [1.0] * 6) == tuple(np.argsort(-documents @ ranker.theta))


def test_closing_the_relation_makes_blocks_finer_somewhere_and_coarser_nowhere():
    ranker = learned()
    finer = 0
    for seed in range(40):
        documents = np.random.default_rng(seed).normal(size=(6, 3))
        raw, closed = ranker.blocks(documents, transitive=False), ranker.blocks(documents)
        assert all(any(part <= block for block in raw) for part in closed)
        finer += len(closed) > len(raw)
    assert finer > 0
