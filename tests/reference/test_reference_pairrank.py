"""PairRank and its relatives: the optimum against scikit-learn and scipy; widths, alpha and steps by hand."""

from __future__ import annotations

from math import log, sqrt

import numpy as np
import pytest
from scipy.optimize import brentq
from sklearn.linear_model import LogisticRegression

from tests.reference.objective import gradient, hessian, objective, optimum, sigmoid
from tests.reference.pairrank import PairRank, certain_rank_order, information, theoretical_alpha, width
from tests.reference.perturbed import literal_noise, perturbed_optimum, tilt
from tests.reference.sgd_ranknet import step


def test_objective_of_one_pair_by_hand():
    pair, won, lost = np.array([[2.0, 0.0]]), np.array([1.0]), np.array([0.0])
    theta = np.array([log(3) / 2, 1.0])  # x.theta = log 3, hence sigma = 3/4
    squared = log(3) ** 2 / 4 + 1
    assert objective(theta, pair, won, 0.1, "sum") == pytest.approx(-log(3 / 4) + 0.05 * squared)
    assert objective(theta, pair, lost, 0.1, "sum") == pytest.approx(-log(1 / 4) + 0.05 * squared)
    assert objective(theta, pair.repeat(2, 0), won.repeat(2), 0.1, "mean") == pytest.approx(-log(3 / 4) + 0.1 * squared)
    assert gradient(theta, pair, won, 0.1, "sum") == pytest.approx([-1 / 4 * 2 + 0.1 * log(3) / 2, 0.1])
    assert hessian(theta, pair, 0.1, "sum") == pytest.approx(np.array([[3 / 16 * 4 + 0.1, 0], [0, 0.1]]))


@pytest.mark.parametrize("l2", [1e-4, 1e-2, 1.0])
def test_optimum_is_that_of_scikit_learn(l2):
    rng = np.random.default_rng(4)
    pairs, labels = rng.normal(size=(40, 3)), rng.integers(0, 2, size=40).astype(float)
    other = LogisticRegression(C=1 / l2, fit_intercept=False, solver="newton-cholesky", tol=1e-12).fit(pairs, labels)
    assert optimum(pairs, labels, l2, "sum") == pytest.approx(other.coef_[0], rel=1e-6)
    assert optimum(pairs, labels, l2 / 80, "mean") == pytest.approx(other.coef_[0], rel=1e-6)


def test_perturbed_optimum_in_one_dimension_is_the_root_of_eq_4_2():
    rows, gamma = np.array([[2.0], [-1.0]]), np.array([0.3, -0.7])
    expected = brentq(lambda t: (sigmoid(2 * t) - 1.3) * 2 + (sigmoid(-t) - 0.3) * -1 + 0.1 * t, -50, 50, xtol=1e-14)
    assert perturbed_optimum(rows, gamma, 0.1, "sum") == pytest.approx([expected], abs=1e-9)
    assert tilt(rows, gamma) == pytest.approx([2 * 0.3 + 0.7])
    assert literal_noise(3, 0.25, [1.0, -2.0, 0.0]).tolist() == [0.5, -1.0, 0.0]


def test_widths_by_hand():
    # M = (2 1; 1 2), M^-1 = (2 -1; -1 2) / 3, x = (1, 1)
    m = information(np.array([[1.0, 1.0]]), 1.0)
    assert m.tolist() == [[2, 1], [1, 2]]
    for covariance, squared in ("full", 2 / 3), ("diagonal_of_inverse", 4 / 3), ("inverse_of_diagonal", 1):
        assert width(np.array([1.0, 1.0]), m, covariance) == pytest.approx(sqrt(squared)), covariance


def test_theoretical_alpha_by_hand():
    # det M / det l2 I of one pair is 1 + |x|^2 / l2, by the matrix determinant lemma
    l2, delta, c_mu = 0.2, 1 / 5000, 0.1
    alpha = (2 * 0.25 / c_mu) * (sqrt(0.25 * (log(1 + 9 / l2) + 2 * log(5000))) + sqrt(l2))
    assert theoretical_alpha(information(np.array([[1.0, 2.0, 2.0]]), l2), l2, delta, c_mu) == pytest.approx(alpha)


def test_definition_3_by_hand():
    # sigma(log 3) = 3/4: certain as long as alpha |x| / sqrt(M) < 1/4; here |x| / sqrt(M) = 1 / 2
    documents, theta, m = np.array([[1.0], [0.0]]), np.array([log(3)]), np.array([[4.0]])
    for alpha, expected in [(0.49, True), (0.51, False)]:
        certain = certain_rank_order(documents, theta, m, alpha, "full")
        assert certain.tolist() == [[False, expected], [False, False]]


def test_a_round_of_pairrank_by_hand():
    ranker = PairRank(features=2, l2=0.1, alpha=0.0, covariance="full", reduction="sum")
    loser, winner = documents = np.array([[0.0, 1.0], [1.0, 0.0]])
    assert ranker.blocks(documents) == [{0, 1}]
    assert ranker.propose(documents, [3.0, 1.0], "conservative", True) == (1, 0)
    ranker.learn(winner[None], loser[None])
    assert ranker.pairs.tolist() == [[1.0, -1.0]]
    assert ranker.blocks(documents) == [{1}, {0}]


def test_step_of_sgd_ranknet_by_hand():
    # at theta = 0 every pair is won with probability 1/2
    theta, rate = step(np.zeros(2), 0.1, np.array([[1.0, 2.0], [3.0, -1.0]]), 0.9)
    assert theta == pytest.approx([0.1 * (1 + 3) / 2, 0.1 * (2 - 1) / 2])
    assert rate == pytest.approx(0.09)
