"""The step of SGD RankNet by hand and against differences of its loss."""

from __future__ import annotations

from math import log

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from tests.reference.objective import objective
from tests.reference.sgd_ranknet import loss, step

pytestmark = pytest.mark.slow  # the oracle itself; the tests of the package compare with it


def test_first_step_by_hand():
    # at theta = 0 every pair is won with probability 1/2
    theta, rate = step(np.zeros(2), 0.1, np.array([[1.0, 2.0], [3.0, -1.0]]), 0.9)
    assert theta == pytest.approx([0.1 * (1 + 3) / 2, 0.1 * (2 - 1) / 2])
    assert rate == pytest.approx(0.09)


def test_later_step_by_hand():
    theta, _ = step(np.array([log(3), 0.0]), 0.1, np.array([[1.0, 5.0]]), 1.0)  # won with 3/4
    assert theta == pytest.approx([log(3) + 0.1 / 4, 0.1 * 5 / 4])


def test_loss_is_the_objective_without_penalty():
    rng = np.random.default_rng(0)
    rows, theta = rng.normal(size=(6, 3)), rng.normal(size=3)
    assert loss(theta, rows) == pytest.approx(objective(theta, rows, np.ones(6), 0.0, "sum"))


@pytest.mark.parametrize("pairs", [1, 2, 7])
def test_the_step_descends_along_the_slope_of_the_sum(pairs):
    rng = np.random.default_rng(pairs)
    rows, theta = rng.normal(size=(pairs, 4)), rng.normal(size=4)
    moved, _ = step(theta, 0.01, rows, 1.0)
    assert moved - theta == pytest.approx(-0.01 * approx_fprime(theta, loss, 1e-7, rows), abs=1e-7)
    assert loss(moved, rows) < loss(theta, rows)


def test_without_pairs_neither_theta_nor_the_rate_changes():
    theta, rate = step(np.array([1.0, 2.0]), 0.1, np.zeros((0, 2)), 0.5)
    assert theta.tolist() == [1.0, 2.0]
    assert rate == 0.1
