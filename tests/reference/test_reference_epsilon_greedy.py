"""epsilon-greedy by hand, and over all permutations against a fresh uniform draw at every exploring place."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import permutations, product

import numpy as np
import pytest
from scipy.stats import chisquare

from tests.reference.epsilon_greedy import order

pytestmark = pytest.mark.slow  # tests of the oracle itself

SCORES = [0.5, 2.0, -1.0, 1.0]  # best first: 1, 3, 0, 2


def fresh_draws(scores, coins, placed=()):
    """The definition: every exploring place is uniform among the documents that are left."""
    if len(placed) == len(coins):
        return {placed: Fraction(1)}
    left = [document for document in range(len(scores)) if document not in placed]
    options = left if coins[len(placed)] else [max(left, key=lambda document: scores[document])]
    distribution = Counter()
    for document in options:
        for result, chance in fresh_draws(scores, coins, (*placed, document)).items():
            distribution[result] += chance / len(options)
    return dict(distribution)


@pytest.mark.parametrize(
    ("coins", "expected"),
    [
        ("....", (1, 3, 0, 2)),
        ("xxxx", (2, 1, 3, 0)),
        (".x..", (1, 2, 3, 0)),  # 1 by score; 2 is first in the permutation
        ("x.x.", (2, 1, 3, 0)),  # 2; 1 by score; 1 is gone, so 3 is next in the permutation
        ("..xx", (1, 3, 2, 0)),
    ],
)
def test_order_by_hand(coins, expected):
    flags = [coin == "x" for coin in coins]
    assert order(SCORES, flags, (2, 1, 3, 0), 4) == expected
    assert order(SCORES, flags, (2, 1, 3, 0), 2) == expected[:2]


def test_places_beyond_the_documents_are_not_filled():
    assert order([1.0, 0.0], [False] * 10, (0, 1), 10) == (0, 1)


def test_equal_scores_go_by_number():
    assert order([0.0, 1.0, 1.0], [False] * 3, (2, 1, 0), 3) == (1, 2, 0)


@pytest.mark.parametrize("coins", list(product([False, True], repeat=3)))
def test_one_permutation_is_as_good_as_a_draw_at_every_place(coins):
    for scores in (SCORES, [3.0, 2.0, 1.0]):
        shuffles = list(permutations(range(len(scores))))
        drawn = Counter(order(scores, coins, permutation, len(coins)) for permutation in shuffles)
        assert {result: Fraction(n, len(shuffles)) for result, n in drawn.items()} == fresh_draws(scores, coins)


def test_seeded_exploration_is_uniform_among_the_unranked():
    # At the third place, whatever the coins above it: 4 draws of 10 documents left 8.
    rng = np.random.default_rng(0)
    scores = rng.normal(size=10)
    ranks = Counter()
    for _ in range(8000):
        coins = [*(rng.random(2) < 0.5).tolist(), True]
        listed = order(scores, coins, rng.permutation(10).tolist(), 3)
        left = sorted(set(range(10)) - set(listed[:2]), key=lambda document: -scores[document])
        ranks[left.index(listed[2])] += 1
    assert chisquare([ranks[rank] for rank in range(8)]).pvalue > 1e-4
