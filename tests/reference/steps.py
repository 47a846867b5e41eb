"""One step on the pairs of one round: RankNet by stochastic gradient descent, and PDGD, for any scoring function.

"SGD RankNet" of Jia et al., PairRank (WWW 2021), Section 4.1, is Eq. (1) without history and without penalty. With a
network (olRankNet, WWW 2022, Section 5) f(x) and g(x) take the places of theta.x and x; nothing else changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tests.reference.feedback import all_pairs
from tests.reference.objective import sigmoid
from tests.reference.pdgd import pair_weights

Vector = np.ndarray
Scoring = Callable[[Vector, Vector], tuple[float, Vector]]  # of parameters and a document: its score and the gradient
Learned = tuple[Vector, float]  # parameters and the rate of the next round


def linear(theta: Vector, x: Vector) -> tuple[float, Vector]:
    """theta.x and x."""
    return float(theta @ x), x


def sgd_ranknet(learned: Learned, scoring: Scoring, pairs: Sequence[tuple[Vector, Vector]], decay: float) -> Learned:
    """Of the pairs (winner, loser): theta + rate * (sum of sigma(-f_ij) g_ij), and rate * decay, if there is one."""
    weights = [sigmoid(scoring(learned[0], loser)[0] - scoring(learned[0], winner)[0]) for winner, loser in pairs]
    return _moved(learned, scoring, zip(weights, pairs, strict=True), decay) if pairs else learned


def pdgd(
    learned: Learned, scoring: Scoring, ranking: Sequence[int], clicks: Sequence[bool], documents: Vector, decay: float
) -> Learned:
    """theta + rate * (sum over the pairs of their weight times g_winner - g_loser), and rate * decay, if there is one.

    `documents` [D, F] are all candidates, `ranking` the numbers of those shown.
    """
    if not all_pairs(clicks):
        return learned
    weights = pair_weights(ranking, clicks, [scoring(learned[0], x)[0] for x in documents])
    rows = [(weight, (documents[winner], documents[loser])) for (winner, loser), weight in weights.items()]
    return _moved(learned, scoring, rows, decay)


def _moved(learned: Learned, scoring: Scoring, weighted, decay: float) -> Learned:
    theta, rate = learned
    uphill = sum(w * (scoring(theta, winner)[1] - scoring(theta, loser)[1]) for w, (winner, loser) in weighted)
    return theta + rate * uphill, rate * decay
