"""Click probabilities, and the pairs that clicks imply, by hand."""

from __future__ import annotations

from fractions import Fraction

import pytest

from tests.reference.clicks import (
    cascade_clicks,
    dependent_by_place_examination,
    dependent_clicks,
    dependent_patterns,
    dynamic_bayesian_examination,
    position_based_clicks,
    trust_bias_clicks,
    user_browsing_clicks,
    user_browsing_examined,
)
from tests.reference.feedback import adjacent_pairs, all_pairs, examined, matchings

NAVIGATIONAL = (0.05, 0.5, 0.95), (0.2, 0.5, 0.9)  # PairRank, Table 1: click and stop for the grades 0, 1, 2
CLICK = (0.1, 0.5, 0.9)


def test_dependent_clicks():
    assert dependent_clicks([2, 0], *NAVIGATIONAL) == pytest.approx([0.95, (1 - 0.95 * 0.9) * 0.05])
    assert dependent_clicks([2, 0], *NAVIGATIONAL, True) == pytest.approx([0.95, 0.1 * 0.05])
    assert dependent_patterns([2, 0], *NAVIGATIONAL) == pytest.approx(
        {
            (True, True): 0.95 * 0.1 * 0.05,
            (True, False): 0.95 * (0.9 + 0.1 * 0.95),
            (False, True): 0.05 * 0.05,
            (False, False): 0.05 * 0.95,
        }
    )


def test_cascade():
    assert cascade_clicks([1, 2, 0], CLICK) == pytest.approx([0.5, 0.5 * 0.9, 0.5 * 0.1 * 0.1])


def test_position_based():
    assert position_based_clicks([2, 1], CLICK, 1.0) == pytest.approx([0.9, 0.5 / 2])
    assert position_based_clicks([2, 1], CLICK, 2.0) == pytest.approx([0.9, 0.5 / 4])


def test_continuation_by_place():
    examination = dependent_by_place_examination([1, 0, 1], CLICK, [0.9, 0.4, 0.3])
    assert examination == pytest.approx([1, 0.95, 0.95 * 0.94])


def test_dynamic_bayesian_network():
    examination = dynamic_bayesian_examination([1, 0, 1], (0.1, 0.5), (0.2, 0.8), 0.9)
    assert examination == pytest.approx([1, 0.9 * 0.6, 0.9 * 0.6 * 0.9 * 0.98])


def test_user_browsing():
    # Rank 1 is clicked with .5. Then rank 2 is one below a click, or two below the top: .8 (.5 .6 + .5 .3).
    assert user_browsing_clicks([1, 2], (0.1, 0.5, 0.8), [[1], [0.6, 0.3]]) == pytest.approx([0.5, 0.36])
    assert [user_browsing_examined([[1], [0.6, 0.3]], 4, distance) for distance in (1, 2, 3, 4)] == [0.6, 0.6, 0.6, 0.3]


def test_trust_bias():
    # t (e+ r + e- (1 - r)): .5 (.9 .3 + .2 .7)
    assert trust_bias_clicks([1], (0.0, 0.3), [0.5], [0.9], [0.2]) == pytest.approx([0.205])


def test_pairs():
    # positions 0 to 4 are examined, 1 and 3 are clicked; the cells of the adjacent pairs are (0, 1), (2, 3)
    clicks = [False, True, False, True, False, False]
    assert examined(clicks) == 5
    assert all_pairs(clicks) == {(1, 0), (1, 2), (1, 4), (3, 0), (3, 2), (3, 4)}
    assert adjacent_pairs(clicks) == {(1, 0), (3, 2)}
    assert matchings(clicks) == {
        frozenset({(1, a), (3, b)}): Fraction(1, 6) for a in (0, 2, 4) for b in (0, 2, 4) if a != b
    }
    assert matchings([True, True, False, True]) == {frozenset({(winner, 2)}): Fraction(1, 3) for winner in (0, 1, 3)}
