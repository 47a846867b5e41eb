"""FairCo by hand, against FairExp's unfairness, and the regression in expectation."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tests.reference.exposure import coefficient, exposure, group_exposure, unfairness
from tests.reference.fairco import errors, gradient, loss, rerank

pytestmark = pytest.mark.slow  # tests of the oracle itself


def test_before_round_1_nothing_is_owed():
    assert errors([], [2.0, 1.0]) == [0.0, 0.0]


def test_errors_by_hand():
    # 3 rounds: A received 1 + 1.5 + 1, B .5 + 0 + .5. Merit 2 and 1: 3.5 / 2 - 1 / 1 = .75 is owed to B.
    history = [(1.0, 0.5), (1.5, 0.0), (1.0, 0.5)]
    assert errors(history, [2.0, 1.0]) == pytest.approx([0.0, 0.75])
    # as printed: 2 rounds, means 1.25 and .25
    assert errors(history[:2], [2.0, 1.0]) == pytest.approx([0.0, 2 * (1.25 / 2 - 0.25 / 1)])


def test_errors_are_differences_of_cumulative_sums_and_never_negative():
    rng = np.random.default_rng(0)
    for groups in (1, 2, 3):
        merit = rng.uniform(0.1, 2, groups)
        history = rng.uniform(0, 3, (40, groups))
        for t in range(1, 41):
            due = history[:t].sum(0) / merit
            assert errors(history[:t].tolist(), merit.tolist()) == pytest.approx(due.max() - due)


def test_two_groups_owe_each_other_the_unfairness_that_fairexp_bounds():
    # With beta = merit A / merit B, UF_t / merit A = E(A) / merit A - E(B) / merit B: what B is owed if positive
    rng, p = np.random.default_rng(1), exposure("log", 4)
    labels, groups = [2, 1, 0, 1], "AABB"
    merit = [1.5, 0.5]
    history: list[str] = []
    for _ in range(30):
        history.append("".join(rng.choice(["A", "B"], 4)))
        now = unfairness(history, p, coefficient("merit", labels, groups))[-1] / merit[0]
        exposures = [[group_exposure(shown, group, p) for group in "AB"] for shown in history]
        assert errors(exposures, merit) == pytest.approx([max(0.0, -now), max(0.0, now)])


def test_order_by_hand():
    estimates, group = [0.9, 0.5, 0.4, 0.4], [0, 0, 1, 1]
    assert rerank(estimates, group, [0.0, 3.0], gain=0.0) == (0, 1, 2, 3)
    assert rerank(estimates, group, [0.0, 3.0], gain=0.1) == (0, 2, 3, 1)  # .9, .5, .7, .7
    assert rerank(estimates, group, [0.0, 3.0], gain=1.0) == (2, 3, 0, 1)


def test_the_controller_brings_shares_of_exposure_together():
    # A is always more relevant, both are owed the same per merit: alone, UF grows; controlled, it does not
    p, estimates, group, merit = exposure("reciprocal", 2), [0.9, 0.8], [0, 1], [0.9, 0.8]
    for gain, fair in ((0.0, False), (0.1, True)):
        history: list[tuple[float, float]] = []
        for _ in range(200):
            order = rerank(estimates, group, errors(history, merit), gain)
            history.append((p[order.index(0)], p[order.index(1)]))
        assert (max(errors(history, merit)) < 2.0) is fair


def test_the_loss_is_unbiased():
    # Enumerate the clicks of three documents: E[r^2 + c/p (1 - 2 r)] = r^2 + R (1 - 2 r) = (r - R)^2 + R (1 - R)
    estimated, relevance, examined = [0.2, 0.7, -0.3], [0.5, 0.9, 0.1], [1.0, 0.5, 0.25]
    expected = 0.0
    for clicks in product([0, 1], repeat=3):
        probability = 1.0
        for c, big_r, p in zip(clicks, relevance, examined, strict=True):
            probability *= p * big_r if c else 1 - p * big_r
        expected += probability * loss(estimated, clicks, examined)
    squares = sum((r - big_r) ** 2 + big_r * (1 - big_r) for r, big_r in zip(estimated, relevance, strict=True))
    assert expected == pytest.approx(squares)


def test_the_loss_of_one_document_by_hand():
    assert loss([0.5], [0], [0.5]) == pytest.approx(0.25)
    assert loss([0.25], [1], [0.5]) == pytest.approx(0.0625 + 2 * 0.5)


def test_the_gradient_is_that_of_the_loss():
    rng = np.random.default_rng(2)
    features, weights = rng.normal(size=(5, 3)), rng.normal(size=3)
    clicks, examined = [1, 0, 0, 1, 1], exposure("reciprocal", 5)
    slope = gradient(weights, features, clicks, examined)
    for f in range(3):
        step = np.zeros(3)
        step[f] = 1e-6
        ahead, behind = (loss((features @ w).tolist(), clicks, examined) for w in (weights + step, weights - step))
        assert slope[f] == pytest.approx((ahead - behind) / 2e-6, rel=1e-6)


def test_the_gradient_vanishes_where_scores_are_clicks_over_propensity():
    features = np.eye(3)
    assert gradient(np.array([2.0, 0.0, 4.0]), features, [1, 0, 1], [0.5, 0.3, 0.25]) == pytest.approx(np.zeros(3))


def test_what_is_refused():
    with pytest.raises(ValueError, match=r"merit must be above 0 in every group, got \[1.0, 0.0\]"):
        errors([(1.0, 0.0)], [1.0, 0.0])
    with pytest.raises(ValueError, match="propensity must be above 0 for every shown document, got 0"):
        loss([0.5], [1], [0.0])
