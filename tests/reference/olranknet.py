"""olRankNet: the slope of what it minimises, and how far it goes.

Jia and Wang, Learning Neural Ranking Models Online from Implicit User Feedback (WWW 2022): Eq. (3.2) and line 11 of
Algorithm 1. Row n of `winners` and row n of `losers` are the documents of pair n of the whole history, `labels[n]` is
y: 1 where the winner is preferred. m is the hidden width.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ol2r_cli.tensor.shapes import Float
from tests.reference.network import Weights, flat, pair_gradient, score, unflat
from tests.reference.objective import sigmoid

Slope = Callable[[Weights], Float[np.ndarray, "P"]]


def share(reduction: str, count: int) -> float:
    """What the sum over `count` pairs is multiplied by; the penalty m l2/2 |theta - theta_0|^2 is left as it is."""
    return 1.0 if reduction == "sum" else 1.0 / max(count, 1)


def penalty_slope(weights: Weights, initial: Weights, l2: float) -> Float[np.ndarray, "P"]:
    """m l2 (theta - theta_0)."""
    return len(weights[-1]) * l2 * (flat(weights) - flat(initial))


def gradient(
    weights: Weights,
    initial: Weights,
    winners: Float[np.ndarray, "M F"],
    losers: Float[np.ndarray, "M F"],
    labels: Float[np.ndarray, "M"],
    l2: float,
    reduction: str,
) -> Float[np.ndarray, "P"]:
    """The derivative of Eq. (3.2): sum or mean of (sigma(f_ij) - y) g_ij, + m l2 (theta - theta_0)."""
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
