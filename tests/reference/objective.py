"""The pairwise logistic regression that a linear RankNet solves over its history, with what each pair counts.

Jia et al., PairRank (WWW 2021), Section 3.2.1, Eq. (1), and the estimating equation (3) of Appendix B; with perturbed
labels, Jia and Wang, Scalable Exploration for Neural Online Learning to Rank with Perturbed Feedback (SIGIR 2022),
Eq. (3.3) and (4.2). A pair is the row x_winner - x_loser, so that its label is 1, or 1 + gamma with noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from scipy.optimize import minimize

from tests.reference.arrays import Documents, Matrix, Vector

Pairs = Sequence[tuple[np.ndarray, float]]  # each with its weight
Noise = Sequence[float] | None  # of the label of each pair


def sigmoid(value: float) -> float:
    """1 / (1 + exp(-value)), as a half hyperbolic tangent because that cannot overflow."""
    return float(0.5 + 0.5 * np.tanh(value / 2))


def equal(rows: Documents) -> Pairs:
    """Pairs that count 1."""
    return [(row, 1.0) for row in rows]


def penalty(pairs: Pairs, l2: float, reduction: str) -> float:
    """The factor of |theta|^2 / 2 beside the weighted sum of cross-entropies.

    `sum`: l2. `mean`: the weighted mean + l2 |theta|^2, times the weights' sum; 2 l2 without a pair.
    """
    total = sum(w for _, w in pairs)
    return l2 if reduction == "sum" else 2 * l2 * (total or 1.0)


def objective(
    theta: Vector,
    pairs: Pairs,
    l2: float,
    reduction: str,
    noise: Noise = None,
) -> float:
    """sum_i w_i (-(1 + g_i) log sigma(x_i.theta) + g_i log(1 - sigma(x_i.theta))) + penalty; g is label noise, or 0."""
    total = penalty(pairs, l2, reduction) / 2 * float(theta @ theta)
    for i, (x, w) in enumerate(pairs):
        value, g = float(x @ theta), 0.0 if noise is None else noise[i]
        total += w * ((1 + g) * np.logaddexp(0.0, -value) - g * np.logaddexp(0.0, value))
    return float(total)


def gradient(
    theta: Vector,
    pairs: Pairs,
    l2: float,
    reduction: str,
    noise: Noise = None,
) -> Vector:
    """Its derivative."""
    total = penalty(pairs, l2, reduction) * theta
    for i, (x, w) in enumerate(pairs):
        total = total + w * (sigmoid(float(x @ theta)) - 1 - (0.0 if noise is None else noise[i])) * x
    return total


def hessian(theta: Vector, pairs: Pairs, l2: float, reduction: str) -> Matrix:
    """The second derivative: noise drops out."""
    total = penalty(pairs, l2, reduction) * np.eye(len(theta))
    for x, w in pairs:
        wins = sigmoid(float(x @ theta))
        total += w * wins * (1 - wins) * np.outer(x, x)
    return total


def optimum(
    pairs: Pairs,
    l2: float,
    reduction: str,
    features: int,
    noise: Noise = None,
) -> Vector:
    """The only minimum, by scipy; RuntimeError unless it is within 1e-9 (1 + f) of the least value.

    The objective is `penalty`-strongly convex, so that a theta is within |gradient|^2 / (2 penalty) of it.
    """
    c, slope = penalty(pairs, l2, reduction), partial(gradient, pairs=pairs, l2=l2, reduction=reduction, noise=noise)
    curvature = partial(hessian, pairs=pairs, l2=l2, reduction=reduction)
    found = minimize(
        lambda theta: objective(theta, pairs, l2, reduction, noise),
        np.zeros(features),
        jac=slope,
        hess=curvature,
        method="trust-exact",
        options={"gtol": 1e-11, "maxiter": 3000},
    ).x
    for _ in range(3):  # Newton's steps, which double the digits
        found = found - np.linalg.solve(curvature(found), slope(found))
    gap = float(slope(found) @ slope(found)) / (2 * c)
    if not gap <= 1e-9 * (1 + abs(objective(found, pairs, l2, reduction, noise))):
        raise RuntimeError(f"the optimum must be closer to the least objective, got {gap:.1e}")
    return found
