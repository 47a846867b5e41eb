"""The linear ranker with perturbed feedback: its optimum, that of `objective` with other labels.

Jia and Wang, Scalable Exploration for Neural Online Learning to Rank with Perturbed Feedback (SIGIR 2022), Eq. (3.3)
for a linear score, and Eq. (4.2). A row is x_winner - x_loser, so that its label is 1 before the noise and 1 + gamma
after it. `reduction` is that of `objective`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ol2r_cli.tensor.shapes import Float
from tests.reference.objective import objective, optimum

Rows = Float[np.ndarray, "M F"]
Vector = Float[np.ndarray, "F"]


def literal_noise(count: int, variance: float, normals: Sequence[float]) -> Float[np.ndarray, "M"]:
    """gamma ~ N(0, variance) for each of the `count` pairs of the whole history: sqrt(variance) times a normal each.

    Line 19 draws it afresh every round, for every member: hand in new normals each time.
    """
    return np.array([np.sqrt(variance) * normal for normal in normals], dtype=float)


def tilt(rows: Rows, gamma: Float[np.ndarray, "M"]) -> Vector:
    """X^T gamma. All that the noise does to the sum of cross-entropies is to subtract tilt.theta from it:

    -(1 + g) log sigma(z) + g log(1 - sigma(z)) = -log sigma(z) - g z.
    """
    total = np.zeros(rows.shape[1])
    for row, noise in zip(rows, gamma, strict=True):
        total += noise * row
    return total


def perturbed_optimum(rows: Rows, gamma: Float[np.ndarray, "M"], l2: float, reduction: str) -> Vector:
    """The only minimum of the sum of cross-entropies of sigma(theta.x_i) with 1 + gamma_i, + l2/2 |theta|^2 (`sum`)."""
    return optimum(rows, 1 + gamma, l2, reduction)


def gap(theta: Vector, rows: Rows, gamma: Float[np.ndarray, "M"], l2: float, reduction: str) -> float:
    """How far the objective at theta is above its least value; 0 up to rounding at the optimum."""
    best = perturbed_optimum(rows, gamma, l2, reduction)
    labels = 1 + gamma
    return objective(theta, rows, labels, l2, reduction) - objective(best, rows, labels, l2, reduction)
