"""The linear ranker with perturbed feedback: its optimum, found slowly and safely.

Jia and Wang, Scalable Exploration for Neural Online Learning to Rank with Perturbed Feedback (SIGIR 2022), Eq. (3.3)
for a linear score, and Eq. (4.2). A row is x_winner - x_loser, so that its label is 1 before the noise and 1 + gamma
after it. `reduction` is that of `objective`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import brentq

from ol2r_cli.tensor.shapes import Float
from tests.reference.objective import gradient, hessian, objective, sigmoid, weights

RELATIVE = 1e-10  # the gradient at the optimum, measured by the sum of the lengths of what it is the sum of
STEPS = 500


def literal_noise(count: int, variance: float, normals: Sequence[float]) -> Float[np.ndarray, "M"]:
    """gamma ~ N(0, variance) for each of the `count` pairs of the whole history: sqrt(variance) times a normal each.

    Line 19 draws it afresh every round, for every member: hand in new normals each time.
    """
    if len(normals) != count:
        raise ValueError(f"normals must be {count}, one for each pair, got {len(normals)}")
    return np.array([np.sqrt(variance) * normal for normal in normals], dtype=float)


def tilt(rows: Float[np.ndarray, "M F"], gamma: Float[np.ndarray, "M"]) -> Float[np.ndarray, "F"]:
    """X^T gamma. All that the noise does to the sum of cross-entropies is to subtract tilt.theta from it:

    -(1 + g) log sigma(z) + g log(1 - sigma(z)) = -log sigma(z) - g z.
    """
    total = np.zeros(rows.shape[1])
    for row, noise in zip(rows, gamma, strict=True):
        total += noise * row
    return total


def _scale(
    theta: Float[np.ndarray, "F"],
    rows: Float[np.ndarray, "M F"],
    gamma: Float[np.ndarray, "M"],
    l2: float,
    reduction: str,
) -> float:
    """The sum of the lengths of the terms that the gradient is the sum of."""
    of_entropy, of_penalty = weights(reduction, len(rows))
    total = of_penalty * l2 * float(np.linalg.norm(theta))
    for row, noise in zip(rows, gamma, strict=True):
        total += of_entropy * abs(sigmoid(row @ theta) - 1 - noise) * float(np.linalg.norm(row))
    return total


def perturbed_optimum(
    rows: Float[np.ndarray, "M F"], gamma: Float[np.ndarray, "M"], l2: float, reduction: str
) -> Float[np.ndarray, "F"]:
    """The only minimum of the sum of cross-entropies of sigma(theta.x_i) with 1 + gamma_i, + l2/2 |theta|^2 (`sum`).

    `mean`: mean of cross-entropies + l2 |theta|^2. Damped Newton from 0. Each step goes to the lowest point of its
    line, found as the root of the slope along it, which increases because the objective is strictly convex; so every
    step descends, also where the objective itself is too flat to be compared. RuntimeError unless the gradient ends
    below 1e-10, relative to its terms.
    """
    labels = 1 + gamma
    theta = np.zeros(rows.shape[1])
    for _ in range(STEPS):
        slope = gradient(theta, rows, labels, l2, reduction)
        if np.linalg.norm(slope) <= RELATIVE * _scale(theta, rows, gamma, l2, reduction):
            return theta
        direction = -np.linalg.solve(hessian(theta, rows, l2, reduction), slope)

        def along(t: float, theta=theta, direction=direction) -> float:
            return float(gradient(theta + t * direction, rows, labels, l2, reduction) @ direction)

        if along(0.0) >= 0:  # rounding: Newton's direction always descends
            break
        far = 1.0
        while along(far) < 0:
            far *= 2
        theta = theta + brentq(along, 0.0, far, xtol=1e-14 * far) * direction
    raise RuntimeError(f"the gradient must be below {RELATIVE:.0e} of its terms, got {np.linalg.norm(slope):.1e}")


def gap(
    theta: Float[np.ndarray, "F"],
    rows: Float[np.ndarray, "M F"],
    gamma: Float[np.ndarray, "M"],
    l2: float,
    reduction: str,
) -> float:
    """How far the objective at theta is above its least value; 0 up to rounding at the optimum."""
    best = perturbed_optimum(rows, gamma, l2, reduction)
    labels = 1 + gamma
    return objective(theta, rows, labels, l2, reduction) - objective(best, rows, labels, l2, reduction)
