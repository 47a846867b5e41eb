"""epsilon-greedy lists: at every place a random document, or the best one left.

Hofmann, Whiteson, de Rijke: Balancing Exploration and Exploitation in Listwise and Pairwise Online Learning to Rank
for Information Retrieval (Information Retrieval 2013), as the baseline of Jia et al., PairRank (WWW 2021), Section 4.1.
"""

from __future__ import annotations

from collections.abc import Sequence


def order(scores: Sequence[float], coins: Sequence[bool], permutation: Sequence[int], places: int) -> tuple[int, ...]:
    """The document at each of the first `places` places, or of fewer if there are not so many documents.

    Place p explores if coins[p]: it takes the first document of `permutation` that is not yet placed. Otherwise it
    takes the one with the highest score of those not yet placed, equal ones by number.

    One permutation serves for all places: whatever has been placed by score, the order of the others in a random
    permutation is random, so that every exploring place is uniform among the documents that are left.
    """
    placed: list[int] = []
    for place in range(min(places, len(scores))):
        if coins[place]:
            chosen = next(document for document in permutation if document not in placed)
        else:
            left = [document for document in range(len(scores)) if document not in placed]
            chosen = max(left, key=lambda document: (scores[document], -document))
        placed.append(chosen)
    return tuple(placed)
