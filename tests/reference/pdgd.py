"""Pairwise Differentiable Gradient Descent, one interaction at a time, for linear scores.

Oosterhuis and de Rijke, Differentiable Unbiased Online Learning to Rank (CIKM 2018).

Documents are numbers, a list is the shown ranking, and `clicks` has an entry for each of its places.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp

from tests.reference.feedback import all_pairs
from tests.reference.objective import sigmoid
from tests.reference.plackett_luce import log_probability

Pair = tuple[int, int]  # (document preferred, document it is preferred to)


def swapped(ranking: Sequence[int], i: int, j: int) -> list[int]:
    """R*: the list with the documents at places i and j (from 0) exchanged, all others where they were."""
    other = list(ranking)
    other[i], other[j] = ranking[j], ranking[i]
    return other


def debias_weight(ranking: Sequence[int], scores: Sequence[float], i: int, j: int) -> float:
    """rho = P(R*) / (P(R) + P(R*)) of the documents at places i and j of the shown list.

    From log-probabilities, because both may be too small for a float: rho = sigma(log P(R*) - log P(R)).
    """
    return sigmoid(log_probability(swapped(ranking, i, j), scores) - log_probability(ranking, scores))


def pair_weights(ranking: Sequence[int], clicks: Sequence[bool], scores: Sequence[float]) -> dict[Pair, float]:
    """What the gradient multiplies f'(winner) - f'(loser) by, for every pair that the clicks imply.

    rho times the derivative of P(w above l) = e^{f_w} / (e^{f_w} + e^{f_l}) with respect to f_w - f_l, which is
    e^{f_w} e^{f_l} / (e^{f_w} + e^{f_l})^2. Pairs: every clicked document beats every examined unclicked one, where
    examined is all down to the last click and the first document after it.
    """
    weights = {}
    for winner, loser in all_pairs(clicks):
        pair = ranking[winner], ranking[loser]
        largest = max(scores[document] for document in pair)
        up, down = (exp(scores[document] - largest) for document in pair)
        weights[pair] = debias_weight(ranking, scores, winner, loser) * up * down / (up + down) ** 2
    return weights
