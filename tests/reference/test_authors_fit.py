"""The fit of the released code of olRankNet, by its definition: the first steps of Adam, and what makes a batch."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from tests.reference import authors_fit as reference
from tests.reference.authors_fit import ClickedList, Layer, Pair

RATE, L2, DELTA = 0.01, 0.3, 1e-6
LISTS = [
    ClickedList(np.random.default_rng(1).random((4, 3)), (False, True, False, False)),
    ClickedList(np.random.default_rng(2).random((4, 3)), (True, False, True, False)),
]
PAIRS = [Pair(0, 1, 0), Pair(1, 0, 1), Pair(1, 2, 3)]


def layers() -> list[Layer]:
    random = np.random.default_rng(0)
    return [(random.normal(size=(n, m)), random.normal(size=n)) for m, n in pairwise([3, 5, 1])]


def loss(parts: list[Layer], lambdarank: bool) -> float:
    """The mean cross-entropy of all pairs, weighted by |delta NDCG| at the layers of the start, and the penalty."""
    total = 0.0
    for pair in PAIRS:
        each = LISTS[pair.number]
        values = reference.scores(parts, each.documents)
        weight = reference.swap_weight(each, reference.scores(layers(), each.documents), pair) if lambdarank else 1.0
        total += weight * np.log1p(np.exp(values[pair.loser] - values[pair.winner]))
    penalty = sum(float((array**2).sum()) for part in parts for array in part)
    return total / len(PAIRS) + L2 / len(PAIRS) / 2 * penalty


@pytest.mark.parametrize("lambdarank", [False, True])
def test_the_first_step_goes_against_the_sign_of_the_gradient(lambdarank):
    moved = reference.fit(layers(), LISTS, PAIRS, [[[0, 1, 2]]], RATE, L2, lambdarank)
    for number, side in ((0, 0), (0, 1), (1, 0), (1, 1)):
        before = layers()[number][side]
        for place in np.ndindex(before.shape):
            beside = []
            for step in (DELTA, -DELTA):
                parts = layers()
                parts[number][side][place] += step
                beside.append(loss(parts, lambdarank))
            slope = (beside[0] - beside[1]) / (2 * DELTA)
            assert abs(slope) > 1e-4, "its sign is known"
            assert moved[number][side][place] - before[place] == pytest.approx(-RATE * np.sign(slope), abs=1e-5)


def test_a_last_batch_below_half_is_left_out_by_ollambdarank():
    assert reference.batches(range(9), 4, False) == [[0, 1, 2, 3], [4, 5, 6, 7], [8]]
    assert reference.batches(range(9), 4, True) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert reference.batches(range(6), 4, True) == [[0, 1, 2, 3], [4, 5]]
    assert reference.batches(range(1), 4, True) == [[0]], "it is the only one"
