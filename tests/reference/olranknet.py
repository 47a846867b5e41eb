"""olRankNet: what it minimises, how far it goes, and which pairs it is then certain of.

Jia and Wang, Learning Neural Ranking Models Online from Implicit User Feedback (WWW 2022): Eq. (3.2), Lemma 3.3 and
Definition 3.4 without epsilon(m), lines 7, 11 and 12 of Algorithm 1. Row n of `winners` and row n of `losers` are the
documents of pair n of the whole history, `labels[n]` is y: 1 where the winner is preferred. m is the hidden width.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ol2r_cli.tensor.shapes import Bool, Float
from tests.reference.network import Weights, flat, pair_gradient, score, scores, unflat
from tests.reference.network import gradient as tangent
from tests.reference.objective import sigmoid

Slope = Callable[[Weights], Float[np.ndarray, "P"]]


def share(reduction: str, count: int) -> float:
    """What the sum over `count` pairs is multiplied by; the penalty m l2/2 |theta - theta_0|^2 is left as it is."""
    if reduction not in ("sum", "mean"):
        raise ValueError(f"reduction must be 'sum' or 'mean', got {reduction!r}")
    return 1.0 if reduction == "sum" else 1.0 / max(count, 1)


def penalty(weights: Weights, initial: Weights, l2: float) -> float:
    """m l2/2 |theta - theta_0|^2."""
    moved = flat(weights) - flat(initial)
    return len(weights[-1]) * l2 / 2 * sum(move**2 for move in moved)


def penalty_slope(weights: Weights, initial: Weights, l2: float) -> Float[np.ndarray, "P"]:
    """m l2 (theta - theta_0)."""
    return len(weights[-1]) * l2 * (flat(weights) - flat(initial))


def objective(
    weights: Weights,
    initial: Weights,
    winners: Float[np.ndarray, "M F"],
    losers: Float[np.ndarray, "M F"],
    labels: Float[np.ndarray, "M"],
    l2: float,
    reduction: str,
) -> float:
    """Eq. (3.2) for `sum`; with the mean of the cross-entropies in place of their sum for `mean`."""
    total = 0.0
    for winner, loser, label in zip(winners, losers, labels, strict=True):
        f = score(weights, winner) - score(weights, loser)
        total += label * np.logaddexp(0.0, -f) + (1 - label) * np.logaddexp(0.0, f)
    return float(share(reduction, len(winners)) * total + penalty(weights, initial, l2))


def gradient(
    weights: Weights,
    initial: Weights,
    winners: Float[np.ndarray, "M F"],
    losers: Float[np.ndarray, "M F"],
    labels: Float[np.ndarray, "M"],
    l2: float,
    reduction: str,
) -> Float[np.ndarray, "P"]:
    """The derivative of `objective`: sum or mean of (sigma(f_ij) - y) g_ij, + m l2 (theta - theta_0)."""
    total = np.zeros(len(flat(weights)))
    for winner, loser, label in zip(winners, losers, labels, strict=True):
        f = score(weights, winner) - score(weights, loser)
        total += (sigmoid(f) - label) * pair_gradient(weights, winner, loser)
    return share(reduction, len(winners)) * total + penalty_slope(weights, initial, l2)


def descend(
    start: Weights,
    initial: Weights,
    slope: Slope,
    l2: float,
    count: int,
    reduction: str,
    rate: float,
    steps: int,
    precondition: Float[np.ndarray, "P P"] | None = None,
) -> Weights:
    """`steps` of size `rate` down the mean loss, whose gradient is `slope`, + m l2/2 |theta - theta_0|^2.

    The penalty weighs l2 / `count` with the reduction `sum`, so that `rate` means the same in both. A step solves
    u' = u - rate * P (slope + m l2 u'), u = theta - theta_0: the penalty is that of where the step ends. P is
    `precondition`, or I. Without pairs there is nothing to learn from, and the start is returned.
    """
    moved, zero = flat(start) - flat(initial), flat(initial)
    b = penalty_weight(initial, l2, count, reduction)
    p = np.eye(len(zero)) if precondition is None else precondition
    for _ in range(steps if count else 0):
        ahead = moved - rate * p @ slope(unflat(zero + moved, start))
        moved = np.linalg.solve(np.eye(len(zero)) + rate * b * p, ahead)
    return unflat(zero + moved, start) if count else start


def penalty_weight(initial: Weights, l2: float, count: int, reduction: str) -> float:
    """The factor of theta - theta_0 in the gradient of the mean loss with its penalty: m l2, over `count` for `sum`."""
    return len(initial[-1]) * l2 / (max(count, 1) if reduction == "sum" else 1)


def fit(
    start: Weights,
    initial: Weights,
    winners: Float[np.ndarray, "M F"],
    losers: Float[np.ndarray, "M F"],
    labels: Float[np.ndarray, "M"],
    l2: float,
    reduction: str,
    rate: float,
    steps: int,
    precondition: Float[np.ndarray, "P P"] | None = None,
) -> Weights:
    """Line 11: J = `steps` of step size eta = `rate` from `start`, which is theta_{t-1} (warm) or theta_0 (restart)."""

    def slope(weights: Weights) -> Float[np.ndarray, "P"]:
        return gradient(weights, initial, winners, losers, labels, 0.0, "mean")

    return descend(start, initial, slope, l2, len(winners), reduction, rate, steps, precondition)


def information(tangents: Float[np.ndarray, "M P"], l2: float, m: int) -> Float[np.ndarray, "P P"]:
    """A_t: l2 I + the sum of g_ij g_ij^T / m over the history; each g_ij as of the round that the pair comes from."""
    total = l2 * np.eye(tangents.shape[1])
    for g in tangents:
        total = total + np.outer(g, g) / m
    return total


def width(g: Float[np.ndarray, "P"], a: Float[np.ndarray, "P P"], m: int, covariance: str) -> float:
    """|g_ij / sqrt(m)|_{A^-1}, before alpha is applied: `full` sqrt(g^T A^-1 g / m), `diagonal` with 1 / A_pp alone."""
    if covariance == "full":
        squared = g @ np.linalg.inv(a) @ g / m
    elif covariance == "diagonal":
        squared = sum(slope**2 / a[p, p] for p, slope in enumerate(g)) / m
    else:
        raise ValueError(f"covariance must be 'full' or 'diagonal', got {covariance!r}")
    return float(np.sqrt(squared))


def certain_rank_order(
    weights: Weights,
    documents: Float[np.ndarray, "D F"],
    a: Float[np.ndarray, "P P"],
    alpha: float,
    covariance: str,
) -> Bool[np.ndarray, "D D"]:
    """omega_t: [i, j] iff sigma(f_i - f_j) - alpha * width > 1/2. Not closed."""
    f = scores(weights, documents)
    g = [tangent(weights, x) for x in documents]
    m = len(weights[-1])
    certain = np.zeros((len(documents), len(documents)), dtype=bool)
    for i in range(len(documents)):
        for j in range(len(documents)):
            if i != j:
                certain[i, j] = sigmoid(f[i] - f[j]) - alpha * width(g[i] - g[j], a, m, covariance) > 0.5
    return certain
