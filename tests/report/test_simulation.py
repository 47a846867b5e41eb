"""Simulated error rates, coverage and power of the tests and intervals, with known means: see docs/comparison.md."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

SIMULATION = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "comparison_simulation.py"))
DRAWS = 1500
NEAR = 3 * (0.05 * 0.95 / DRAWS) ** 0.5  # three standard errors of a share of 5 %: 1.7 %

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("test", "seeds"), [("t", 10), ("permutation", 15)])
def test_the_family_wise_error_rate_is_five_percent_at_most(test, seeds):
    rate = SIMULATION["family_wise"](DRAWS, test, 4, 1, seeds)
    assert 0.015 < rate < 0.05 + NEAR, "Holm is a little conservative where comparisons share a ranker"


def test_folds_that_suit_a_ranker_raise_the_error_rate_of_seeds_as_units_only():
    assert SIMULATION["family_wise"](DRAWS, "t", 2, 5, 5, 1.0) == pytest.approx(0.05, abs=NEAR)
    assert SIMULATION["family_wise"](DRAWS, "t", 2, 5, 5, 1.0, flat=True) > 0.2


@pytest.mark.parametrize(
    ("folds", "seeds", "spread"), [(1, 3, 0.0), (1, 10, 0.0), (5, 5, 0.0), (5, 5, 1.0), (2, 10, 1.0)]
)
def test_intervals_cover_the_mean_in_95_percent(folds, seeds, spread):
    assert SIMULATION["coverage"](DRAWS, folds, seeds, spread) == pytest.approx(0.95, abs=NEAR)


def test_intervals_that_ignore_the_folds_are_too_narrow():
    assert SIMULATION["coverage"](DRAWS, 5, 5, 1.0, flat=True) < 0.75


@pytest.mark.parametrize(("folds", "seeds", "effect"), [(1, 10, 1.0), (1, 5, 1.0), (5, 5, 0.5)])
def test_power_is_that_of_the_noncentral_t(folds, seeds, effect):
    units, on_units = (seeds, effect) if folds == 1 else (folds, effect * seeds**0.5)
    expected = SIMULATION["expected_power"](units, on_units)
    found = SIMULATION["power"](DRAWS, "t", folds, seeds, effect * 2**0.5)  # the noise of two rankers
    assert found == pytest.approx(expected, abs=3 * (0.25 / DRAWS) ** 0.5)
