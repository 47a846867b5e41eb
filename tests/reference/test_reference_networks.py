"""Scores and gradients of networks against PyTorch; starts, slopes and steps by hand."""

from __future__ import annotations

from itertools import pairwise
from math import log2, sqrt

import numpy as np
import pytest
import torch

from tests.reference import ollambdarank, olranknet
from tests.reference.network import antisymmetric, flat, gradient, pair_gradient, score
from tests.reference.neural_steps import dueling_members, dueling_step, pdgd_step, sgd_ranknet_step
from tests.reference.objective import sigmoid
from tests.reference.p2neurrank import pull

START = antisymmetric([np.array([[1.0, 0.5]]), np.array([2.0])])  # scores everything 0
ONE_UNIT, INITIAL = [np.array([[1.0]]), np.array([2.0])], [np.array([[0.5]]), np.array([4.0])]


@pytest.mark.parametrize("hidden", [1, 2, 3])
def test_score_and_gradient_are_those_of_torch(hidden):
    rng = np.random.default_rng(hidden)
    sizes = [4] + [6] * hidden
    weights = [*(rng.normal(size=(out, into)) for into, out in pairwise(sizes)), rng.normal(size=6)]
    weights[0][0] = [1.0, -1.0, 0.0, 0.0]
    for x in rng.normal(size=4), np.array([2.0, 2.0, 0.3, -0.7]):  # the second is at the kink of the first unit
        with torch.inference_mode(False), torch.enable_grad():
            layers = [torch.tensor(layer, requires_grad=True) for layer in weights]
            h = torch.tensor(x)
            for layer in layers[:-1]:
                h = torch.relu(layer @ h)
            f = sqrt(6) * layers[-1] @ h
            slopes = torch.autograd.grad(f, layers)
        assert score(weights, x) == pytest.approx(float(f.detach()), abs=1e-11)
        expected = np.concatenate([slope.numpy().ravel() for slope in slopes])
        assert gradient(weights, x) == pytest.approx(expected, abs=1e-11)


def test_the_antisymmetric_start_by_hand():
    weights = antisymmetric([np.array([[1.0], [2.0]]), np.array([[3.0, 4.0], [5.0, 6.0]]), np.array([7.0, 8.0])])
    assert weights[0].tolist() == [[1], [2], [1], [2]]  # m = 4: sqrt(4/m) = 1
    assert weights[1].tolist() == [[3, 4, 0, 0], [5, 6, 0, 0], [0, 0, 3, 4], [0, 0, 5, 6]]
    assert weights[2] == pytest.approx(np.array([7, 8, -7, -8]) / sqrt(2))
    assert score(weights, np.array([0.3])) == 0


def test_olranknet_by_hand():
    """f = w max(W x, 0): 6 and 2, g_ij = (w x, W x) of the one minus that of the other. Two equal pairs."""
    sides = np.full((2, 1), 3.0), np.ones((2, 1)), np.ones(2)
    entropy, moved = (sigmoid(4) - 1) * np.array([4.0, 2.0]), np.array([0.5, -2.0])
    for reduction, pairs, l2 in ("sum", 2, 0.1 / 2), ("mean", 1, 0.1):
        slope = olranknet.gradient(ONE_UNIT, INITIAL, *sides, 0.1, reduction)
        assert slope == pytest.approx(pairs * entropy + 0.1 * moved), reduction
        stepped = olranknet.fit(ONE_UNIT, INITIAL, *sides, 0.1, reduction, 0.01, 1)
        assert flat(stepped) == pytest.approx([0.5, 4.0] + (moved - 0.01 * entropy) / (1 + 0.01 * l2)), reduction


def test_ollambdarank_by_hand():
    # clicks on places 0 and 3; scores rank 2 > 3 > 0 > 1; exchanged: ranks 3 (click) and 1
    effect = ollambdarank.swap_effect((1, 0, 0, 1), [1.0, 0.0, 3.0, 2.0], (0, 2))
    assert effect == pytest.approx((1 - 1 / log2(4)) / (1 + 1 / log2(3)))
    # labels 4 and 1 have gains 15 and 1, on ranks 2 and 1
    effect = ollambdarank.swap_effect((4, 1), [0.0, 1.0], (0, 1))
    assert effect == pytest.approx(14 * (1 - 1 / log2(3)) / (15 + 1 / log2(3)))
    # f is 2 and 6, the click is on the first, which is ranked second
    served = ollambdarank.from_clicks(np.array([[1.0], [3.0]]), (True, False), [(0, 1)])
    slope = (1 - 1 / log2(3)) * (sigmoid(-4) - 1) * np.array([-4.0, -2.0])
    found = ollambdarank.gradient(ONE_UNIT, INITIAL, [served, served], 0.1, "mean")
    assert found == pytest.approx(slope + 0.1 * np.array([0.5, -2.0]))
    assert ollambdarank.from_labels(np.zeros((3, 1)), (1, 0, 4)).pairs == ((0, 1), (2, 0), (2, 1))


def test_the_pull_of_p2neurrank_by_hand():
    assert pull(0.0, 0.3) == pytest.approx(0.5 - 1.3)
    assert pull(9.999, 0.7) == pytest.approx(sigmoid(9.999) - 1.7)
    assert pull(-10.0, 0.7) == pytest.approx(sigmoid(-10.0) - 1)


def test_single_steps_by_hand():
    """At the start every pair is won with probability 1/2, and all lists are equally likely: rho = 1/2."""
    documents = np.array([[1.0, 2.0], [3.0, -1.0], [0.5, 0.0]])
    pair = pair_gradient(START, documents[0], documents[2])
    assert np.abs(pair).max() > 0.1
    moved, rate = sgd_ranknet_step(START, 0.1, documents[:1], documents[2:], 0.9)
    assert flat(moved) - flat(START) == pytest.approx(0.1 * pair / 2)
    assert rate == pytest.approx(0.09)
    moved, rate = pdgd_step(START, 0.2, (2, 0), (False, True), documents, 0.9)
    assert flat(moved) - flat(START) == pytest.approx(0.2 * 0.5 * 0.25 * pair)
    assert rate == pytest.approx(0.18)


def test_dueling_steps_by_hand():
    weights, directions = [np.array([[1.0], [2.0]]), np.array([3.0, 4.0])], list(np.eye(4)[:3])
    assert flat(dueling_members(weights, 0.5, directions)[2]).tolist() == [1.0, 2.5, 3.0, 4.0]
    moved, rate = dueling_step(weights, 0.2, directions, [1, 2, 0, 3], 0.9)
    assert flat(moved) == pytest.approx([1.1, 2.0, 3.1, 4.0])
    assert rate == pytest.approx(0.18)
