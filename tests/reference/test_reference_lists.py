"""Lists that are drawn, by hand: interleaving, Plackett-Luce, epsilon-greedy."""

from __future__ import annotations

from math import factorial, log

import pytest

from tests.reference.epsilon_greedy import order
from tests.reference.interleaving import (
    all_turns,
    choice,
    common_prefix,
    credit_probabilistic,
    credit_team_draft,
    probabilistic,
    team_draft,
)
from tests.reference.plackett_luce import enumerate_rankings, order_of, probability


def test_team_draft():
    assert set(all_turns(2, 3)) == {(0, 1, 0), (0, 1, 1), (1, 0, 0), (1, 0, 1)}
    assert len(all_turns(3, 5)) == factorial(3) * 3 * 2
    rankings = [(0, 1, 2, 3), (0, 2, 1, 3)]
    assert common_prefix(rankings) == 1
    # 1 places 2; 0 places 1; then 0 and 1 both have only 3 left, and the turn says who it is
    assert team_draft(rankings, (1, 0, 0), 4) == ([0, 2, 1, 3], [None, 1, 0, 0])
    # of three: 2 places 2, 0 places 0, 1 (0 is gone) places 3; then 1, its 0 and 3 gone, places 1
    three = [(0, 1, 2, 3), (0, 3, 1, 2), (2, 0, 1, 3)]
    assert team_draft(three, (2, 0, 1, 1), 4) == ([2, 0, 3, 1], [2, 0, 1, 1])
    assert credit_team_draft([None, 1, 0, 1], (True, True, False, True), 3) == [0, 2, 0]


def test_probabilistic_interleaving():
    assert choice((5, 3, 4), [5], 1) == pytest.approx({3: 3 / 5, 4: 2 / 5})  # 1/2 and 1/3: the ranks stay 2 and 3
    # member 1 ranks 2, 1, 0 with 6/11, 3/11, 2/11; then member 0 ranks 0, 1, 2 without what was placed
    rankings = [(0, 1, 2), (2, 1, 0)]
    for first, second, expected in [
        (5.9 / 11, 0.66, [2, 0, 1]),  # 0 has 1, 1 has 1/2: 2/3 and 1/3
        (5.9 / 11, 0.67, [2, 1, 0]),
        (6.1 / 11, 0.74, [1, 0, 2]),  # 0 has 1, 2 has 1/3: 3/4 and 1/4
    ]:
        assert probabilistic(rankings, (1, 0, 0), (first, second, 0.5), 3, tau=1) == expected
    # place 1: 0 has 6/11 of member 0 and 2/11 of member 1; place 3: only 1 is left, for both
    assert credit_probabilistic(rankings, (0, 2, 1), (True, False, True), 1) == pytest.approx([3 / 4 + 1 / 2, 3 / 4])


def test_plackett_luce():
    scores = [log(4), log(3), log(2), log(1)]  # shares 4 : 3 : 2 : 1 of 10
    assert probability((2, 0, 3), scores) == pytest.approx(2 / 10 * 4 / 8 * 1 / 4)
    assert enumerate_rankings(2, 3) == [(0, 1), (1, 0)]
    assert order_of([log(4), log(1), log(2)], [4.0, 0.5, 4.0]) == (1, 0, 2)  # 4/4, 0.5/1, 4/2


def test_epsilon_greedy():
    scores = [0.5, 2.0, -1.0, 1.0]  # best first: 1, 3, 0, 2
    assert order(scores, [False, True, False, False], (2, 1, 3, 0), 4) == (1, 2, 3, 0)
    # 2; 1 by score; 1 is gone, so 3 is next in the permutation
    assert order(scores, [True, False, True, False], (2, 1, 3, 0), 4) == (2, 1, 3, 0)
