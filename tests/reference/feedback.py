"""Pairs that clicks imply, in the three ways they are chosen.

Jia et al., PairRank (WWW 2021), Section 3.1 (what counts as examined), Section 3.2.1 (G_s and G_s^ind) and line 9 of
Algorithm 1. `matching` is not in the paper: it is the rule of the authors' code.

Positions count from 0 at the top; a pair is (position of the winner, position of the loser).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import permutations

Pair = tuple[int, int]


def examined(clicks: Sequence[bool]) -> int:
    """o_t, how many positions count as examined: those down to the last click and the first one after it.

    0 without a click, because then it is unknown how far the user read.
    """
    if not any(clicks):
        return 0
    last = max(position for position, clicked in enumerate(clicks) if clicked)
    return min(last + 2, len(clicks))


def all_pairs(clicks: Sequence[bool]) -> set[Pair]:
    """G_s: every clicked document beats every examined unclicked one, above it or below."""
    seen = range(examined(clicks))
    return {(i, j) for i in seen for j in seen if clicks[i] and not clicks[j]}


def adjacent_pairs(clicks: Sequence[bool]) -> set[Pair]:
    """G_s^ind with D = {(1, 2), (3, 4), ...}: the pairs of G_s that lie in one cell of D, which are disjoint."""
    return {(i, j) for i, j in all_pairs(clicks) if i // 2 == j // 2}


def matchings(clicks: Sequence[bool]) -> dict[frozenset[Pair], Fraction]:
    """Clicked and examined unclicked documents matched one-to-one at random: every possible set, equally likely.

    As many pairs as the smaller side has documents, so a set may be empty. Grows like the factorial: for at most 4
    documents on the smaller side or so.
    """
    seen = range(examined(clicks))
    clicked = [i for i in seen if clicks[i]]
    unclicked = [j for j in seen if not clicks[j]]
    if len(clicked) <= len(unclicked):
        possible = [frozenset(zip(clicked, chosen, strict=True)) for chosen in permutations(unclicked, len(clicked))]
    else:
        possible = [frozenset(zip(chosen, unclicked, strict=True)) for chosen in permutations(clicked, len(unclicked))]
    return {pairs: Fraction(1, len(possible)) for pairs in possible}
