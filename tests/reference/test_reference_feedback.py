"""Pairs from clicks by hand, and what all three ways must share."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import pytest

from tests.reference.feedback import adjacent_pairs, all_pairs, examined, matchings

pytestmark = pytest.mark.slow  # the oracle itself; the tests of the package compare with it


def clicks(text: str) -> list[bool]:
    """'x' is a click, '.' is none."""
    return [c == "x" for c in text]


@pytest.mark.parametrize(
    ("pattern", "count"),
    [("....", 0), ("x...", 2), (".x..", 3), ("x.x.", 4), ("...x", 4), ("xxxx", 4), ("x", 1), ("", 0)],
)
def test_examined_reaches_one_below_the_last_click(pattern, count):
    assert examined(clicks(pattern)) == count


def test_pairs_by_hand():
    # . x . x . . : positions 0 to 4 are examined, 1 and 3 are clicked
    pattern = clicks(".x.x..")
    assert all_pairs(pattern) == {(1, 0), (1, 2), (1, 4), (3, 0), (3, 2), (3, 4)}
    assert adjacent_pairs(pattern) == {(1, 0), (3, 2)}  # cells (0, 1), (2, 3); 5 is not examined
    assert matchings(pattern) == {
        frozenset({(1, a), (3, b)}): Fraction(1, 6) for a in (0, 2, 4) for b in (0, 2, 4) if a != b
    }


def test_adjacent_needs_both_examined():
    assert adjacent_pairs(clicks("..x.")) == {(2, 3)}
    assert adjacent_pairs(clicks("xx..")) == set()  # 2 is examined, but its cell is (2, 3)
    assert adjacent_pairs(clicks("x.x")) == {(0, 1)}  # the last cell has one document


def test_matching_with_more_clicks_than_others():
    assert matchings(clicks("xx.x")) == {frozenset({(winner, 2)}): Fraction(1, 3) for winner in (0, 1, 3)}


@pytest.mark.parametrize("pattern", ["....", "xxxx", "x", "."])
def test_no_contrast_yields_no_pair(pattern):
    assert all_pairs(clicks(pattern)) == set()
    assert adjacent_pairs(clicks(pattern)) == set()
    assert matchings(clicks(pattern)) == {frozenset(): 1}


def test_every_choice_is_part_of_all_and_the_independent_ones_are_disjoint():
    for pattern in product([False, True], repeat=6):
        everything = all_pairs(pattern)
        assert len(everything) <= 9
        matched = matchings(pattern)
        assert sum(matched.values()) == 1
        for chosen in [adjacent_pairs(pattern), *matched]:
            assert chosen <= everything
            assert len({position for pair in chosen for position in pair}) == 2 * len(chosen)
        winners, losers = {i for i, _ in everything}, {j for _, j in everything}
        assert {len(chosen) for chosen in matched} == {min(len(winners), len(losers))}


def test_matching_uses_every_pair_equally_often():
    for pattern in product([False, True], repeat=6):
        everything = all_pairs(pattern)
        chances = {pair: sum(p for chosen, p in matchings(pattern).items() if pair in chosen) for pair in everything}
        longer = max(len({i for i, _ in everything}), len({j for _, j in everything}))
        assert all(chance == Fraction(1, longer) for chance in chances.values())
