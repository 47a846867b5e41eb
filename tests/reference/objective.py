"""The pairwise logistic regression that a linear RankNet solves over all its history.

Jia et al., PairRank (WWW 2021), Section 3.2.1, Eq. (1), and the estimating equation (3) of Appendix B. A pair is the
row x_m - x_n with a label: 1 says m beats n, 0 says n beats m, and perturbed labels may be any real number.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize, root

from ol2r_cli.tensor.shapes import Float

Rows = Float[np.ndarray, "M F"]
Vector = Float[np.ndarray, "F"]


def sigmoid(value: float) -> float:
    """1 / (1 + exp(-value)), as a half hyperbolic tangent because that cannot overflow."""
    return float(0.5 + 0.5 * np.tanh(value / 2))


def weights(reduction: str, count: int) -> tuple[float, float]:
    """What the sum of cross-entropies of `count` pairs and the penalty l2/2 |theta|^2 are multiplied by.

    `sum`: Eq. (1), both by 1. `mean`: by 1/count and by 2, that is the mean of cross-entropies + l2 |theta|^2; its
    optimum is that of the sum with l2 multiplied by 2 count. Without pairs only the penalty is there.
    """
    return (1.0, 1.0) if reduction == "sum" else (1.0 / max(count, 1), 2.0)


def objective(theta: Vector, pairs: Rows, labels: Float[np.ndarray, "M"], l2: float, reduction: str) -> float:
    """Eq. (1) for `sum`; accordingly for `mean`."""
    total = 0.0
    for pair, label in zip(pairs, labels, strict=True):
        value = pair @ theta
        minus_log_wins, minus_log_loses = np.logaddexp(0.0, -value), np.logaddexp(0.0, value)
        total += label * minus_log_wins + (1 - label) * minus_log_loses
    of_entropy, of_penalty = weights(reduction, len(pairs))
    return float(of_entropy * total + of_penalty * l2 / 2 * theta @ theta)


def gradient(theta: Vector, pairs: Rows, labels: Float[np.ndarray, "M"], l2: float, reduction: str) -> Vector:
    """The left side of Eq. (3) for `sum`: sum of (sigma(x.theta) - y) x + l2 theta; accordingly for `mean`."""
    total = np.zeros_like(theta)
    for pair, label in zip(pairs, labels, strict=True):
        total += (sigmoid(pair @ theta) - label) * pair
    of_entropy, of_penalty = weights(reduction, len(pairs))
    return of_entropy * total + of_penalty * l2 * theta


def hessian(theta: Vector, pairs: Rows, l2: float, reduction: str) -> Float[np.ndarray, "F F"]:
    """The second derivative: sum of sigma'(x.theta) x x^T + l2 I for `sum`; accordingly for `mean`. Labels drop out."""
    total = np.zeros((len(theta), len(theta)))
    for pair in pairs:
        wins = sigmoid(pair @ theta)
        total += wins * (1 - wins) * np.outer(pair, pair)
    of_entropy, of_penalty = weights(reduction, len(pairs))
    return of_entropy * total + of_penalty * l2 * np.eye(len(theta))


def optimum(pairs: Rows, labels: Float[np.ndarray, "M"], l2: float, reduction: str) -> Vector:
    """The theta of line 10: the only minimum, found from 0 by a trust region, then polished as a root of the gradient.

    The objective is c-strongly convex (c = l2 for `sum`, 2 l2 for `mean`), so it lies within |gradient|^2 / 2c of its
    least value. That bound is at most 1e-12 (1 + objective) for what is returned, or RuntimeError tells what it is.
    """
    start = np.zeros(pairs.shape[1])
    found = minimize(
        lambda theta: objective(theta, pairs, labels, l2, reduction),
        start,
        jac=lambda theta: gradient(theta, pairs, labels, l2, reduction),
        hess=lambda theta: hessian(theta, pairs, l2, reduction),
        method="trust-exact",
        options={"gtol": 1e-12, "maxiter": 2000, "max_trust_radius": 1e9},
    )
    polished = root(
        lambda theta: gradient(theta, pairs, labels, l2, reduction),
        found.x,
        jac=lambda theta: hessian(theta, pairs, l2, reduction),
        tol=1e-15,
    )

    slope = gradient(polished.x, pairs, labels, l2, reduction)
    gap = float(slope @ slope) / (2 * weights(reduction, len(pairs))[1] * l2)
    allowed = 1e-12 * (1 + abs(objective(polished.x, pairs, labels, l2, reduction)))
    if not gap <= allowed:  # so that nan is refused too
        raise RuntimeError(f"the optimum must be within {allowed:.1e} of the least objective, got {gap:.1e}")
    return polished.x
