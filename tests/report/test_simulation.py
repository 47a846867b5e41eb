"""Simulated error rates, coverage and power of the tests and intervals, with known means: see docs/comparison.md.

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

from ol2r_cli.report.estimates import ALPHA, Estimate, holm, of_values, over_folds, paired_t, sign_flips

DRAWS = 1500
NEAR = 3 * (0.05 * 0.95 / DRAWS) ** 0.5  # three standard errors of a share of 5 %: 1.7 %

TESTS = {"t": paired_t, "permutation": sign_flips}

pytestmark = pytest.mark.slow


def values(
    random: np.random.Generator, rankers: int, folds: int, seeds: int, suits: float = 0.0, shift: float = 0.0
) -> NDArray[np.float64]:
    """[rankers, folds, seeds]: the first ranker is better by `shift` on average, all others are equal."""
    shared = random.normal(size=(1, folds, 1)) + random.normal(size=(1, folds, seeds))
    own = suits * random.normal(size=(rankers, folds, 1)) + random.normal(size=(rankers, folds, seeds))
    own[0] += shift
    return shared + own


def units(differences: NDArray[np.float64]) -> list[float]:
    """The units of [folds, seeds], as in a report: the means of the folds, or the seeds of the only fold."""
    return (differences.mean(1) if len(differences) > 1 else differences[0]).tolist()


def family_wise(
    draws: int, test: str, rankers: int, folds: int, seeds: int, suits: float = 0.0, flat: bool = False
) -> float:
    """The share of draws with any significant difference among equal rankers. flat: values count as independent."""
    random, wrong = np.random.default_rng(0), 0
    for _ in range(draws):
        drawn = values(random, rankers, folds, seeds, suits)
        pairs = [drawn[a] - drawn[b] for a, b in combinations(range(rankers), 2)]
        p = [TESTS[test](pair.ravel().tolist() if flat else units(pair)) for pair in pairs]
        wrong += min(holm([value for value in p if value is not None])) < ALPHA
    return wrong / draws


def coverage(draws: int, folds: int, seeds: int, spread: float, flat: bool = False) -> float:
    """The share of intervals that contain the true mean; spread: standard deviation of the folds, seeds have 1."""
    random, right = np.random.default_rng(1), 0
    for _ in range(draws):
        drawn = spread * random.normal(size=(folds, 1)) + random.normal(size=(folds, seeds))
        by_pair = {(f, s): value for (f, s), value in np.ndenumerate(drawn)}
        estimate = over_folds({1: [Estimate(v, None, 1) for v in by_pair.values()]}) if flat else of_values(by_pair)
        right += estimate is not None and abs(estimate.mean) <= (estimate.half_width or 0)
    return right / draws


def power(draws: int, test: str, folds: int, seeds: int, shift: float) -> float:
    """The share of draws in which a ranker that is better by `shift` is significantly different from another."""
    random, significant = np.random.default_rng(2), 0
    for _ in range(draws):
        drawn = values(random, 2, folds, seeds, shift=shift)
        p = TESTS[test](units(drawn[0] - drawn[1]))
        significant += p is not None and p < ALPHA
    return significant / draws


def expected_power(n: int, effect: float) -> float:
    """The power of the paired t test, from the noncentral t distribution; `effect` is d_z."""
    critical = t.ppf(1 - ALPHA / 2, n - 1)
    shifted = nct(n - 1, effect * n**0.5)
    return float(shifted.sf(critical) + shifted.cdf(-critical))


def test_the_family_wise_error_rate_is_five_percent_at_most():
    for test, seeds in ("t", 10), ("permutation", 15):
        rate = family_wise(DRAWS, test, 4, 1, seeds)
        assert 0.015 < rate < 0.05 + NEAR, "Holm is a little conservative where comparisons share a ranker"
    assert family_wise(DRAWS, "t", 2, 5, 5, 1.0) == pytest.approx(0.05, abs=NEAR)
    assert family_wise(DRAWS, "t", 2, 5, 5, 1.0, flat=True) > 0.2, "folds that suit a ranker are no independent values"


def test_intervals_cover_the_mean_in_95_percent():
    for folds, seeds, spread in (1, 3, 0.0), (1, 10, 0.0), (5, 5, 0.0), (5, 5, 1.0), (2, 10, 1.0):
        assert coverage(DRAWS, folds, seeds, spread) == pytest.approx(0.95, abs=NEAR), (folds, seeds, spread)
    assert coverage(DRAWS, 5, 5, 1.0, flat=True) < 0.75, "intervals that ignore the folds are too narrow"


def test_power_is_that_of_the_noncentral_t():
    for folds, seeds, effect in (1, 10, 1.0), (1, 5, 1.0), (5, 5, 0.5):
        units, on_units = (seeds, effect) if folds == 1 else (folds, effect * seeds**0.5)
        found = power(DRAWS, "t", folds, seeds, effect * 2**0.5)  # the noise of two rankers
        assert found == pytest.approx(expected_power(units, on_units), abs=3 * (0.25 / DRAWS) ** 0.5), (folds, seeds)
