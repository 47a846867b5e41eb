"""Probabilistic interleaving by hand, and expected credit against a sum over all ways to have made the list."""

from __future__ import annotations

from collections import Counter
from itertools import permutations, product
from math import prod

import numpy as np
import pytest

from tests.reference.interleaving import choice, credit_probabilistic, credit_team_draft, probabilistic, team_draft

pytestmark = pytest.mark.slow  # tests of the oracle itself

RANKINGS = [(0, 1, 2, 3), (0, 3, 1, 2), (2, 0, 1, 3)]


def test_choice_by_hand():
    ranking = (5, 3, 4)
    assert choice(ranking, [], 1) == pytest.approx({5: 6 / 11, 3: 3 / 11, 4: 2 / 11})  # 1, 1/2, 1/3
    assert choice(ranking, [5], 1) == pytest.approx({3: 3 / 5, 4: 2 / 5})  # the ranks stay 2 and 3
    assert choice(ranking, [3], 3) == pytest.approx({5: 27 / 28, 4: 1 / 28})  # 1, 1/27
    assert list(choice(ranking, [3], 3)) == [5, 4]


def test_probabilistic_by_hand():
    # member 1 ranks 2, 1, 0 with 6/11, 3/11, 2/11; then member 0 ranks 0, 1, 2 without what was placed
    rankings = [(0, 1, 2), (2, 1, 0)]
    for first, second, expected in [
        (5.9 / 11, 0.66, [2, 0, 1]),  # 0 has 1, 1 has 1/2: 2/3 and 1/3
        (5.9 / 11, 0.67, [2, 1, 0]),
        (6.1 / 11, 0.74, [1, 0, 2]),  # 0 has 1, 2 has 1/3: 3/4 and 1/4
        (6.1 / 11, 0.76, [1, 2, 0]),
        (9.1 / 11, 0.59, [0, 1, 2]),  # 1 has 1/2, 2 has 1/3: 3/5 and 2/5
        (9.1 / 11, 0.61, [0, 2, 1]),
    ]:
        assert probabilistic(rankings, (1, 0, 0), (first, second, 0.5), 3, tau=1) == expected
    assert probabilistic(rankings, (1, 0, 0), (0.0, 0.0, 0.0), 2, tau=1) == [2, 0]
    assert probabilistic(rankings, (1, 0, 0), (0.0, 0.0, 0.0), 9, tau=1) == [2, 0, 1]


def test_probabilistic_draws_the_softmax():
    # Uniforms in the middle of equal cells, fine enough for every probability to be a whole number of cells: 6/11,
    # 3/11, 2/11 at the first place; 3/5, 2/5 or 3/4, 1/4 or 2/3, 1/3 at the second.
    first, second = 11, 60
    drawn = Counter(
        tuple(probabilistic([(0, 1, 2)], (0, 0, 0), ((a + 0.5) / first, (b + 0.5) / second, 0.5), 3, tau=1))
        for a in range(first)
        for b in range(second)
    )
    shares = {0: 6, 1: 3, 2: 2}
    for order in permutations(range(3)):
        chance = shares[order[0]] / 11 * shares[order[1]] / (11 - shares[order[0]])
        assert drawn[order] == pytest.approx(chance * first * second)


def credit_by_enumeration(rankings, shown, clicks, tau):
    """Hofmann et al. literally: credit of each assignment of places to members, weighted by P(assignment | list)."""
    total, credit = 0.0, np.zeros(len(rankings))
    for assignment in product(range(len(rankings)), repeat=len(shown)):
        weight = prod(choice(rankings[m], shown[:p], tau)[shown[p]] for p, m in enumerate(assignment))
        total += weight
        for member, clicked in zip(assignment, clicks, strict=True):
            credit[member] += weight * clicked
    return credit / total


@pytest.mark.parametrize("tau", [0.5, 1, 3])
@pytest.mark.parametrize("rankings", [RANKINGS, RANKINGS[:2], [(3, 1, 0, 2), (1, 3, 2, 0), (2, 3, 1, 0), (0, 1, 3, 2)]])
def test_expected_credit_is_the_mean_over_all_assignments(rankings, tau):
    for shown in [(0, 1, 2, 3), (3, 2, 1, 0), (2, 0, 3)]:
        for clicks in product((False, True), repeat=len(shown)):
            credit = credit_probabilistic(rankings, shown, clicks, tau)
            assert credit == pytest.approx(credit_by_enumeration(rankings, shown, clicks, tau))
            assert sum(credit) == pytest.approx(sum(clicks))


def test_expected_credit_by_hand():
    rankings = [(0, 1, 2), (2, 1, 0)]
    # place 1: 0 has 6/11 of member 0 and 2/11 of member 1; place 3: only 1 is left, for both
    assert credit_probabilistic(rankings, (0, 2, 1), (True, False, True), 1) == pytest.approx([3 / 4 + 1 / 2, 3 / 4])


def test_equal_members_share_credit_equally():
    assert credit_probabilistic([(2, 0, 1)] * 4, (0, 1, 2), (True, False, True)) == pytest.approx([0.5] * 4)


def test_with_a_large_tau_the_credit_goes_to_who_ranks_it_higher():
    # and every member places its best document that is left, so that the list is that of its turns
    rankings = [(0, 1, 2, 3), (3, 2, 1, 0)]
    assert credit_probabilistic(rankings, (3, 0), (True, True), 60) == pytest.approx([1, 1])
    assert credit_probabilistic(rankings, (1, 0), (True, False), 60) == pytest.approx([1, 0], abs=(2 / 3) ** 60)
    assert probabilistic(rankings, (1, 0, 0, 1), (0.5,) * 4, 4, 60) == team_draft(rankings, (1, 0, 0, 1), 4)[0]


def test_probabilistic_credit_is_right_on_average():
    # Members are drawn by coin flips; the mean credit by the true author equals the mean expected credit.
    rankings = [(0, 1, 2), (1, 2, 0)]
    clicked = {0: True, 1: False, 2: True}
    true, expected = np.zeros(2), np.zeros(2)
    for members in product(range(2), repeat=2):
        for shown in permutations(range(3), 2):
            chance = prod(choice(rankings[m], shown[:p], 3)[shown[p]] for p, m in enumerate(members)) / 4
            clicks = [clicked[document] for document in shown]
            true += chance * np.array(credit_team_draft(members, clicks, 2))
            expected += chance * np.array(credit_probabilistic(rankings, shown, clicks))
    assert expected == pytest.approx(true)
