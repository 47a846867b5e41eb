"""olLambdaRank by hand, against the closed form of |delta NDCG|, and against olRankNet where that is 1."""

from __future__ import annotations

from math import log2

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from tests.reference import ollambdarank, olranknet
from tests.reference.metrics import ndcg
from tests.reference.network import antisymmetric, flat, score, scores, unflat
from tests.reference.objective import sigmoid
from tests.reference.ollambdarank import Round, fit, from_clicks, from_labels, gradient, order_by_score, swap_effect
from tests.reference.test_reference_network import halves, network

pytestmark = pytest.mark.slow  # the oracle itself; the tests of the package compare with it

REDUCTIONS = ["sum", "mean"]


def rounds(seed: int) -> list[Round]:
    """Two served rounds, one of them with a part of its pairs, and a query with labels."""
    documents = np.random.default_rng(seed).normal(size=(3, 5, 4))
    return [
        from_clicks(documents[0], (False, True, False, True, False), [(1, 0), (3, 2)]),
        from_clicks(documents[1, :3], (True, False, False), [(0, 1)]),
        from_labels(documents[2, :4], (0, 2, 1, 2)),
    ]


def test_grades_and_pairs():
    documents = np.zeros((3, 1))
    assert from_clicks(documents, (True, False, True), [(2, 1)]).grades == (1, 0, 1)
    assert from_clicks(documents, (True, False, True), [(2, 1)]).pairs == ((2, 1),)
    assert from_labels(documents, (1, 0, 4)).pairs == ((0, 1), (2, 0), (2, 1))
    assert from_labels(documents, (1, 0, 4)).grades == (1, 0, 4)
    assert from_labels(documents, (2, 2, 2)).pairs == ()
    assert from_labels(documents[:1], (3,)).pairs == ()


def test_ties_stay_in_the_order_shown():
    assert order_by_score([1.0, 2.0, 1.0, 2.0]) == [1, 3, 0, 2]
    assert order_by_score([0.0] * 4) == [0, 1, 2, 3]


def test_swap_effect_by_hand():
    # one click, scored last of two: 1 / log2(3) now, 1 after the exchange, 1 is ideal
    assert swap_effect((0, 1), [1.0, 0.0], (1, 0)) == pytest.approx(1 - 1 / log2(3))
    # clicks on places 0 and 3; scores rank 2 > 3 > 0 > 1; exchanged: ranks 3 (click) and 1
    ideal = 1 + 1 / log2(3)
    assert swap_effect((1, 0, 0, 1), [1.0, 0.0, 3.0, 2.0], (0, 2)) == pytest.approx((1 - 1 / log2(4)) / ideal)
    # labels 4 and 1 have gains 15 and 1, on ranks 2 and 1
    assert swap_effect((4, 1), [0.0, 1.0], (0, 1)) == pytest.approx(14 * (1 - 1 / log2(3)) / (15 + 1 / log2(3)))


def test_ranks_are_those_of_the_scores_and_of_the_order_shown_only_among_ties():
    clicks = (0, 0, 1)
    assert swap_effect(clicks, [0.0, 0.0, 0.0], (2, 0)) == pytest.approx(1 - 1 / log2(4))
    assert swap_effect(clicks, [0.0, 0.0, 0.0], (2, 1)) == pytest.approx(1 / log2(3) - 1 / log2(4))
    assert swap_effect(clicks, [0.0, 1.0, 2.0], (2, 0)) == pytest.approx(1 - 1 / log2(4))
    assert swap_effect(clicks, [0.0, 1.0, 2.0], (2, 1)) == pytest.approx(1 - 1 / log2(3))


@pytest.mark.parametrize("k", [None, 1, 3, 10])
def test_swap_effect_is_the_closed_form(k):
    rng = np.random.default_rng(0)
    for _ in range(30):
        grades = rng.integers(0, 4, size=6).tolist()
        if not any(grades):
            continue
        values = rng.integers(0, 4, size=6).astype(float).tolist()  # with ties
        discount = [1 / log2(rank + 1) if k is None or rank <= k else 0.0 for rank in range(1, 7)]
        ideal = sum((2**g - 1) * d for g, d in zip(sorted(grades, reverse=True), discount, strict=True))
        rank = np.argsort(np.argsort(-np.array(values), kind="stable"), kind="stable")
        for i in range(6):
            for j in range(6):
                written = abs((2 ** grades[i] - 2 ** grades[j]) * (discount[rank[i]] - discount[rank[j]])) / ideal
                assert swap_effect(grades, values, (i, j), k) == pytest.approx(written, abs=1e-12)


def test_swap_effect_is_a_difference_of_ndcg_within_zero_and_one():
    grades, values = [1, 0, 3, 0, 2], [0.1, 0.5, -1.0, 2.0, 0.3]
    for pair, other in [((2, 3), [2, 1, 4, 0, 3]), ((0, 1), [3, 0, 4, 1, 2]), ((4, 4), [3, 1, 4, 0, 2])]:
        moved = abs(ndcg(other, grades, 5) - ndcg([3, 1, 4, 0, 2], grades, 5))
        assert 0 <= moved <= 1
        assert swap_effect(grades, values, pair) == pytest.approx(moved)
        assert swap_effect(grades, values, pair[::-1]) == pytest.approx(moved)


def test_nothing_to_gain():
    assert swap_effect((0, 0, 0), [1.0, 2.0, 3.0], (0, 1)) == 0
    assert swap_effect((1, 1, 0), [1.0, 2.0, 3.0], (0, 1)) == 0
    assert swap_effect((1, 0, 0), [1.0, 2.0, 3.0], (1, 0), k=1) == 0  # ranks 2 and 3


def test_gradient_by_hand():
    # m = 1: f = w max(W x, 0) is 2 and 6, the click is on the first, which is ranked second
    weights, initial = [np.array([[1.0]]), np.array([2.0])], [np.array([[0.5]]), np.array([4.0])]
    served = from_clicks(np.array([[1.0], [3.0]]), (True, False), [(0, 1)])
    slope = (1 - 1 / log2(3)) * (sigmoid(-4) - 1) * np.array([-4.0, -2.0])
    assert gradient(weights, initial, [served], 0.0, "mean") == pytest.approx(slope)
    penalty = 0.1 * np.array([0.5, -2.0])
    assert gradient(weights, initial, [served, served], 0.1, "sum") == pytest.approx(2 * slope + penalty)
    assert gradient(weights, initial, [served, served], 0.1, "mean") == pytest.approx(slope + penalty)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_where_every_exchange_counts_the_same_it_is_olranknet(monkeypatch, reduction):
    monkeypatch.setattr(ollambdarank, "swap_effect", lambda *_: 1.0)
    weights, initial, learned = network(1, 2), network(2, 2), rounds(1)
    winners = np.array([each.documents[i] for each in learned for i, _ in each.pairs])
    losers = np.array([each.documents[j] for each in learned for _, j in each.pairs])
    labels = np.ones(2 + 1 + 5)
    same = olranknet.gradient(weights, initial, winners, losers, labels, 0.1, reduction)
    assert gradient(weights, initial, learned, 0.1, reduction) == pytest.approx(same)
    moved = olranknet.fit(weights, initial, winners, losers, labels, 0.1, reduction, 1e-3, 3)
    assert flat(fit(weights, initial, learned, 0.1, reduction, 1e-3, 3)) == pytest.approx(flat(moved))


@pytest.mark.parametrize(("reduction", "divisor"), [("sum", 1), ("mean", 8)])
def test_gradient_is_the_slope_with_the_ranks_held_fixed(reduction, divisor):
    weights, learned = network(3, 2), rounds(2)
    weights = unflat(0.3 * flat(weights), weights)
    effects = [
        [swap_effect(each.grades, scores(weights, each.documents), pair) for pair in each.pairs] for each in learned
    ]

    def held(theta):
        total, moved = 0.0, unflat(theta, weights)
        for each, known in zip(learned, effects, strict=True):
            for (i, j), effect in zip(each.pairs, known, strict=True):
                f = score(moved, each.documents[i]) - score(moved, each.documents[j])
                total += effect * np.logaddexp(0.0, -f)
        return total / divisor

    slopes = approx_fprime(flat(weights), held, 1e-7)
    assert gradient(weights, weights, learned, 0.1, reduction) == pytest.approx(slopes, abs=2e-5)


def test_documents_without_a_pair_still_take_ranks():
    documents = np.array([[1.0], [3.0], [2.0]])
    weights = [np.array([[1.0]]), np.array([1.0])]
    alone = gradient(weights, weights, [from_clicks(documents[:2], (True, False), [(0, 1)])], 0.0, "mean")
    among = gradient(weights, weights, [from_clicks(documents, (True, False, False), [(0, 1)])], 0.0, "mean")
    assert among == pytest.approx(alone * (1 - 1 / log2(4)) / (1 - 1 / log2(3)))


def test_every_step_ranks_anew():
    start, learned = antisymmetric(halves(4, 2)), rounds(3)
    once = fit(start, start, learned, 0.1, "mean", 0.05, 1)
    shown = [list(range(len(each.grades))) for each in learned]
    assert [order_by_score(scores(start, each.documents)) for each in learned] == shown
    assert [order_by_score(scores(once, each.documents)) for each in learned] != shown
    twice = fit(start, start, learned, 0.1, "mean", 0.05, 2)
    moved = flat(once) - flat(start) - 0.05 * gradient(once, start, learned, 0.0, "mean")
    assert flat(twice) == pytest.approx(flat(start) + moved / (1 + 0.05 * 6 * 0.1))


def test_the_cutoff_reaches_the_gradient_and_the_fit():
    weights, learned = network(5, 2), rounds(4)
    assert gradient(weights, weights, learned, 0.0, "sum", 5) == pytest.approx(
        gradient(weights, weights, learned, 0.0, "sum")
    )
    assert gradient(weights, weights, learned, 0.0, "sum", 1) != pytest.approx(
        gradient(weights, weights, learned, 0.0, "sum")
    )
    step = flat(weights) - 1e-3 * gradient(weights, weights, learned, 0.0, "mean", 1)
    assert flat(fit(weights, weights, learned, 0.0, "mean", 1e-3, 1, 1)) == pytest.approx(step)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_rounds_without_pairs_teach_nothing(reduction):
    start, documents = network(6, 2), np.random.default_rng(5).normal(size=(3, 4))
    empty = [
        from_labels(documents, (1, 1, 1)),
        from_labels(documents[:1], (2,)),
        from_clicks(documents, (False,) * 3, []),
    ]
    for learned in ([], empty):
        assert flat(fit(start, network(7, 2), learned, 0.1, reduction, 0.1, 3)).tolist() == flat(start).tolist()
    learned = rounds(5)
    there = gradient(start, start, learned, 0.1, reduction)
    assert gradient(start, start, learned + empty, 0.1, reduction) == pytest.approx(there)
