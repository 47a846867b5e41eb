"""Plackett-Luce by fractions, sums over all lists, and the race of clocks against the probabilities."""

from __future__ import annotations

from collections import Counter
from math import log

import numpy as np
import pytest
from scipy.stats import chisquare

from tests.reference.plackett_luce import enumerate_rankings, log_probability, order_of, probability

pytestmark = pytest.mark.slow  # tests of the oracle itself

# The race, fixed before the first look: draws for each case, and the p-value below which it fails.
DRAWS = 20_000
LEAST_P = 1e-4


def test_probabilities_by_hand():
    scores = [log(4), log(3), log(2), log(1)]  # shares 4 : 3 : 2 : 1 of 10
    assert probability((0,), scores) == pytest.approx(4 / 10)
    assert probability((3, 0), scores) == pytest.approx(1 / 10 * 4 / 9)
    assert probability((2, 0, 3), scores) == pytest.approx(2 / 10 * 4 / 8 * 1 / 4)
    assert probability((2, 0, 3, 1), scores) == pytest.approx(2 / 10 * 4 / 8 * 1 / 4 * 3 / 3)
    assert probability((), scores) == 1


def test_lists_are_counted():
    assert len(enumerate_rankings(4, 2)) == len(set(enumerate_rankings(4, 2))) == 4 * 3
    assert len(enumerate_rankings(3, 10)) == 3 * 2 * 1
    assert set(enumerate_rankings(2, 2)) == {(0, 1), (1, 0)}


@pytest.mark.parametrize("places", [1, 2, 3, 4])
def test_all_lists_of_a_length_add_up_to_one(places):
    scores = np.random.default_rng(places).normal(scale=2, size=4).tolist()
    assert sum(probability(r, scores) for r in enumerate_rankings(4, places)) == pytest.approx(1)


def test_a_list_is_the_sum_of_all_that_begin_with_it():
    scores = [0.3, -1.0, 2.0, 0.5]
    for beginning in enumerate_rankings(4, 2):
        longer = [r for r in enumerate_rankings(4, 4) if r[:2] == beginning]
        assert probability(beginning, scores) == pytest.approx(sum(probability(r, scores) for r in longer))


def test_equal_scores_are_uniform_and_a_common_shift_changes_nothing():
    for ranking in enumerate_rankings(4, 2):
        assert probability(ranking, [7.0] * 4) == pytest.approx(1 / 12)
        shifted = probability(ranking, [1000.3, 999.0, 1002.0, 1000.5])
        assert shifted == pytest.approx(probability(ranking, [0.3, -1.0, 2.0, 0.5]))


def test_scores_far_apart_leave_one_order_and_no_overflow():
    scores = [-1000.0, 1000.0, 0.0]
    assert probability((1, 2, 0), scores) == pytest.approx(1)
    assert probability((0, 1, 2), scores) == 0.0
    assert log_probability((0, 1, 2), scores) == pytest.approx(-2000)
    assert order_of(scores, [1.0, 1.0, 1.0]) == (1, 2, 0)


def test_a_list_of_a_document_twice_is_an_error():
    with pytest.raises(ValueError, match=r"ranking must hold different documents of 0 .. 2, got \[1, 1\]"):
        probability((1, 1), [0.0, 0.0, 0.0])


def test_clocks_by_hand():
    scores = [log(4), log(1), log(2)]
    assert order_of(scores, [4.0, 0.5, 4.0]) == (1, 0, 2)  # 4/4, 0.5/1, 4/2
    assert order_of(scores, [8.0, 1.0, 1.0]) == (2, 1, 0)  # 8/4, 1/1, 1/2
    assert order_of([0.0, 0.0, 0.0], [1.0, 0.0, 1.0]) == (1, 0, 2)  # a clock at 0 is first, equal ones by number


@pytest.mark.parametrize("scores", [[0.0, 0.0, 0.0], [1.0, 0.0, -1.5], [0.2, -0.7, 1.1, 0.2]])
def test_exponential_clocks_draw_plackett_luce(scores):
    rng = np.random.default_rng(8)
    drawn = Counter(order_of(scores, clocks) for clocks in rng.exponential(size=(DRAWS, len(scores))).tolist())
    orders = enumerate_rankings(len(scores), len(scores))
    expected = [DRAWS * probability(order, scores) for order in orders]
    assert set(drawn) <= set(orders)
    assert chisquare([drawn[order] for order in orders], expected).pvalue > LEAST_P


def test_the_first_places_of_the_race_are_those_of_the_model():
    scores = [0.2, -0.7, 1.1, 0.2]
    rng = np.random.default_rng(9)
    drawn = Counter(order_of(scores, clocks)[:2] for clocks in rng.exponential(size=(DRAWS, 4)).tolist())
    beginnings = enumerate_rankings(4, 2)
    expected = [DRAWS * probability(beginning, scores) for beginning in beginnings]
    assert chisquare([drawn[beginning] for beginning in beginnings], expected).pvalue > LEAST_P
