"""The cascading bandits by hand: what counts as examined, the two indices, and users of the cascade model."""

from __future__ import annotations

from math import exp, inf, log, sqrt

import numpy as np
import pytest

from tests.reference.cascade_bandits import CascadeBandit, kl, kl_ucb, observed, ucb1

pytestmark = pytest.mark.slow  # the oracle itself; the tests of the package compare with it


@pytest.mark.parametrize(
    ("clicks", "first", "last"), [([0, 1, 0, 1, 0], 2, 4), ([0, 0, 0], 3, 3), ([1, 0, 0], 1, 1), ([0, 0, 1], 3, 3)]
)
def test_examined_places(clicks, first, last):
    numbers = [observed(clicks, feedback) for feedback in ("first_click", "last_click", "all")]
    assert numbers == [first, last, len(clicks)]


def test_counts_by_hand():
    bandit = CascadeBandit(4, "first_click", ucb1)
    assert bandit.scores() == [inf] * 4
    bandit.learn([2, 0, 1], [0, 1, 1])
    bandit.learn([3, 2, 0], [0, 0, 0])
    assert (bandit.count, bandit.clicks, bandit.t) == ([2, 0, 2, 1], [1, 0, 0, 0], 3)
    expected = [0.5 + sqrt(1.5 * log(3) / 2), inf, sqrt(1.5 * log(3) / 2), sqrt(1.5 * log(3))]
    assert bandit.scores() == pytest.approx(expected)


def test_the_index_of_kl_is_a_root():
    for clicks, count, t in (3, 10, 50), (0, 4, 7), (9, 10, 1000):
        assert count * kl(clicks / count, kl_ucb(clicks, count, t)) == pytest.approx(log(t) + 3 * log(log(t)))
    assert kl_ucb(0, 5, 40, c=0) == pytest.approx(1 - exp(-log(40) / 5))
    assert kl_ucb(1, 2, 1) == kl_ucb(1, 2, 2) == 0.5, "a budget below zero"
    assert kl_ucb(3, 3, 10) == 1


@pytest.mark.parametrize("index", [ucb1, kl_ucb])
def test_the_attractive_documents_end_at_the_top(index):
    """Users of the cascade model; two of six documents are attractive, two are shown."""
    rng, attraction = np.random.default_rng(0), [0.1, 0.7, 0.1, 0.1, 0.8, 0.1]
    bandit, best = CascadeBandit(6, "first_click", index), 0
    for t in range(4000):
        scores = bandit.scores()
        shown = sorted(range(6), key=lambda document: (-scores[document], rng.random()))[:2]
        clicks, left = [], False
        for document in shown:
            clicks.append(int(not left and rng.random() < attraction[document]))
            left = left or bool(clicks[-1])
        bandit.learn(shown, clicks)
        best += t >= 3000 and set(shown) == {1, 4}
    assert best > 900
