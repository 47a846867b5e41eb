"""Steps of PDGD, of the dueling bandits and their variants, and of the counterfactual rankers, by hand."""

from __future__ import annotations

from math import exp, log, sqrt

import numpy as np
import pytest

from tests.reference import coltr, dueling, pdgd
from tests.reference.document_space import examined, newest, project
from tests.reference.intervention_aware import (
    Estimator,
    expected,
    gradient,
    posterior,
    propensities,
    relevance_gradient,
)
from tests.reference.nsgd import LostDirections, StoredQueries, null_space_direction, preselected, winner

X, Y, Z = np.eye(3)


def test_pdgd():
    scores = [log(4), log(3), log(2), log(1)]  # shares 4 : 3 : 2 : 1 of 10
    # (2, 0, 3) is 2/10 * 4/8 * 1/4, (3, 0, 2) is 1/10 * 4/9 * 2/5
    shown, other = 2 / 10 * 4 / 8 * 1 / 4, 1 / 10 * 4 / 9 * 2 / 5
    rho = other / (shown + other)
    assert pdgd.debias_weight((2, 0, 3), scores, 0, 2) == pytest.approx(rho)
    weights = pdgd.pair_weights((2, 0, 3), (True, True, False), scores)
    assert set(weights) == {(2, 3), (0, 3)}
    assert weights[2, 3] == pytest.approx(rho * 2 * 1 / (2 + 1) ** 2)
    theta, rate = pdgd.step(np.zeros(2), 0.5, (0, 1), (False, True), np.eye(2), 0.9)
    assert theta == pytest.approx([-0.5 * 0.5 * 0.25, 0.5 * 0.5 * 0.25])  # rate, rho, 1/2 * 1/2
    assert rate == pytest.approx(0.45)


def test_dueling_bandits():
    assert dueling.unit(np.array([3.0, 0.0, -4.0])) == pytest.approx([0.6, 0.0, -0.8])
    assert [each.tolist() for each in dueling.members(X, 0.5, [Y, -Z])] == [[1, 0, 0], [1, 0.5, 0], [1, 0, -0.5]]
    assert dueling.winners([1, 2, 1, 0]) == [1]
    theta, rate = dueling.step(X, 0.1, [Y, Z, -Y], [1, 2, 5, 0], 0.9)  # the mean of all that beat the current ranker
    assert theta == pytest.approx([1, 0.05, 0.05])
    assert rate == pytest.approx(0.09)


def test_directions_that_lost():
    lost = LostDirections(room=6)
    lost.store([X] * 6, [4, 0, 1, 2, 3, 3, 5])  # 0 1 2 3 are the four least, and the other 3 is not more
    assert lost.values == [-4, -3, -2, -1, -1]
    lost.store([Y, Z], [2, 1, 0])
    assert (lost.values, lost.place) == ([-2, -3, -2, -1, -1, -1], 1)
    assert [direction.tolist() for direction in lost.worst(2)] == [[1, 0, 0], [1, 0, 0]]


def test_directions_of_the_null_space():
    assert null_space_direction(np.array([3.0, -4.0, 12.0]), [Z, 2 * Z]) == pytest.approx([0.6, -0.8, 0])
    documents = [np.array([1.0, 0, 0]), np.array([1.0, -8, 2])]  # mean 1 -4 1
    chosen = preselected([X, (X - Y) / 2, -Y, Z - X], documents, 2)
    assert [direction.tolist() for direction in chosen] == [[0, -1, 0], [0.5, -0.5, 0]]


def test_stored_queries():
    queries, documents = StoredQueries(room=2, window=5), [X, Y, Z]
    for round, clicks, stored_rounds in [
        (0, [0, 0, 0], []),
        (1, [0, 1, 0], [1]),  # 1/2
        (2, [1, 0, 1], [1, 2]),  # 1 + 1/3
        (3, [1, 1, 0], [1, 2]),  # 3/2 is easier than both
        (4, [1, 0, 0], [1, 4]),  # 1 replaces the easiest
        (7, [1, 1, 1], [7, 4]),  # easy, but the first is six rounds old
    ]:
        queries.store(documents, [2, 0, 1], clicks, round)
        assert [query.round for query in queries.queries] == stored_rounds, round
    stored = StoredQueries(room=3, window=50)
    stored.store([X, Y, Y, Z], [0, 1, 2, 3], [0, 0, 1, 1], 1)
    up, down = np.array([3.0, 2, 1]), np.array([1.0, 2, 3])
    assert stored.quality(up) == pytest.approx(1 / 2 + 1 / 4)  # equal documents share the better rank
    assert winner([1, 2, 3], [np.zeros(3), up, down, down], stored) == [2], "the first of equal ones"


def test_document_space_projection():
    assert examined([7, 3, 9, 4, 1], [0, 1, 0, 0, 0], 2) == [7, 3, 9, 4]
    assert newest([1, 2], [3, 4], 3) == [2, 3, 4]
    direction = np.array([3.0, 4.0, 12.0])
    assert project(direction, [X + Y, X - Y], normalise=False) == pytest.approx([3, 4, 0])
    assert project(direction, [X + Y, X - Y], normalise=True) == pytest.approx([0.6, 0.8, 0])


def test_counterfactual_online_learning_to_rank():
    assert coltr.losses([False, True, False, True, False]) == [1, 0, 1, 0, 0]
    scores = [log(1), log(2), log(5)]
    assert coltr.propensities(scores, [2, 0], renormalise=False) == pytest.approx([5 / 8, 1 / 8])
    assert coltr.propensities(scores, [2, 0], renormalise=True) == pytest.approx([5 / 8, 1 / 3])
    # weights 2 and 1: R = 2/3, V = (4/9 + 4/9) / 5
    assert coltr.risk([1, 0], [0.4, 0.1], [0.2, 0.1], penalty=3) == pytest.approx(2 / 3 + 3 * sqrt(8 / 45 / 2))
    risks = coltr.risks([0 * X, Y, X], [X, Y], [0, 1], [False, True], 0.0, renormalise=False)
    assert risks == pytest.approx([1 / 2, 1 / (1 + exp(1)), exp(1) / (1 + exp(1))])
    moved, rate = coltr.step(X, 0.15, [X, Y, -X], [1.0, 1.1, 0.9, 1.0], 0.5, 0.1)
    assert (moved.tolist(), rate) == ([1, 0.15, 0], 0.1)


def test_expectations_over_policies():
    scores = [log(1), log(2), log(5)]
    assert expected([[1, 0]], scores, [1.0, 0.6]) == pytest.approx([1 / 8 + 0.1, 2 / 8, 5 / 8 + 0.5])
    # document 1 at the only place: 2 ([document is 1] - p) times its reward of 1/2, p = 1/8, 2/8, 5/8
    assert gradient([[1]], scores, [0.5] * 3, [2.0]) == pytest.approx([0, 0, 0])
    assert gradient([[1]], scores, [0, 1.0, 0], [2.0]) == pytest.approx([-1 / 4, 0, -5 / 4])


def test_estimates_of_relevance_and_of_propensities():
    estimator = Estimator(2)
    estimator.add([0], [0.5, 0.1], [0.2, 0.1])
    estimator.add([], [0.3, 0.1], [0.2, 0.3])
    assert estimator.estimates(clip=2, rounds=100) == pytest.approx([0.6 / 0.8, -0.4 / 0.4])
    assert posterior(0.5, True, 0.6, 0.2) == pytest.approx(0.8)
    log_, flat = [([X[:1]], [True]), ([X[:1]], [True]), ([X[:1]], [False])], np.zeros(2)  # r = 1/2
    # relevant: clicks 1 + .8 + .8 of 1 + .8 + .8 + .2; others: .5 + .2 + .2 of 1 + .2 + .2 + .8
    ((alpha, beta),) = propensities(log_, flat, [0.6], [0.2])
    assert (alpha + beta, beta) == pytest.approx((2.6 / 2.8, 0.9 / 2.2))
    # alpha / (alpha r + beta) r (1 - r) (x, 1): .6 / .5 / 4
    assert relevance_gradient(log_[:1], flat, [0.6], [0.2]) == pytest.approx([0.3, 0.3])
