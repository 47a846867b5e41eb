"""The network by hand, its gradient against torch and differences, and the start that scores everything 0."""

from __future__ import annotations

from itertools import pairwise
from math import sqrt

import numpy as np
import pytest
import torch

from tests.reference.network import (
    antisymmetric,
    flat,
    gradient,
    hidden_layers,
    pair_gradient,
    score,
    scores,
    unflat,
)

pytestmark = pytest.mark.slow  # the oracle itself; the tests of the package compare with it

DEPTHS = [1, 2, 3]  # hidden layers


def network(seed: int, hidden: int, features: int = 4, m: int = 6):
    """Random weights."""
    rng = np.random.default_rng(seed)
    sizes = [features] + [m] * hidden
    return [*(rng.normal(size=(out, into)) for into, out in pairwise(sizes)), rng.normal(size=m)]


def halves(seed: int, hidden: int, features: int = 4, m: int = 6):
    """Standard normals for `antisymmetric`."""
    return network(seed, hidden, features, m // 2)


def test_flat_is_row_by_row_from_the_first_layer_up():
    weights = [np.array([[1, 2], [3, 4]]), np.array([[5, 6], [7, 8]]), np.array([9, 10])]
    assert flat(weights).tolist() == list(range(1, 11))


@pytest.mark.parametrize("hidden", DEPTHS)
def test_unflat_is_the_inverse_and_shares_nothing(hidden):
    weights = network(0, hidden)
    theta = flat(weights)
    assert len(theta) == 6 * 4 + 36 * (hidden - 1) + 6  # md + m^2 (L - 2) + m
    back = unflat(theta, weights)
    assert [layer.tolist() for layer in back] == [layer.tolist() for layer in weights]
    theta[:] = 0
    assert flat(back) == pytest.approx(flat(weights))
    with pytest.raises(ValueError, match=r"theta must have \d+ parameters, got 3"):
        unflat(np.zeros(3), weights)


def test_one_hidden_layer_by_hand():
    weights = [np.array([[1.0, -1.0], [2.0, 0.0]]), np.array([3.0, -1.0])]
    x = np.array([1.0, 2.0])  # into the ReLUs: -1 and 2
    assert hidden_layers(weights, x)[0].tolist() == [0, 2]
    assert score(weights, x) == pytest.approx(sqrt(2) * -2)
    #                                    W_1: the first unit is off, the second has w = -1;   w: the units
    assert gradient(weights, x) == pytest.approx(sqrt(2) * np.array([0, 0, -1, -2, 0, 2]))


def test_two_hidden_layers_by_hand():
    weights = [np.array([[1.0], [2.0]]), np.array([[1.0, 1.0], [3.0, -2.0]]), np.array([5.0, 7.0])]
    x = np.array([3.0])  # h_1 = (3, 6), into the second: 9 and -3, h_2 = (9, 0)
    assert score(weights, x) == pytest.approx(sqrt(2) * 45)
    # w: h_2; W_2: (5, 0) outer h_1; W_1: W_2^T (5, 0) = (5, 5), times x
    assert gradient(weights, x) == pytest.approx(sqrt(2) * np.array([15, 15, 15, 30, 0, 0, 9, 0]))


def test_scores_are_of_each_document_alone():
    weights, documents = network(1, 2), np.random.default_rng(1).normal(size=(3, 4))
    assert scores(weights, documents) == [score(weights, x) for x in documents]
    assert scores(weights, documents[:1]) == scores(weights, documents)[:1]
    assert scores(weights, documents[:0]) == []


def by_torch(weights, x):
    """f and its gradient from automatic differentiation."""
    with torch.inference_mode(False), torch.enable_grad():
        layers = [torch.tensor(layer, dtype=torch.float64, requires_grad=True) for layer in weights]
        h = torch.tensor(x, dtype=torch.float64)
        for layer in layers[:-1]:
            h = torch.relu(layer @ h)
        f = len(weights[-1]) ** 0.5 * layers[-1] @ h
        slopes = torch.autograd.grad(f, layers)
    return float(f.detach()), np.concatenate([slope.numpy().ravel() for slope in slopes])


@pytest.mark.parametrize("hidden", DEPTHS)
def test_score_and_gradient_agree_with_torch(hidden):
    rng = np.random.default_rng(2)
    for seed in range(10):
        weights, x = network(seed, hidden), rng.normal(size=4)
        f, slope = by_torch(weights, x)
        assert score(weights, x) == pytest.approx(f, abs=1e-11)
        assert gradient(weights, x) == pytest.approx(slope, abs=1e-11)
        assert np.abs(slope).max() > 0.1


@pytest.mark.parametrize("hidden", DEPTHS)
def test_gradient_agrees_with_torch_at_the_start_and_where_a_relu_is_at_zero(hidden):
    start, weights = antisymmetric(halves(3, hidden)), network(3, hidden)
    weights[0][0] = [1.0, -1.0, 0.0, 0.0]
    kink = np.array([2.0, 2.0, 0.3, -0.7])
    assert weights[0][0] @ kink == 0
    for network_, x in [(start, kink), (weights, kink), (weights, np.zeros(4)), (start, np.zeros(4))]:
        assert gradient(network_, x) == pytest.approx(by_torch(network_, x)[1], abs=1e-11)
    assert gradient(weights, kink)[:4].tolist() == [0, 0, 0, 0]
    assert not gradient(weights, np.zeros(4)).any()


@pytest.mark.parametrize("hidden", DEPTHS)
def test_gradient_agrees_with_differences(hidden):
    weights, x, h = network(4, hidden), np.array([0.5, -1.0, 2.0, 0.3]), 1e-6
    theta = flat(weights)
    slopes = [
        (score(unflat(theta + h * unit, weights), x) - score(unflat(theta - h * unit, weights), x)) / (2 * h)
        for unit in np.eye(len(theta))
    ]
    assert gradient(weights, x) == pytest.approx(slopes, abs=1e-6)


@pytest.mark.parametrize("hidden", DEPTHS)
def test_every_layer_times_its_own_gradient_is_the_score(hidden):
    # f is homogeneous of degree one in each layer (Euler)
    weights, x = network(5, hidden), np.array([0.5, -1.0, 2.0, 0.3])
    for layer, slope in zip(weights, unflat(gradient(weights, x), weights), strict=True):
        assert (layer * slope).sum() == pytest.approx(score(weights, x))
    assert score(weights, 3 * x) == pytest.approx(3 * score(weights, x))


@pytest.mark.parametrize("hidden", DEPTHS)
def test_renumbering_hidden_units_renumbers_the_gradient(hidden):
    weights, x, order = network(6, hidden), np.array([0.5, -1.0, 2.0, 0.3]), [3, 0, 5, 1, 4, 2]

    def renumber(layers):
        return [layers[0][order], *(layer[np.ix_(order, order)] for layer in layers[1:-1]), layers[-1][order]]

    assert score(renumber(weights), x) == pytest.approx(score(weights, x))
    assert gradient(renumber(weights), x) == pytest.approx(flat(renumber(unflat(gradient(weights, x), weights))))


def test_pair_gradient_is_the_difference_and_changes_sign():
    weights, (a, b) = network(7, 2), np.random.default_rng(7).normal(size=(2, 4))
    assert pair_gradient(weights, a, b) == pytest.approx(gradient(weights, a) - gradient(weights, b))
    assert pair_gradient(weights, a, b) == pytest.approx(-pair_gradient(weights, b, a))
    assert not pair_gradient(weights, a, a).any()


def test_antisymmetric_by_hand():
    weights = antisymmetric([np.array([[1.0], [2.0]]), np.array([[3.0, 4.0], [5.0, 6.0]]), np.array([7.0, 8.0])])
    assert weights[0].tolist() == [[1], [2], [1], [2]]  # m = 4: sqrt(4/m) = 1
    assert weights[1].tolist() == [[3, 4, 0, 0], [5, 6, 0, 0], [0, 0, 3, 4], [0, 0, 5, 6]]
    assert weights[2] == pytest.approx(np.array([7, 8, -7, -8]) / sqrt(2))
    wide = antisymmetric([np.ones((8, 3)), np.ones(8)])  # m = 16
    assert wide[0] == pytest.approx(np.full((16, 3), sqrt(4 / 16)))
    assert np.abs(wide[1]) == pytest.approx(np.full(16, sqrt(2 / 16)))


@pytest.mark.parametrize("hidden", DEPTHS)
def test_the_start_scores_every_document_exactly_zero(hidden):
    rng = np.random.default_rng(8)
    for seed in range(10):
        weights = antisymmetric(halves(seed, hidden, m=10))
        assert [layer.shape for layer in weights] == [(10, 4), *[(10, 10)] * (hidden - 1), (10,)]
        documents = np.vstack([rng.normal(size=(10, 4)), np.zeros(4), np.full(4, 1e6)])
        assert scores(weights, documents) == [0.0] * 12
        assert np.abs(gradient(weights, rng.normal(size=4))).max() > 0.01  # zero, but not flat


@pytest.mark.parametrize("hidden", DEPTHS)
def test_the_paper_doubles_the_input_instead(hidden):
    # Assumption B.2: x' = (x, x) / sqrt 2, and line 2 with W_1 = (W, 0; 0, W). The same function without doubling has
    # W_1 = (W; W) / sqrt 2, also after steps, as the kernel g.g' agrees. With W_1 = (W; W) it is that of x' = (x, x).
    rng = np.random.default_rng(9)
    plain = antisymmetric(halves(9, hidden))
    top, zero = plain[0][:3], np.zeros((3, 4))
    for shrink, double in [(sqrt(2), lambda x: np.concatenate([x, x]) / sqrt(2)), (1, lambda x: np.tile(x, 2))]:
        last = rng.normal(size=6)  # any, so that there is something to compare
        doubled = [np.block([[top, zero], [zero, top]]), *plain[1:-1], last]
        single = [plain[0] / shrink, *plain[1:-1], last]
        documents = rng.normal(size=(5, 4))
        assert scores(doubled, np.array([double(x) for x in documents])) == pytest.approx(scores(single, documents))
        kernel = [[float(gradient(single, x) @ gradient(single, y)) for y in documents] for x in documents]
        twice = [
            [float(gradient(doubled, double(x)) @ gradient(doubled, double(y))) for y in documents] for x in documents
        ]
        assert np.allclose(kernel, twice) == (shrink != 1)
