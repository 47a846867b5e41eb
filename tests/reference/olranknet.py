"""olRankNet: the slope of what it minimises, and how far it goes.

Jia and Wang, Learning Neural Ranking Models Online from Implicit User Feedback (WWW 2022): Eq. (3.2) and line 11 of
Algorithm 1. Row n of `winners` and row n of `losers` are the documents of pair n. m is the hidden width.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.reference.arrays import Documents, Matrix, Parameters
from tests.reference.network import Weights, flat, pair_gradient, score, unflat
from tests.reference.objective import sigmoid

Slope = Callable[[Weights], Parameters]


def gradient(weights: Weights, winners: Documents, losers: Documents) -> Parameters:
    """The derivative of the sum of cross-entropies in Eq. (3.2): that of (sigma(f_ij) - 1) g_ij."""
    total = np.zeros(len(flat(weights)))
    for winner, loser in zip(winners, losers, strict=True):
        f = score(weights, winner) - score(weights, loser)
        total += (sigmoid(f) - 1) * pair_gradient(weights, winner, loser)
    return total


def descend(
    start: Weights,
    initial: Weights,
    slope: Slope,
    l2: float,
    count: int,
    reduction: str,
    rate: float,
    steps: int,
    precondition: Matrix | None = None,
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
