"""The linear cascading bandits by hand, and what the drawn weights are distributed as."""

from __future__ import annotations

import numpy as np
import pytest

from tests.reference.cascade_linear import CascadeLinear

pytestmark = pytest.mark.slow  # the oracle itself; the tests of the package compare with it


def test_sums_by_hand():
    """One feature: M = 1 + (4 + 9) / 4, b = 3."""
    bandit = CascadeLinear(1, 2.0, "first_click")
    bandit.learn([np.array([2.0]), np.array([3.0]), np.array([5.0])], [0, 1, 1])
    assert bandit.precision() == pytest.approx(4.25)
    assert bandit.theta() == pytest.approx(3 / 4.25 / 4)
    low = bandit.bounds([np.array([0.5])], 0.1)
    assert low == pytest.approx([0.5 * 3 / 17 + 0.1 * 0.5 / 4.25**0.5])
    assert bandit.bounds([np.array([5.0])], 1.0) == [1.0]


def test_drawn_weights_have_the_inverse_of_m_as_covariance():
    rng = np.random.default_rng(0)
    bandit = CascadeLinear(3, 0.7, "all")
    bandit.learn(list(rng.normal(size=(4, 3))), [0, 1, 1, 0])
    units = list(np.eye(3))
    drawn = np.array([bandit.drawn(units, rng.normal(size=3)) for _ in range(20_000)])
    covariance = np.linalg.inv(bandit.precision())
    assert drawn.mean(0) == pytest.approx(bandit.theta(), abs=4 * (covariance.max() / 20_000) ** 0.5)
    assert np.cov(drawn.T) == pytest.approx(covariance, abs=0.03)
