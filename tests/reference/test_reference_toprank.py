"""TopRank by hand, its layers, and what it learns from users of known taste."""

from __future__ import annotations

from math import log, sqrt

import numpy as np
import pytest

from tests.reference.toprank import C, TopRank

pytestmark = pytest.mark.slow  # the oracle itself; the tests of the package compare with it


def test_the_constant():
    assert pytest.approx(3.344, abs=5e-4) == C


def test_at_first_all_documents_are_one_block():
    assert TopRank(4, 0.1).partition() == [[0, 1, 2, 3]]


def test_sums_by_hand():
    ranker = TopRank(3, 1e-9)
    ranker.learn([[0, 1, 2]], {0: 1, 1: 0, 2: 1})
    ranker.learn([[0, 1, 2]], {0: 0, 1: 1, 2: 1})
    ranker.learn([[2], [0, 1]], {2: 1, 0: 1, 1: 0})  # 2 is in a block of its own: its click says nothing
    assert {pair: ranker.s[pair] for pair in [(0, 1), (0, 2), (1, 2)]} == {(0, 1): 1, (0, 2): -1, (1, 2): -1}
    assert {pair: ranker.n[pair] for pair in [(0, 1), (0, 2), (1, 2)]} == {(0, 1): 3, (0, 2): 1, (1, 2): 1}
    assert all(ranker.s[i, j] == -ranker.s[j, i] and ranker.n[i, j] == ranker.n[j, i] for i, j in ranker.s)
    assert ranker.s[1, 1] == ranker.n[1, 1] == 0


def test_documents_that_are_not_shown_count_as_not_clicked():
    ranker = TopRank(3, 1e-9)
    ranker.learn([[0, 1, 2]], {0: 1})
    assert ranker.s[0, 2] == ranker.s[0, 1] == 1
    assert ranker.n[1, 2] == 0


@pytest.mark.parametrize("delta", [0.5, 0.01, 1e-6])
def test_a_pair_is_decided_in_the_first_round_that_the_bound_allows(delta):
    # 0 is always clicked and 1 never: after n rounds S = N = n
    rounds = next(n for n in range(1, 1000) if n >= sqrt(2 * n * log(C * sqrt(n) / delta)))
    ranker = TopRank(2, delta)
    for t in range(1, rounds + 1):
        ranker.learn(ranker.partition(), {0: 1, 1: 0})
        assert ranker.worse == ({(1, 0)} if t == rounds else set())
    assert ranker.partition() == [[0], [1]]
    ranker.learn(ranker.partition(), {0: 0, 1: 1})  # across blocks nothing is counted any more
    assert ranker.n[0, 1] == rounds


def test_layers_of_a_partial_order():
    # 1 and 2 are worse than 0, 3 is worse than 1 only: the third layer waits for 1, and 4 is free
    ranker = TopRank(5, 0.1, worse={(1, 0), (2, 0), (3, 1)})
    assert ranker.partition() == [[0, 4], [1, 2], [3]]


def test_layers_are_no_connected_components():
    # (1 worse than 0) alone: 2 could belong anywhere and is put on top, although nothing says it is better than 1
    assert TopRank(3, 0.1, worse={(1, 0)}).partition() == [[0, 2], [1]]


def test_a_cycle_is_one_last_layer():
    ranker = TopRank(5, 0.1, worse={(1, 0), (2, 1), (3, 2), (2, 3), (4, 3)})
    assert ranker.partition() == [[0], [1], [2, 3, 4]]
    assert TopRank(2, 0.1, worse={(0, 1), (1, 0)}).partition() == [[0, 1]]


def serve(ranker: TopRank, attraction: list[float], examination: list[float], rng: np.random.Generator) -> None:
    """One round: blocks shuffled, the first places shown, clicked with examination x attraction."""
    blocks = ranker.partition()
    order = [document for block in blocks for document in rng.permutation(block).tolist()]
    shown = zip(order, examination, strict=False)
    ranker.learn(blocks, {d: int(rng.random() < seen * attraction[d]) for d, seen in shown})


def test_it_learns_to_put_attractive_documents_first():
    attraction = [0.1, 0.8, 0.2, 0.5, 0.05]
    ranker, rng = TopRank(5, 1 / 3000), np.random.default_rng(0)
    for _ in range(3000):
        serve(ranker, attraction, [1.0, 0.7, 0.5], rng)
    order = [document for block in ranker.partition() for document in block]
    assert ranker.partition()[:2] == [[1], [3]]
    assert order.index(2) < order.index(4)
    assert all(attraction[j] < attraction[i] for j, i in ranker.worse)


def test_equal_documents_are_separated_as_rarely_as_delta_allows():
    # Two ordered pairs, each wrong at any time with probability at most delta
    runs, rounds, delta = 300, 200, 0.1
    rng = np.random.default_rng(1)
    wrong = 0
    for _ in range(runs):
        ranker = TopRank(2, delta)
        for _ in range(rounds):
            serve(ranker, [0.5, 0.5], [1.0, 0.5], rng)
        wrong += len(ranker.worse) > 0
    assert wrong / runs <= 2 * delta + 4 * sqrt(2 * delta * (1 - 2 * delta) / runs)
