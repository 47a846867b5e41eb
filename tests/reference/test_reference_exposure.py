"""Exposure and unfairness by hand, and the coefficients of the paper's own table."""

from __future__ import annotations

from math import log2

import pytest

from tests.reference.exposure import (
    coefficient,
    exposure,
    group_exposure,
    letters,
    list_unfairness,
    projected,
    unfairness,
)

pytestmark = pytest.mark.slow  # tests of the oracle itself


def test_models():
    assert exposure("reciprocal", 4) == [1, 1 / 2, 1 / 3, 1 / 4]
    assert exposure("log", 4) == pytest.approx([1, 1 / 2, 1 / (1 + log2(3)), 1 / 3])
    assert exposure([1, 0.7, 0.5], 2) == [1, 0.7]
    assert letters([0, 1, 1, 0]) == "ABBA"


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("linear", "exposure must be 'reciprocal', 'log' or a list of numbers, got 'linear'"),
        ([1.0, 0.5], r"exposure must be at least 3 numbers in \[0, 1\], got \[1.0, 0.5\]"),
        ([1.0, 0.5, -0.1], r"exposure must be at least 3 numbers in \[0, 1\]"),
        ([1.0, 0.5, 1.1], r"exposure must be at least 3 numbers in \[0, 1\]"),
    ],
)
def test_models_that_are_refused(model, message):
    with pytest.raises(ValueError, match=message):
        exposure(model, 3)


def test_the_template_of_section_4_2_1():
    # A A B A B: Exposure(A) = P(1) + P(2) + P(4), Exposure(B) = P(3) + P(5)
    p = [1.0, 0.7, 0.5, 0.35, 0.25]
    assert group_exposure("AABAB", "A", p) == pytest.approx(1.0 + 0.7 + 0.35)
    assert group_exposure("AABAB", "B", p) == pytest.approx(0.5 + 0.25)
    assert list_unfairness("AABAB", p, 2.0) == pytest.approx(2.05 - 2 * 0.75)
    assert projected(-0.4, "AABAB", p, 2.0) == pytest.approx(-0.4 + 0.55)


def test_a_list_shorter_than_the_positions():
    assert list_unfairness("BA", exposure("reciprocal", 10), 1.0) == pytest.approx(1 / 2 - 1)
    assert list_unfairness("", exposure("reciprocal", 10), 1.0) == 0


def test_unfairness_is_signed_and_adds_up():
    p = exposure("reciprocal", 2)
    assert unfairness(["AB", "BA", "BB", "AA"], p, 0.5) == pytest.approx([0.75, 0.75, 0.0, 1.5])
    for t in range(1, 4):
        history = ["AB", "BA", "BB", "AA"][: t + 1]
        before = unfairness(history[:t], p, 0.5)[-1]
        assert unfairness(history, p, 0.5)[-1] == pytest.approx(projected(before, history[-1], p, 0.5))


def test_coefficients():
    assert coefficient("merit", [4, 2, 1, 1, 1], "AABBB") == pytest.approx(3 / 1)
    assert coefficient("parity", [4, 2, 1, 1, 1], "AABBB") == pytest.approx(2 / 3)
    assert coefficient("merit", [1, 1], "BB") == 0  # nobody is in A: it is due nothing
    assert coefficient(1.22, [], "") == 1.22


@pytest.mark.parametrize(
    ("beta", "labels", "message"),
    [
        ("merit", [1, 0], "beta must be a number where group B has no merit"),
        ("parity", [1], "beta must be a number where group B has no documents"),
        ("equal", [1, 1], "beta must be 'merit', 'parity' or a number of at least 0, got 'equal'"),
        (-0.5, [1, 1], "beta must be 'merit', 'parity' or a number of at least 0, got -0.5"),
    ],
)
def test_coefficients_that_are_refused(beta, labels, message):
    with pytest.raises(ValueError, match=message):
        coefficient(beta, labels, "AB"[: len(labels)])


@pytest.mark.parametrize(
    ("merit_a", "merit_b", "caption"),
    [
        (0.6665, 0.6776, 1.0),  # MSLR inlink number
        (0.7302, 0.6093, 1.22),  # MSLR PageRank
        (1.2384, 1.2239, 1.0),  # Yahoo feature 471: 1.0 is the caption of feature 9
        (0.5893, 1.2371, 0.477),  # Yahoo feature 9: .477, in the caption of feature 471, is B / A
    ],
)
def test_the_figures_were_made_with_ratios_of_merit(merit_a, merit_b, caption):
    # Table 1 has the mean labels; their ratios are the captions' beta to within 2%, after the captions of Yahoo are
    # swapped and feature 9 is turned over
    assert coefficient("merit", [merit_a, merit_b], "AB") == pytest.approx(caption, rel=0.02)
