"""Lists drawn from the Plackett-Luce model of scores: how likely each is, and the draw as a race.

Luce (1959), Plackett (1975); as an exploration: Oosterhuis and de Rijke, Differentiable Unbiased Online Learning to
Rank (CIKM 2018): place after place goes to document d with e^{f(d)} / (sum of e^{f} over the unplaced).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from math import exp, inf, log

Order = tuple[int, ...]  # the document at each place, top first


def log_probability(ranking: Sequence[int], scores: Sequence[float]) -> float:
    """log P of the first k = len(ranking) places, given the scores of all V >= k documents.

    Documents that are not in the list stay in every denominator. The largest score of a denominator is taken out of
    it, so that nothing overflows.
    """
    remaining = set(range(len(scores)))
    total = 0.0
    for document in ranking:
        largest = max(scores[d] for d in remaining)
        total += scores[document] - largest - log(sum(exp(scores[d] - largest) for d in remaining))
        remaining.remove(document)
    return total


def probability(ranking: Sequence[int], scores: Sequence[float]) -> float:
    """P of the first k = len(ranking) places: the product of e^{f(d)} / (sum of e^{f} over what is not yet placed)."""
    return exp(log_probability(ranking, scores))


def enumerate_rankings(documents: int, places: int) -> list[Order]:
    """All lists of `places` different documents: V! / (V - k)! of them, or V! where there are not enough documents."""
    return list(permutations(range(documents), min(places, documents)))


def order_of(scores: Sequence[float], clocks: Sequence[float]) -> Order:
    """All documents by ascending clock / e^{score}, equal ones by number.

    If the clocks are independent exponentials of rate 1, document d rings at rate e^{f(d)}. The first of the unplaced
    to ring is then d with the probability of the model, and those that wait do not remember for how long: the order
    is Plackett-Luce, and so are its first k places. Compared by logarithms, which do not overflow.
    """
    rings = [(log(clock) if clock > 0 else -inf) - score for score, clock in zip(scores, clocks, strict=True)]
    return tuple(sorted(range(len(scores)), key=lambda document: (rings[document], document)))
