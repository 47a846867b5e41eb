"""Counterfactual online learning to rank, one round at a time, for linear scores.

Zhuang and Zuccon, Counterfactual Online Learning to Rank (ECIR 2020). Documents are numbers, `ranking` has those shown,
and `clicks` has an entry for each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, sqrt

from tests.reference.arrays import Vector


def losses(clicks: Sequence[bool]) -> list[float]:
    """1 for a document that was passed over: it has no click, and one below it has; else 0."""
    return [float(not click and any(clicks[place + 1 :])) for place, click in enumerate(clicks)]


def propensities(scores: Sequence[float], ranking: Sequence[int], renormalise: bool) -> list[float]:
    """Of each document shown: e^score over the sum of all documents, or of those not placed above it."""
    found = []
    for place, document in enumerate(ranking):
        above = set(ranking[:place]) if renormalise else set()
        left = [score for other, score in enumerate(scores) if other not in above]
        found.append(1 / sum(exp(score - scores[document]) for score in left))
    return found


def risk(losses: Sequence[float], candidate: Sequence[float], logged: Sequence[float], penalty: float) -> float:
    """The self-normalised estimate of the loss, and `penalty` times its standard error."""
    weights = [p / q for p, q in zip(candidate, logged, strict=True)]
    mean = sum(w * loss for w, loss in zip(weights, losses, strict=True)) / sum(weights)
    squares = sum(w**2 * (loss - mean) ** 2 for w, loss in zip(weights, losses, strict=True))
    variance = squares / sum(w**2 for w in weights)
    return mean + penalty * sqrt(variance / len(losses))


def risks(
    members: Sequence[Vector],
    documents: Sequence[Vector],
    ranking: Sequence[int],
    clicks: Sequence[bool],
    penalty: float,
    renormalise: bool,
) -> list[float]:
    """The risk of every member; member 0 is the one that is taken to have shown the list."""
    probabilities = []
    for theta in members:
        scores = [float(x @ theta) for x in documents]
        probabilities.append(propensities(scores, ranking, renormalise))
    return [risk(losses(clicks), each, probabilities[0], penalty) for each in probabilities]


def step(
    theta: Vector, rate: float, directions: Sequence[Vector], risks: Sequence[float], decay: float, least: float
) -> tuple[Vector, float]:
    """theta + rate * (mean of the directions with less risk than theta), and the rate of the next round: multiplied by
    `decay` if there was a winner, and not below `least`."""
    won = [direction for direction, each in zip(directions, risks[1:], strict=True) if each < risks[0]]
    if not won:
        return theta, rate
    return theta + rate * sum(won) / len(won), max(rate * decay, least)
