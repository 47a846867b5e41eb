"""P2NeurRank: olRankNet without a covariance, N times over, each with its own start and its own noise in the labels.

Jia and Wang, Scalable Exploration for Neural Online Learning to Rank with Perturbed Feedback (SIGIR 2022), Eq. (3.3)
and Algorithm 1. Functions are of one member; `gamma[n]` is the noise of pair n for it (see `perturbed.literal_noise`),
whose label is 1 + gamma[n]. What members agree on is in `ensemble`.

A label outside [0, 1] makes Eq. (3.3) unbounded below in f_ij, and a network follows it. So what gamma adds to the
slope is left out where |f_ij| >= `REACH`. This guard is not in the paper.
"""

from __future__ import annotations

import numpy as np

from tests.reference.arrays import Documents, Parameters, Vector
from tests.reference.network import Weights, flat, pair_gradient, score
from tests.reference.objective import sigmoid
from tests.reference.olranknet import descend

REACH = 10.0


def pull(f: float, gamma: float) -> float:
    """The slope of one pair in f_ij = `f`: sigma(f) - (1 + gamma) where |f| < REACH, else sigma(f) - 1."""
    return sigmoid(f) - 1 - (gamma if abs(f) < REACH else 0.0)


def gradient(
    weights: Weights,
    winners: Documents,
    losers: Documents,
    gamma: Vector,
) -> Parameters:
    """The mean of pull(f_ij, gamma_ij) g_ij."""
    total = np.zeros(len(flat(weights)))
    for winner, loser, noise in zip(winners, losers, gamma, strict=True):
        f = score(weights, winner) - score(weights, loser)
        total += pull(f, noise) * pair_gradient(weights, winner, loser)
    return total / len(winners)


def fit(
    start: Weights,
    initial: Weights,
    winners: Documents,
    losers: Documents,
    gamma: Vector,
    l2: float,
    reduction: str,
    rate: float,
    steps: int,
) -> Weights:
    """Line 20 for one member, gamma the same in all `steps`; its penalty is from its own theta_0."""

    def slope(weights: Weights) -> Parameters:
        return gradient(weights, winners, losers, gamma)

    return descend(start, initial, slope, l2, len(winners), reduction, rate, steps)
