"""One update of the baselines that take single steps, for a network: RankNet by SGD, PDGD, and the dueling bandits.

Where the linear oracles (`sgd_ranknet`, `pdgd`, `dueling`) have theta.x and x, a network has f(x) and g(x); nothing
else changes. Jia and Wang, Learning Neural Ranking Models Online from Implicit User Feedback (WWW 2022), Section 5.
All return the new weights and the rate of the next round, which is multiplied by `decay` if there was an update.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ol2r_cli.tensor.shapes import Float
from tests.reference import dueling, pdgd
from tests.reference.feedback import all_pairs
from tests.reference.network import Weights, flat, pair_gradient, score, scores, unflat
from tests.reference.objective import sigmoid


def sgd_ranknet_step(
    weights: Weights,
    rate: float,
    winners: Float[np.ndarray, "M F"],
    losers: Float[np.ndarray, "M F"],
    decay: float,
) -> tuple[Weights, float]:
    """theta + rate * (sum over the pairs of the round of sigma(-f_ij) g_ij): the sum, not the mean, no penalty."""
    if not len(winners):
        return weights, rate
    uphill = np.zeros(len(flat(weights)))
    for winner, loser in zip(winners, losers, strict=True):
        f = score(weights, winner) - score(weights, loser)
        uphill += sigmoid(-f) * pair_gradient(weights, winner, loser)
    return unflat(flat(weights) + rate * uphill, weights), rate * decay


def pdgd_step(
    weights: Weights,
    rate: float,
    ranking: Sequence[int],
    clicks: Sequence[bool],
    documents: Float[np.ndarray, "D F"],
    decay: float,
) -> tuple[Weights, float]:
    """theta + rate * (sum over the pairs of their PDGD weight times g_winner - g_loser).

    `documents` are all candidates; `ranking` holds the numbers of those shown, drawn with the scores of `weights`, and
    `clicks` is an entry for each of its places.
    """
    if not all_pairs(clicks):
        return weights, rate
    uphill = np.zeros(len(flat(weights)))
    for (winner, loser), weight in pdgd.pair_weights(ranking, clicks, scores(weights, documents)).items():
        uphill += weight * pair_gradient(weights, documents[winner], documents[loser])
    return unflat(flat(weights) + rate * uphill, weights), rate * decay


def dueling_members(weights: Weights, delta: float, directions: Sequence[Float[np.ndarray, "P"]]) -> list[Weights]:
    """The networks that are compared: member 0 is the current one, member n is delta away in unit direction n.

    A direction is on the sphere of all P parameters together (`dueling.unit` of P normals, in the order of `flat`).
    """
    return [unflat(theta, weights) for theta in dueling.members(flat(weights), delta, directions)]


def dueling_step(
    weights: Weights,
    rate: float,
    directions: Sequence[Float[np.ndarray, "P"]],
    credit: Sequence[float],
    decay: float,
) -> tuple[Weights, float]:
    """theta + rate * (mean of the winners' directions); DBGD is the case of one direction, MGD of several."""
    theta, next_rate = dueling.step(flat(weights), rate, directions, credit, decay)
    return unflat(theta, weights), next_rate
