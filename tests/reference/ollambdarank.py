"""olLambdaRank: the gradient of olRankNet, each pair times what swapping its two documents would change in NDCG.

Jia and Wang, Learning Neural Ranking Models Online from Implicit User Feedback (WWW 2022), "Extend to LambdaRank" and
the skyline olLambdaRank GT of Section 5; Burges, From RankNet to LambdaRank to LambdaMART (2010), Section 4. The paper
does not say where NDCG comes from online: here from the clicks of the round, with gain 2^click - 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from tests.reference.arrays import Documents, Parameters
from tests.reference.metrics import dcg
from tests.reference.network import Weights, flat, pair_gradient, scores
from tests.reference.objective import sigmoid

Pair = tuple[int, int]  # (place of the preferred document, place of the other), from 0


@dataclass(frozen=True)
class Round:
    """One list to learn from: its documents in the order shown, a grade for each place, and the pairs of places."""

    documents: Documents
    grades: tuple[int, ...]
    pairs: tuple[Pair, ...]


def from_clicks(documents: Documents, clicks: Sequence[bool], pairs: Sequence[Pair]) -> Round:
    """A served round: grade 1 for a click, 0 for none (examined or not), and whichever pairs were inferred from it."""
    return Round(documents, tuple(int(clicked) for clicked in clicks), tuple(pairs))


def from_labels(documents: Documents, labels: Sequence[int]) -> Round:
    """A whole query with its true labels: every document with a higher label beats every one with a lower label."""
    places = range(len(labels))
    pairs = tuple((i, j) for i, j in permutations(places, 2) if labels[i] > labels[j])
    return Round(documents, tuple(int(label) for label in labels), pairs)


def order_by_score(values: Sequence[float]) -> list[int]:
    """Places by descending score; those that tie stay in the order shown."""
    return sorted(range(len(values)), key=lambda place: (-values[place], place))


def swap_effect(grades: Sequence[int], values: Sequence[float], pair: Pair) -> float:
    """|delta NDCG| of exchanging the two documents of `pair` in the ranking of the list by `values`.

    Ranks and ideal DCG are those of this list alone, with every rank counted. 0 if nothing has a gain.
    """
    ideal = dcg(sorted(grades, reverse=True), len(grades))
    if ideal == 0:
        return 0.0
    ranking = order_by_score(values)
    i, j = (ranking.index(place) for place in pair)
    swapped = list(ranking)
    swapped[i], swapped[j] = ranking[j], ranking[i]
    before, after = (dcg([grades[place] for place in order], len(grades)) for order in (ranking, swapped))
    return abs(after - before) / ideal


def gradient(weights: Weights, rounds: Sequence[Round]) -> Parameters:
    """The sum over all pairs of all rounds of |delta NDCG| (sigma(f_ij) - 1) g_ij. Ranks are those of `weights`.

    There is no objective that this gradient is the derivative of.
    """
    total = np.zeros(len(flat(weights)))
    for each in rounds:
        f = scores(weights, each.documents)
        for i, j in each.pairs:
            pull = swap_effect(each.grades, f, (i, j)) * (sigmoid(f[i] - f[j]) - 1)
            total += pull * pair_gradient(weights, each.documents[i], each.documents[j])
    return total
