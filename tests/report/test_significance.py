"""p values against scipy and by hand, Holm by hand and against its law, effect sizes against the noncentral t."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ol2r_cli.report.significance import EXACT, effect_size, holm, least_p, paired_t, sign_flips

VALUES = st.lists(st.floats(-10, 10).map(lambda value: round(value, 3)), min_size=2, max_size=8)
P = st.lists(st.floats(0, 1), min_size=1, max_size=8)


def test_t_where_it_has_a_closed_form():
    """Of 1 and 3: mean 2, standard error 1, t = 2; with one degree of freedom p = 1 - 2 atan(t) / pi."""
    assert paired_t([1, 3]) == pytest.approx(1 - 2 * math.atan(2) / math.pi)
    assert paired_t([-1, -3]) == paired_t([1, 3])


@given(VALUES, VALUES)
def test_t_is_that_of_scipy(first, second):
    from scipy.stats import ttest_rel

    pairs = list(zip(first, second, strict=False))
    differences = [a - b for a, b in pairs]
    if np.std(differences) > 1e-6 and len(pairs) > 1:
        assert paired_t(differences) == pytest.approx(ttest_rel(*zip(*pairs, strict=True)).pvalue, abs=1e-9)


def test_differences_without_spread():
    assert paired_t([0.0, 0.0, 0.0]) == 1
    assert paired_t([0.1, 0.1, 0.1]) == 0
    assert effect_size([0.1, 0.1, 0.1]) is None
    assert sign_flips([0.1, 0.1, 0.1]) == 2 / 8, "all signs the same, one way or the other"
    assert sign_flips([0.0, 0.0]) == 1


@pytest.mark.parametrize("test", [paired_t, sign_flips])
def test_one_value_says_nothing(test):
    assert test([1.0]) is None
    assert effect_size([1.0, 2.0]) is None


@given(VALUES)
def test_signs_are_all_tried(differences):
    """Every assignment of signs, counted one by one in whole thousandths, where nothing rounds."""
    whole = [round(1000 * value) for value in differences]
    ways = [abs(sum(s * v for s, v in zip(signs, whole, strict=True))) for signs in product((1, -1), repeat=len(whole))]
    assert sign_flips(differences) == sum(way >= abs(sum(whole)) for way in ways) / len(ways)


def test_signs_are_those_of_scipy():
    from scipy.stats import permutation_test

    differences = np.random.default_rng(0).normal(0.4, 1, 9).tolist()
    exact = permutation_test((differences,), np.mean, permutation_type="samples", n_resamples=np.inf)
    assert sign_flips(differences) == pytest.approx(exact.pvalue)


def test_many_signs_are_drawn_and_the_draws_are_the_same_every_time():
    differences = np.random.default_rng(1).normal(0.4, 1, EXACT + 10).tolist()
    drawn = sign_flips(differences)
    assert drawn == sign_flips(differences)
    normal = math.erfc(abs(sum(differences)) / math.sqrt(2 * sum(d**2 for d in differences)))  # so many signs
    assert drawn == pytest.approx(normal, abs=0.01)


def test_the_least_p_of_a_sign_flip_test():
    assert least_p("permutation", 5) == sign_flips([1.0, 2.0, 3.0, 4.0, 5.0]) == 2 / 2**5
    assert least_p("t", 5) == 0


def test_holm_by_hand():
    """In order: .005 x 4 = .02, .01 x 3 = .03, .03 x 2 = .06, and .04 x 1 = .04, which may not be below .06."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.6]) == [1, 1]
    assert holm([]) == []


@given(P, st.floats(0.001, 0.5))
def test_holm_rejects_what_the_procedure_rejects(p, alpha):
    """Step down: reject the smallest while it is below alpha / (how many are left); then stop."""
    left, rejected = sorted(range(len(p)), key=p.__getitem__), set()
    while left and p[left[0]] * len(left) < alpha:
        rejected.add(left.pop(0))
    assert {place for place, adjusted in enumerate(holm(p)) if adjusted < alpha} == rejected


def test_the_effect_size_has_no_bias():
    """Without the correction ten values overrate an effect of 1 by 9 %."""
    draws = np.random.default_rng(2).normal(1, 1, (20_000, 10))
    assert np.mean([effect_size(row) for row in draws.tolist()]) == pytest.approx(1, abs=0.01)
    assert np.mean(draws.mean(1) / draws.std(1, ddof=1)) == pytest.approx(1.0942, abs=0.01)  # sqrt(9/2) G(4) / G(9/2)
    assert effect_size(draws[0].tolist()) == pytest.approx(
        (1 - 3 / 35) * draws[0].mean() / draws[0].std(ddof=1), rel=1e-3
    )
