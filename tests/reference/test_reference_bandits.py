"""The bandits that keep an index or a relation for each query, by hand."""

from __future__ import annotations

from math import exp, inf, log, sqrt

import numpy as np
import pytest

from tests.reference.cascade_bandits import CascadeBandit, kl, kl_ucb, observed, ucb1
from tests.reference.cascade_linear import CascadeLinear
from tests.reference.toprank import C, TopRank


def test_examined_places():
    numbers = [observed([0, 1, 0, 1, 0], feedback) for feedback in ("first_click", "last_click", "all")]
    assert numbers == [2, 4, 5]


def test_counts_and_the_index_of_ucb1():
    bandit = CascadeBandit(4, "first_click", ucb1)
    bandit.learn([2, 0, 1], [0, 1, 1])
    bandit.learn([3, 2, 0], [0, 0, 0])
    assert (bandit.count, bandit.clicks, bandit.t) == ([2, 0, 2, 1], [1, 0, 0, 0], 3)
    expected = [0.5 + sqrt(1.5 * log(3) / 2), inf, sqrt(1.5 * log(3) / 2), sqrt(1.5 * log(3))]
    assert bandit.scores() == pytest.approx(expected)


def test_the_index_of_kl_ucb_is_a_root():
    assert 10 * kl(0.3, kl_ucb(3, 10, 50)) == pytest.approx(log(50) + 3 * log(log(50)))
    assert kl_ucb(0, 5, 40, c=0) == pytest.approx(1 - exp(-log(40) / 5))


def test_cascade_linear():
    """One feature: M = 1 + (4 + 9) / 4, b = 3."""
    bandit = CascadeLinear(1, 2.0, "first_click")
    bandit.learn([np.array([2.0]), np.array([3.0]), np.array([5.0])], [0, 1, 1])
    assert bandit.precision() == pytest.approx(4.25)
    assert bandit.theta() == pytest.approx(3 / 4.25 / 4)
    assert bandit.bounds([np.array([0.5])], 0.1) == pytest.approx([0.5 * 3 / 17 + 0.1 * 0.5 / 4.25**0.5])
    assert bandit.drawn([np.array([2.0])], np.array([0.3])) == pytest.approx([2 * (3 / 17 + 0.3 / 4.25**0.5)])


def test_the_constant_of_toprank():
    assert pytest.approx(3.344, abs=5e-4) == C


def test_sums_of_toprank():
    ranker = TopRank(3, 1e-9)
    ranker.learn([[0, 1, 2]], {0: 1, 1: 0, 2: 1})
    ranker.learn([[0, 1, 2]], {0: 0, 1: 1, 2: 1})
    ranker.learn([[2], [0, 1]], {2: 1, 0: 1, 1: 0})  # 2 is in a block of its own: its click says nothing
    assert {pair: ranker.s[pair] for pair in [(0, 1), (0, 2), (1, 2)]} == {(0, 1): 1, (0, 2): -1, (1, 2): -1}
    assert {pair: ranker.n[pair] for pair in [(0, 1), (0, 2), (1, 2)]} == {(0, 1): 3, (0, 2): 1, (1, 2): 1}


def test_a_pair_is_decided_in_the_first_round_that_the_bound_allows():
    # 0 is always clicked and 1 never: after n rounds S = N = n
    rounds = next(n for n in range(1, 1000) if n >= sqrt(2 * n * log(C * sqrt(n) / 0.01)))
    ranker = TopRank(2, 0.01)
    for t in range(1, rounds + 1):
        ranker.learn([[0, 1]], {0: 1, 1: 0})
        assert ranker.worse == ({(1, 0)} if t == rounds else set())


def test_layers_of_toprank():
    # 1 and 2 are worse than 0, 3 is worse than 1 only: the third layer waits for 1, and 4 is free
    assert TopRank(5, 0.1, worse={(1, 0), (2, 0), (3, 1)}).partition() == [[0, 4], [1, 2], [3]]
    cycle = TopRank(5, 0.1, worse={(1, 0), (2, 1), (3, 2), (2, 3), (4, 3)})
    assert cycle.partition() == [[0], [1], [2, 3, 4]]
