"""The rounds of counterfactual online learning to rank, by hand."""

from __future__ import annotations

from math import exp, log, sqrt

import numpy as np
import pytest

from tests.reference.coltr import losses, propensities, risk, risks, step
from tests.reference.plackett_luce import probability

pytestmark = pytest.mark.slow  # the oracle itself; the tests of the package compare with it

X, Y = np.eye(2)


@pytest.mark.parametrize(
    ("clicks", "expected"),
    [
        ([False, True, False, True, False], [1, 0, 1, 0, 0]),
        ([True, True, False, False], [0, 0, 0, 0]),
        ([False, False], [0, 0]),
        ([False, False, True], [1, 1, 0]),
    ],
)
def test_a_document_that_was_passed_over_is_a_loss(clicks, expected):
    assert losses(clicks) == expected


def test_propensities():
    scores = [log(1), log(2), log(5)]
    assert propensities(scores, [2, 0], renormalise=False) == pytest.approx([5 / 8, 1 / 8])
    assert propensities(scores, [2, 0], renormalise=True) == pytest.approx([5 / 8, 1 / 3])
    assert np.prod(propensities(scores, [1, 0, 2], renormalise=True)) == pytest.approx(probability([1, 0, 2], scores))


def test_risk():
    assert risk([1, 0, 0, 1], [0.2] * 4, [0.2] * 4, penalty=0) == 1 / 2
    assert risk([1, 0, 0, 1], [0.2] * 4, [0.2] * 4, penalty=1) == 1 / 2 + sqrt(1 / 4 / 4)
    # weights 2 and 1: R = 2/3, V = (4/9 + 4/9) / 5
    assert risk([1, 0], [0.4, 0.1], [0.2, 0.1], penalty=3) == pytest.approx(2 / 3 + 3 * sqrt(8 / 45 / 2))


def test_a_candidate_that_moves_the_clicked_document_up_has_less_risk():
    documents = [np.array([1.0, 0.0]), np.array([0.0, 1.0])]
    theta = np.zeros(2)
    found = risks([theta, theta + Y, theta + X, theta], documents, [0, 1], [False, True], 0.0, renormalise=False)
    assert found == pytest.approx([1 / 2, 1 / (1 + exp(1)), exp(1) / (1 + exp(1)), 1 / 2])


def test_step():
    moved, rate = step(X, 0.5, [X, Y, -X], [1.0, 0.9, 1.0, 0.2], 0.5, 0.1)
    assert (moved.tolist(), rate) == ([1, 0], 0.25)
    moved, rate = step(X, 0.15, [X, Y, -X], [1.0, 1.1, 0.9, 1.0], 0.5, 0.1)
    assert (moved.tolist(), rate) == ([1, 0.15], 0.1)
    assert step(X, 0.5, [Y], [0.3, 0.3], 0.5, 0.1) == (X, 0.5)
