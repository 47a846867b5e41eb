"""What the intervention-aware ranker estimates, by hand and by differences."""

from __future__ import annotations

from math import log

import numpy as np
import pytest

from tests.reference.intervention_aware import (
    Estimator,
    at_next_place,
    expected,
    gradient,
    posterior,
    propensities,
    relevance_gradient,
)
from tests.reference.objective import sigmoid

pytestmark = pytest.mark.slow  # the oracle itself; the tests of the package compare with it

SCORES = [log(1), log(2), log(5)]


def test_probabilities_of_the_next_place():
    assert at_next_place([], SCORES) == pytest.approx([1 / 8, 2 / 8, 5 / 8])
    assert at_next_place([1], SCORES) == pytest.approx([1 / 6, 0, 5 / 6])
    assert at_next_place([1, 0, 2], SCORES) == [0, 0, 0]


def test_expectations_of_places():
    assert expected([[1, 0]], SCORES, [1.0, 0.6]) == pytest.approx([1 / 8 + 0.1, 2 / 8, 5 / 8 + 0.5])
    assert expected([[1], [2]], SCORES, [1.0]) == pytest.approx([1 / 8, 2 / 8, 5 / 8])


def test_the_gradient_of_one_place_is_that_of_a_softmax():
    reward = [0.3, -0.2, 1.0]
    mean = 0.3 / 8 - 0.4 / 8 + 5 / 8
    lists, chances = [[0], [1], [2]], [1 / 8, 2 / 8, 5 / 8]
    found = [0.0] * 3
    for shown, chance in zip(lists, chances, strict=True):
        for document, slope in enumerate(gradient([shown], SCORES, reward, [2.0])):
            found[document] += chance * slope
    assert found == pytest.approx([2 * p * (r - mean) for p, r in zip(chances, reward, strict=True)])


def test_estimates():
    estimator = Estimator(2)
    estimator.add([0], [0.5, 0.1], [0.2, 0.1])
    estimator.add([], [0.3, 0.1], [0.2, 0.3])
    assert estimator.estimates(clip=0, rounds=2) == pytest.approx([0.6 / 0.8, -0.4 / 0.2])
    assert estimator.estimates(clip=2, rounds=100) == pytest.approx([0.6 / 0.8, -0.4 / 0.4])
    assert estimator.estimates(clip=20, rounds=100) == pytest.approx([0.6 / 2, -0.4 / 2])


def test_propensities():
    assert posterior(0.5, True, 0.6, 0.2) == pytest.approx(0.8)
    assert posterior(0.5, False, 0.6, 0.2) == pytest.approx(0.2)
    flat = np.array([0.0, 0.0])  # r = 1/2
    x = np.array([1.0])
    log = [([x], [True]), ([x], [True]), ([x], [False])]
    # relevant: clicks 1 + .8 + .8 of 1 + .8 + .8 + .2; others: .5 + .2 + .2 of 1 + .2 + .2 + .8
    ((alpha, beta),) = propensities(log, flat, [0.6], [0.2])
    assert (alpha + beta, beta) == pytest.approx((2.6 / 2.8, 0.9 / 2.2))


def test_the_gradient_of_relevance_is_that_of_the_likelihood():
    rows, clicks = [np.array([0.3, -1.0]), np.array([2.0, 0.5])], [True, False]
    alpha, beta, weights = [0.5, 0.4], [0.2, 0.1], np.array([0.4, -0.3, 0.1])

    def likelihood(weights):
        total = 0.0
        for place, (x, clicked) in enumerate(zip(rows, clicks, strict=True)):
            p = alpha[place] * sigmoid(float(weights @ np.append(x, 1))) + beta[place]
            total += log(p if clicked else 1 - p)
        return total / 2

    found = relevance_gradient([(rows, clicks)], weights, alpha, beta)
    for number, step in enumerate(np.eye(3) * 1e-6):
        slope = (likelihood(weights + step) - likelihood(weights - step)) / 2e-6
        assert found[number] == pytest.approx(slope, abs=1e-8)
