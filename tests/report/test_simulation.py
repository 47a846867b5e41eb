"""Simulated error rates, coverage and power of the tests and intervals, with known means.

See docs/explanation/comparison.md.

A value is, as in the model behind the intervals, fold(f) + seed(f, s) + ranker(r) + fold(f, r) + noise(f, s, r). The
first two are shared by the rankers and cancel in pairs; fold(f, r) is how much a fold suits a ranker, with the standard
deviation `suits`.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import nct, t

from ol2r_cli.report.estimates import ALPHA, TESTS, holm, of_values

DRAWS = 1500
NEAR = 3 * (0.05 * 0.95 / DRAWS) ** 0.5  # three standard errors of a share of 5 %: 1.7 %

pytestmark = pytest.mark.slow


def significant(
    test: str, rankers: int, folds: int, seeds: int, suits: float = 0.0, shift: float = 0.0, flat: bool = False
) -> float:
    """The share of draws with any significant difference; the first ranker is better by `shift`, the others are equal.

    The units are the means of the folds, or the seeds of the only fold; flat: every value counts as independent.
    """
    random, found = np.random.default_rng(0), 0
    for _ in range(DRAWS):
        drawn = random.normal(size=(1, folds, 1)) + random.normal(size=(1, folds, seeds))
        drawn = drawn + suits * random.normal(size=(rankers, folds, 1)) + random.normal(size=(rankers, folds, seeds))
        drawn[0] += shift
        pairs = [drawn[a] - drawn[b] for a, b in combinations(range(rankers), 2)]
        units = [pair.ravel() if flat or folds == 1 else pair.mean(1) for pair in pairs]
        found += min(holm([TESTS[test](each.tolist()) for each in units])) < ALPHA
    return found / DRAWS


def coverage(folds: int, seeds: int, spread: float, flat: bool = False) -> float:
    """The share of intervals that contain the true mean; spread: standard deviation of the folds, seeds have 1."""
    random, right = np.random.default_rng(1), 0
    for _ in range(DRAWS):
        drawn: NDArray[np.float64] = spread * random.normal(size=(folds, 1)) + random.normal(size=(folds, seeds))
        estimate = of_values({(1, pair) if flat else pair: value for pair, value in np.ndenumerate(drawn)})
        right += abs(estimate.mean) <= estimate.half_width
    return right / DRAWS


@pytest.mark.parametrize(("test", "seeds"), [("t", 10), ("permutation", 15)])
def test_the_family_wise_error_rate_is_five_percent_at_most(test, seeds):
    """Holm is a little conservative where comparisons share a ranker."""
    assert 0.015 < significant(test, 4, 1, seeds) < 0.05 + NEAR


def test_folds_that_suit_a_ranker_are_no_independent_values():
    assert significant("t", 2, 5, 5, 1.0) == pytest.approx(0.05, abs=NEAR)
    assert significant("t", 2, 5, 5, 1.0, flat=True) > 0.2


@pytest.mark.parametrize(
    ("folds", "seeds", "spread"), [(1, 3, 0.0), (1, 10, 0.0), (5, 5, 0.0), (5, 5, 1.0), (2, 10, 1.0)]
)
def test_intervals_cover_the_mean_in_95_percent(folds, seeds, spread):
    assert coverage(folds, seeds, spread) == pytest.approx(0.95, abs=NEAR)


def test_intervals_that_ignore_the_folds_are_too_narrow():
    assert coverage(5, 5, 1.0, flat=True) < 0.75


@pytest.mark.parametrize(("folds", "seeds", "effect"), [(1, 10, 1.0), (1, 5, 1.0), (5, 5, 0.5)])
def test_power_is_that_of_the_noncentral_t(folds, seeds, effect):
    units, on_units = (seeds, effect) if folds == 1 else (folds, effect * seeds**0.5)
    found = significant("t", 2, folds, seeds, shift=effect * 2**0.5)  # the noise of two rankers
    shifted, critical = nct(units - 1, on_units * units**0.5), t.ppf(1 - ALPHA / 2, units - 1)
    expected = float(shifted.sf(critical) + shifted.cdf(-critical))
    assert found == pytest.approx(expected, abs=3 * (0.25 / DRAWS) ** 0.5)
