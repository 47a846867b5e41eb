"""Intervals against Student's t in closed form, pooling against the values themselves."""

from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ol2r_cli.report.statistics import Estimate, pool, quantile

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
