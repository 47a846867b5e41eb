"""RankNet by stochastic gradient descent: one step a round, on the pairs of that round alone.

The baseline "SGD RankNet" of Jia et al., PairRank (WWW 2021), Section 4.1; the loss is Eq. (1) without history and
without penalty, and a pair is the row x_winner - x_loser.
"""

from __future__ import annotations

import numpy as np

from ol2r_cli.tensor.shapes import Float
from tests.reference.objective import sigmoid


def loss(theta: Float[np.ndarray, "F"], rows: Float[np.ndarray, "M F"]) -> float:
    """The sum over the pairs, not the mean, of -log sigma(theta.row)."""
    return float(sum(np.logaddexp(0.0, -(row @ theta)) for row in rows))


def step(
    theta: Float[np.ndarray, "F"], rate: float, rows: Float[np.ndarray, "M F"], decay: float
) -> tuple[Float[np.ndarray, "F"], float]:
    """theta - rate * gradient = theta + rate * (sum of sigma(-theta.row) row), and the rate of the next round.

    The rate is multiplied by `decay` if there was at least one pair; without one, nothing changes.
    """
    if not len(rows):
        return theta, rate
    uphill = np.zeros_like(theta)
    for row in rows:
        uphill += sigmoid(-(row @ theta)) * row
    return theta + rate * uphill, rate * decay
