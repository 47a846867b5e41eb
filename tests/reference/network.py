"""The scoring network and its gradient, one document at a time.

Jia and Wang, Learning Neural Ranking Models Online from Implicit User Feedback (WWW 2022), Section 3.2 and line 2 of
Algorithm 1: f(x) = sqrt(m) w . relu(W_l .. relu(W_1 x)), m hidden units in every layer, no biases.

Weights are a list [W_1 (m d), W_2 (m m), .., w (m)] with one entry more than there are hidden layers (at least one).
Parameters are the same numbers in one row of length P: vec(W_1) row by row, vec(W_2), .., w.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum, prod, sqrt

import numpy as np

from tests.reference.arrays import Documents, Parameters, Vector

Weights = list[np.ndarray]


def flat(weights: Weights) -> Parameters:
    """The parameters as one row."""
    return np.concatenate([np.asarray(layer, dtype=float).ravel() for layer in weights])


def unflat(theta: Parameters, like: Weights) -> Weights:
    """The inverse of `flat`, for a network of the sizes of `like`; always new arrays."""
    weights, at = [], 0
    for layer in like:
        size = prod(layer.shape)
        weights.append(np.array(theta[at : at + size], dtype=float).reshape(layer.shape))
        at += size
    return weights


def antisymmetric(normals: Sequence[np.ndarray]) -> Weights:
    """theta_0 of line 2, from standard normals for one half: [(m/2 d), (m/2 m/2), .., (m/2)].

    Hidden layers are (W, 0; 0, W) with W = sqrt(4/m) normals, the last is (w, -w) with w = sqrt(2/m) normals. The
    first is (W; W), so that the input need not be doubled. Both halves then compute the same, and f(x) = 0 for all x.
    """
    *hidden, last = (np.asarray(layer, dtype=float) for layer in normals)
    m = 2 * len(last)
    first, *between = (sqrt(4 / m) * layer for layer in hidden)
    zero = np.zeros((m // 2, m // 2))
    w = sqrt(2 / m) * last
    return [np.vstack([first, first]), *(np.block([[W, zero], [zero, W]]) for W in between), np.concatenate([w, -w])]


def hidden_layers(weights: Weights, x: Vector) -> list[Vector]:
    """What each hidden layer puts out for one document, after the ReLU.

    Sums are exact up to one rounding (`fsum`), so that the halves of an antisymmetric start do not differ in the last
    digit and documents that tie do so exactly.
    """
    outputs = []
    for layer in weights[:-1]:
        x = np.array([max(fsum(a * b for a, b in zip(unit, x, strict=True)), 0.0) for unit in layer])
        outputs.append(x)
    return outputs


def score(weights: Weights, x: Vector) -> float:
    """f(x) = sqrt(m) w . h, h the output of the last hidden layer."""
    last = weights[-1]
    h = hidden_layers(weights, x)[-1]
    return sqrt(len(last)) * fsum(a * b for a, b in zip(last, h, strict=True))


def scores(weights: Weights, documents: Documents) -> list[float]:
    """f of one document after the other."""
    return [score(weights, x) for x in documents]


def gradient(weights: Weights, x: Vector) -> Parameters:
    """g(x): the derivative of f(x) with respect to all parameters, by back-propagation.

    A unit that puts out 0 passes nothing back, also where what went into its ReLU was exactly 0.
    """
    inputs = [np.asarray(x, dtype=float), *hidden_layers(weights, x)]  # of each layer, the last one included
    root = sqrt(len(weights[-1]))
    slopes = [root * inputs[-1]]
    back = root * np.asarray(weights[-1], dtype=float)  # df/dh of the hidden layer that is next on the way down
    for layer in reversed(range(len(weights) - 1)):
        back = np.array([slope if h > 0 else 0.0 for slope, h in zip(back, inputs[layer + 1], strict=True)])
        slopes.append(np.outer(back, inputs[layer]))
        back = weights[layer].T @ back
    return flat(slopes[::-1])


def pair_gradient(weights: Weights, first: Vector, second: Vector) -> Parameters:
    """g_ij = g(x_i) - g(x_j), the derivative of f_ij = f(x_i) - f(x_j)."""
    return gradient(weights, first) - gradient(weights, second)
