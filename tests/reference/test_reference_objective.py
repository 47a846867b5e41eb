"""The pairwise logistic objective by hand, by differences, and its optimum against scipy and scikit-learn."""

from __future__ import annotations

from math import log

import numpy as np
import pytest
from scipy.optimize import approx_fprime, brentq
from sklearn.linear_model import LogisticRegression

from tests.reference.objective import gradient, hessian, objective, optimum, sigmoid

pytestmark = pytest.mark.slow  # the oracle itself; the tests of the package compare with it

REDUCTIONS = ["sum", "mean"]


def history(seed: int, pairs: int, features: int):
    """Random differences with labels of both kinds."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(pairs, features)), rng.integers(0, 2, size=pairs).astype(float)


def test_objective_of_one_pair_by_hand():
    pair, won, lost = np.array([[2.0, 0.0]]), np.array([1.0]), np.array([0.0])
    theta = np.array([log(3) / 2, 1.0])  # x.theta = log 3, hence sigma = 3/4
    assert sigmoid(log(3)) == pytest.approx(3 / 4)
    squared = log(3) ** 2 / 4 + 1
    assert objective(theta, pair, won, 0.1, "sum") == pytest.approx(-log(3 / 4) + 0.05 * squared)
    assert objective(theta, pair, lost, 0.1, "sum") == pytest.approx(-log(1 / 4) + 0.05 * squared)
    assert objective(theta, pair, won, 0.1, "mean") == pytest.approx(-log(3 / 4) + 0.1 * squared)
    assert gradient(theta, pair, won, 0.1, "sum") == pytest.approx([-1 / 4 * 2 + 0.1 * log(3) / 2, 0.1])
    assert hessian(theta, pair, 0.1, "sum") == pytest.approx(np.array([[3 / 16 * 4 + 0.1, 0], [0, 0.1]]))


def test_mean_divides_the_entropy_but_not_the_penalty():
    pairs, labels = history(seed=1, pairs=7, features=3)
    theta = np.array([0.3, -0.2, 0.5])
    entropy = objective(theta, pairs, labels, 0.0, "sum")
    assert objective(theta, pairs, labels, 0.5, "mean") == pytest.approx(entropy / 7 + 0.5 * theta @ theta)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_derivatives_agree_with_differences(reduction):
    pairs, labels = history(seed=2, pairs=9, features=4)
    labels = labels + np.random.default_rng(3).normal(size=9)  # perturbed ones as well
    theta = np.array([0.3, -0.2, 0.5, 1.0])
    slopes = approx_fprime(theta, objective, 1e-6, pairs, labels, 0.2, reduction)
    assert gradient(theta, pairs, labels, 0.2, reduction) == pytest.approx(slopes, abs=1e-4)
    curvature = approx_fprime(theta, gradient, 1e-6, pairs, labels, 0.2, reduction)
    assert hessian(theta, pairs, 0.2, reduction) == pytest.approx(curvature, abs=1e-4)


def test_optimum_in_one_dimension_is_the_root_of_the_estimating_equation():
    # Eq. (3) for wins of x = 2 once and x = -1 once: -2 sigma(-2 theta) + sigma(theta) + l2 theta = 0
    expected = brentq(lambda t: -2 * sigmoid(-2 * t) + sigmoid(t) + 0.3 * t, -5, 5, xtol=1e-14)
    pairs = np.array([[2.0], [-1.0]])
    assert optimum(pairs, np.ones(2), 0.3, "sum") == pytest.approx([expected], abs=1e-10)


@pytest.mark.parametrize("l2", [1e-4, 1e-2, 1.0])
def test_optimum_is_that_of_scikit_learn(l2):
    pairs, labels = history(seed=4, pairs=40, features=3)
    other = LogisticRegression(C=1 / l2, fit_intercept=False, solver="newton-cholesky", tol=1e-12).fit(pairs, labels)
    assert optimum(pairs, labels, l2, "sum") == pytest.approx(other.coef_[0], rel=1e-6)


def test_mean_is_the_sum_with_l2_of_2_n_l2():
    pairs, labels = history(seed=5, pairs=11, features=4)
    assert optimum(pairs, labels, 0.01, "mean") == pytest.approx(optimum(pairs, labels, 2 * 11 * 0.01, "sum"))


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_a_lost_pair_is_the_opposite_pair_won(reduction):
    # G_s orders a pair by rank and labels it by click; here the winner comes first and every label is 1.
    pairs, labels = history(seed=6, pairs=12, features=3)
    turned = pairs * np.where(labels == 1, 1, -1)[:, None]
    theta = np.array([0.3, -0.2, 0.5])
    won = np.ones(12)
    assert objective(theta, pairs, labels, 0.1, reduction) == pytest.approx(
        objective(theta, turned, won, 0.1, reduction)
    )
    assert optimum(pairs, labels, 0.1, reduction) == pytest.approx(optimum(turned, won, 0.1, reduction))


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize(("pairs", "features"), [(3, 10), (30, 5)])
def test_labels_outside_0_1_have_an_optimum_nobody_near_beats(reduction, pairs, features):
    rng = np.random.default_rng(7)
    differences, labels = rng.normal(size=(pairs, features)), 1 + rng.normal(size=pairs)
    best = optimum(differences, labels, 0.01, reduction)
    least = objective(best, differences, labels, 0.01, reduction)
    for _ in range(50):
        assert objective(best + 0.01 * rng.normal(size=features), differences, labels, 0.01, reduction) > least


def test_optimum_is_tight_wherever_it_lies():
    # Few pairs for many features, labels outside [0, 1], small l2: then only l2 bounds theta, which goes up to 1e5.
    # Of these histories the trust region alone leaves some outside the gap, and the root finder alone others.
    rng = np.random.default_rng(8)
    farthest = 0.0
    for _ in range(60):
        count, features, l2 = rng.integers(1, 25), rng.integers(1, 15), 10.0 ** rng.integers(-6, 1)
        pairs, labels = rng.normal(size=(count, features)), 1 + rng.choice([0.0, 0.3, 1.0]) * rng.normal(size=count)
        best = optimum(pairs, labels, l2, "sum")
        slope = gradient(best, pairs, labels, l2, "sum")
        assert slope @ slope / (2 * l2) <= 1e-12 * (1 + abs(objective(best, pairs, labels, l2, "sum")))
        farthest = max(farthest, np.abs(best).max())
    assert farthest > 1e3


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_without_pairs_the_optimum_is_zero(reduction):
    assert optimum(np.zeros((0, 3)), np.zeros(0), 0.1, reduction).tolist() == [0, 0, 0]


def test_unknown_reduction_names_the_allowed_ones():
    with pytest.raises(ValueError, match="reduction must be 'sum' or 'mean', got 'total'"):
        objective(np.zeros(1), np.zeros((0, 1)), np.zeros(0), 0.1, "total")


def test_an_optimum_out_of_reach_is_an_error():
    pairs, labels = np.array([[1e8], [1.0]]), np.array([1e9, -3e9])  # rounding alone exceeds the gap
    with pytest.raises(RuntimeError, match="the optimum must be within"):
        optimum(pairs, labels, 1e-9, "sum")
