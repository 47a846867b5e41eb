"""The perturbed optimum: first-order conditions by differences, another solver, and what the noise does."""

from __future__ import annotations

from math import log

import numpy as np
import pytest
from scipy.optimize import brentq

from tests.reference.objective import objective, optimum, sigmoid
from tests.reference.perturbed import gap, literal_noise, perturbed_optimum, tilt

pytestmark = pytest.mark.slow  # the oracle itself; the tests of the package compare with it

REDUCTIONS = ["sum", "mean"]


def history(seed: int, pairs: int, features: int, variance: float):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(pairs, features)), literal_noise(pairs, variance, rng.normal(size=pairs))


def cross_entropies(theta, rows, gamma, l2, reduction):
    """The objective as Eq. (3.3) writes it, label by label; only for scores that are not extreme."""
    terms = [
        -(1 + noise) * log(sigmoid(row @ theta)) - (1 - (1 + noise)) * log(1 - sigmoid(row @ theta))
        for row, noise in zip(rows, gamma, strict=True)
    ]
    squared = sum(float(value) ** 2 for value in theta)
    return sum(terms) + l2 / 2 * squared if reduction == "sum" else sum(terms) / len(terms) + l2 * squared


def test_noise_has_the_variance_it_is_given():
    assert literal_noise(3, 0.25, [1.0, -2.0, 0.0]).tolist() == [0.5, -1.0, 0.0]
    assert literal_noise(2, 0.0, [1.0, -2.0]).tolist() == [0, 0]
    with pytest.raises(ValueError, match="normals must be 3, one for each pair, got 2"):
        literal_noise(3, 0.25, [1.0, -2.0])


def test_optimum_in_one_dimension_is_the_root_of_eq_4_2():
    rows, gamma = np.array([[2.0], [-1.0]]), np.array([0.3, -0.7])
    expected = brentq(lambda t: (sigmoid(2 * t) - 1.3) * 2 + (sigmoid(-t) - 0.3) * -1 + 0.1 * t, -50, 50, xtol=1e-14)
    assert perturbed_optimum(rows, gamma, 0.1, "sum") == pytest.approx([expected], abs=1e-9)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("variance", [0.0, 0.1, 1.0])
def test_first_order_conditions_by_differences(variance, reduction):
    rows, gamma = history(1, 30, 4, variance)
    best = perturbed_optimum(rows, gamma, 0.05, reduction)
    h = 1e-5
    for unit in np.eye(4):
        up = cross_entropies(best + h * unit, rows, gamma, 0.05, reduction)
        down = cross_entropies(best - h * unit, rows, gamma, 0.05, reduction)
        here = cross_entropies(best, rows, gamma, 0.05, reduction)
        assert (up - down) / (2 * h) == pytest.approx(0, abs=1e-7)
        assert up + down - 2 * here > 0


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_the_objective_is_the_one_of_the_paper(reduction):
    rows, gamma = history(2, 9, 3, 0.5)
    theta = np.array([0.3, -0.2, 0.5])
    written = cross_entropies(theta, rows, gamma, 0.2, reduction)
    assert objective(theta, rows, 1 + gamma, 0.2, reduction) == pytest.approx(written)


def test_the_noise_only_tilts():
    rows, gamma = history(3, 20, 3, 0.5)
    assert tilt(rows, gamma) == pytest.approx(rows.T @ gamma)
    for theta in np.random.default_rng(4).normal(size=(5, 3)):
        tilted = objective(theta, rows, np.ones(20), 0.1, "sum") - tilt(rows, gamma) @ theta
        assert objective(theta, rows, 1 + gamma, 0.1, "sum") == pytest.approx(tilted)


def test_the_tilt_has_covariance_variance_times_x_x():
    # Each entry of the mean of (tilt tilt^T) over the draws, within four of its standard errors.
    rows, variance, draws = history(5, 6, 3, 0.0)[0], 0.3, 4000
    normals = np.random.default_rng(6).normal(size=(draws, 6))
    tilts = np.array([tilt(rows, literal_noise(6, variance, drawn)) for drawn in normals])
    outer = tilts[:, :, None] * tilts[:, None, :]
    error = outer.std(0) / np.sqrt(draws)
    assert (np.abs(outer.mean(0) - variance * rows.T @ rows) <= 4 * error).all()


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_without_noise_it_is_the_optimum_of_the_unperturbed_ranker(reduction):
    rows, gamma = history(7, 25, 4, 0.0)
    assert perturbed_optimum(rows, gamma, 0.01, reduction) == pytest.approx(
        optimum(rows, np.ones(25), 0.01, reduction), rel=1e-7
    )


def test_it_agrees_with_the_other_solver_wherever_the_optimum_lies():
    # Few pairs for many features, much noise, small l2: then only l2 bounds theta
    rng = np.random.default_rng(8)
    farthest = 0.0
    for _ in range(40):
        count, features, l2 = rng.integers(1, 25), rng.integers(1, 12), 10.0 ** rng.integers(-5, 1)
        variance, reduction = rng.choice([0.01, 0.1, 1.0]), REDUCTIONS[rng.integers(2)]
        rows, gamma = history(int(rng.integers(10**6)), count, features, variance)
        best = perturbed_optimum(rows, gamma, l2, reduction)
        other = optimum(rows, 1 + gamma, l2, reduction)
        least = objective(other, rows, 1 + gamma, l2, reduction)
        assert objective(best, rows, 1 + gamma, l2, reduction) == pytest.approx(least, rel=1e-10, abs=1e-10)
        assert best == pytest.approx(other, rel=1e-5, abs=1e-5)
        farthest = max(farthest, np.abs(best).max())
    assert farthest > 1e3


def test_one_row_that_is_out_of_reach_is_bounded_by_l2_alone():
    # sigma would have to be 1 + gamma = 3: far out sigma = 1, and (1 - 3) x + l2 theta = 0
    assert perturbed_optimum(np.array([[1.0]]), np.array([2.0]), 1e-3, "sum") == pytest.approx([2 / 1e-3])


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_without_pairs_the_optimum_is_zero(reduction):
    assert perturbed_optimum(np.zeros((0, 3)), np.zeros(0), 0.1, reduction).tolist() == [0, 0, 0]


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_gap_is_zero_at_the_optimum_and_bounded_on_both_sides_elsewhere(reduction):
    rows, gamma = history(9, 20, 3, 0.3)
    penalty, entropy = (0.1, 1) if reduction == "sum" else (2 * 0.1, 1 / 20)
    best = perturbed_optimum(rows, gamma, 0.1, reduction)
    assert gap(best, rows, gamma, 0.1, reduction) == pytest.approx(0, abs=1e-12)
    for move in np.random.default_rng(10).normal(size=(10, 3)):
        written = [cross_entropies(theta, rows, gamma, 0.1, reduction) for theta in (best + move, best)]
        found = gap(best + move, rows, gamma, 0.1, reduction)
        assert found == pytest.approx(written[0] - written[1], abs=1e-10)
        # the curvature along the move lies between that of the penalty and, as sigma' <= 1/4, this
        least, most = penalty * move @ move, penalty * move @ move + entropy * sum((rows @ move) ** 2) / 4
        assert least / 2 <= found <= most / 2
