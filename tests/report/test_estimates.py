"""Intervals, p values, Holm and effect sizes, against closed forms, scipy and definitions."""

from __future__ import annotations

import math
import statistics
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_1samp

from ol2r_cli.metrics.intervals import quantile
from ol2r_cli.report.estimates import (
    EXACT,
    effect_size,
    holm,
    least_p,
    of_values,
    paired_t,
    sign_flips,
)

FOLDS = st.lists(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=6), min_size=1, max_size=4)
DIFFERENCES = st.lists(st.floats(-10, 10).map(lambda value: round(value, 3)), min_size=2, max_size=8)
P = st.lists(st.floats(0, 1), min_size=1, max_size=8)


def test_students_t_where_it_has_a_closed_form():
    p = 0.975
    assert quantile(1) == pytest.approx(math.tan(math.pi * (p - 1 / 2)))  # Cauchy
    assert quantile(2) == pytest.approx((2 * p - 1) / math.sqrt(2 * p * (1 - p)))
    assert quantile(10**9) == pytest.approx(statistics.NormalDist().inv_cdf(p))
    two = of_values({(1, 0): 0.25, (1, 1): 0.75})  # the standard error of two values is half their distance
    assert two.half_width == pytest.approx(math.tan(math.pi * 0.475) * 0.25)
    assert of_values({(1, 0): 0.5}).half_width is None
    assert of_values({}) is None
    # For 1 and 3: mean 2, standard error 1, t = 2; with one degree of freedom p = 1 - 2 atan(t) / pi.
    assert paired_t([1, 3]) == paired_t([-1, -3]) == pytest.approx(1 - 2 * math.atan(2) / math.pi)


@given(FOLDS)
def test_several_folds_are_the_units_and_count_the_same(folds):
    """The mean over the folds' means, with the interval of so many independent values; of one fold, of its values."""
    values = [value for fold in folds for value in fold]
    units = [statistics.fmean(fold) for fold in folds] if len(folds) > 1 else values
    estimate = of_values({(fold, seed): value for fold, own in enumerate(folds) for seed, value in enumerate(own)})
    assert (estimate.n, estimate.clusters, estimate.units) == (len(values), len(folds), len(units))
    assert estimate.mean == pytest.approx(statistics.fmean(units), abs=1e-9)
    assert (estimate.sd is None) == (len(values) == 1)
    if len(units) > 1:
        assert estimate.sd == pytest.approx(statistics.stdev(values), abs=1e-6)
        half = quantile(len(units) - 1) * statistics.stdev(units) / len(units) ** 0.5
        assert estimate.half_width == pytest.approx(half, abs=1e-6)


@given(DIFFERENCES)
def test_p_is_that_of_scipy_and_of_all_signs(differences):
    """Every assignment of signs is counted one by one in whole thousandths, where nothing rounds."""
    if np.std(differences) > 1e-6:
        assert paired_t(differences) == pytest.approx(ttest_1samp(differences, 0).pvalue, abs=1e-9)
    whole = [round(1000 * value) for value in differences]
    ways = [abs(sum(s * v for s, v in zip(signs, whole, strict=True))) for signs in product((1, -1), repeat=len(whole))]
    assert sign_flips(differences) == sum(way >= abs(sum(whole)) for way in ways) / len(ways)


def test_differences_without_spread():
    assert (effect_size([1.0, 2.0]), effect_size([0.1, 0.1, 0.1])) == (None, None)
    assert (paired_t([0.0, 0.0, 0.0]), paired_t([0.1, 0.1, 0.1]), sign_flips([0.0, 0.0])) == (1, 0, 1)
    assert sign_flips([0.1, 0.1, 0.1]) == 2 / 8, "all signs the same, one way or the other"
    assert of_values({(1, 0): 1.0, (1, 1): 1 + 2**-52}).sd > 0, "an interval is not rounded to 0, as in a test"


def test_many_signs_are_drawn_repeatably():
    """Many signs are drawn, and the draws are the same every time."""
    differences = np.random.default_rng(1).normal(0.4, 1, EXACT + 10).tolist()
    drawn = sign_flips(differences)
    assert drawn == sign_flips(differences)
    assert least_p("permutation", 5) == sign_flips([1.0, 2.0, 3.0, 4.0, 5.0]) == 2 / 2**5
    normal = math.erfc(abs(sum(differences)) / math.sqrt(2 * sum(d**2 for d in differences)))  # so many signs
    assert drawn == pytest.approx(normal, abs=0.01)


@given(P, st.floats(0.001, 0.5))
def test_holm_rejects_what_the_procedure_rejects(p, alpha):
    """Step down: reject the smallest while it is below alpha / (how many are left); then stop."""
    left, rejected = sorted(range(len(p)), key=p.__getitem__), set()
    while left and p[left[0]] * len(left) < alpha:
        rejected.add(left.pop(0))
    assert {place for place, adjusted in enumerate(holm(p)) if adjusted < alpha} == rejected
    # In order: .005 x 4 = .02, .01 x 3 = .03, .03 x 2 = .06, and .04 x 1 = .04, which may not be below .06.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.6]) == [1, 1]


def test_the_effect_size_has_no_bias():
    """Without the correction ten values overrate an effect of 1 by 9 %, sqrt(9/2) G(4) / G(9/2)."""
    draws = np.random.default_rng(2).normal(1, 1, (5_000, 10))
    assert np.mean([effect_size(row) for row in draws.tolist()]) == pytest.approx(1, abs=0.02)
    plain = draws[0].mean() / draws[0].std(ddof=1)
    assert effect_size(draws[0].tolist()) == pytest.approx((1 - 3 / 35) * plain, rel=1e-3)
