"""Intervals against Student's t in closed form, pooling against the values themselves."""

from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ol2r_cli.report.statistics import Estimate, of_values, over_folds, pool, quantile

VALUES = st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=6)


def of(values: list[float]) -> Estimate:
    sd = statistics.stdev(values) if len(values) > 1 else None
    return Estimate(statistics.fmean(values), sd, len(values))


def test_quantiles_where_students_t_has_a_closed_form():
    p = 0.975
    assert quantile(1) == pytest.approx(math.tan(math.pi * (p - 1 / 2)))  # Cauchy
    assert quantile(2) == pytest.approx((2 * p - 1) / math.sqrt(2 * p * (1 - p)))
    assert quantile(10**9) == pytest.approx(statistics.NormalDist().inv_cdf(p))


def test_the_half_width_is_t_times_the_standard_error():
    two = of([0.25, 0.75])  # sd is the distance over sqrt(2), the standard error half the distance
    assert two.half_width == pytest.approx(math.tan(math.pi * 0.475) * 0.25)
    assert Estimate(0.5, None, 1).half_width is None


@given(st.lists(VALUES, min_size=1, max_size=5))
def test_pooled_parts_are_as_good_as_the_values(parts):
    values = [value for part in parts for value in part]
    pooled, direct = pool(map(of, parts)), of(values)
    assert pooled.n == direct.n
    assert pooled.mean == pytest.approx(direct.mean, abs=1e-9)
    assert (pooled.sd is None) == (direct.sd is None)
    if pooled.sd is not None:
        assert pooled.sd == pytest.approx(direct.sd, abs=1e-9)


def test_nothing_pools_to_nothing():
    assert pool([]) is None


@given(st.lists(VALUES, min_size=2, max_size=4))
def test_several_folds_are_the_units_and_count_the_same(folds):
    """The mean over the folds' means, with the interval of so many independent values."""
    by_fold = {number: [of(values)] for number, values in enumerate(folds)}
    estimate, units = over_folds(by_fold), of([statistics.fmean(values) for values in folds])
    values = [value for fold in folds for value in fold]
    assert (estimate.n, estimate.folds, estimate.units) == (len(values), len(folds), len(folds))
    assert estimate.mean == pytest.approx(units.mean, abs=1e-9)
    assert estimate.half_width == pytest.approx(units.half_width, abs=1e-6)
    assert estimate.sd == pytest.approx(statistics.stdev(values), abs=1e-6)
    pairs = {(fold, seed): value for fold, own in enumerate(folds) for seed, value in enumerate(own)}
    assert of_values(pairs).half_width == pytest.approx(units.half_width, abs=1e-6)


def test_one_fold_is_no_fold():
    assert over_folds({1: [of([0.25, 0.75])], 2: []}) == of([0.25, 0.75])
    assert over_folds({1: []}) is None
    assert of_values({(1, 0): 0.5}) == of([0.5])
