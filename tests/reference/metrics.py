"""How good an order is, and how much of it is certain.

Jia et al., PairRank (WWW 2021): pairwise regret in Section 3.1, NDCG@10 and its discounted sum in Section 4.2, block
sizes in Figure 6. Ratio of certain rank orders: Jia and Wang, olRankNet (WWW 2022), Figure 6.

`order` holds document numbers from the top, `labels[document]` its relevance grade.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import log2, nan

from tests.reference.arrays import Relation


def dcg(grades: Sequence[int], k: int = 10) -> float:
    """Discounted cumulative gain of the first k grades: sum of (2^grade - 1) / log2(rank + 1), ranks from 1."""
    return sum(((2**grade - 1) / log2(rank + 1) for rank, grade in enumerate(grades[:k], start=1)), start=0.0)


def ndcg(order: Sequence[int], labels: Sequence[int], k: int = 10) -> float:
    """DCG@k over the DCG@k of the best order of all documents of the query; `order` may be only the part shown.

    0 where no document is relevant.
    """
    ideal = dcg(sorted(labels, reverse=True), k)
    return dcg([labels[document] for document in order], k) / ideal if ideal else 0.0


def cumulative_ndcg(values: Sequence[float], gamma: float = 0.9995) -> float:
    """cNDCG = sum of NDCG(t) gamma^(t - 1) over the rounds t = 1 .. T."""
    return sum((value * gamma ** (t - 1) for t, value in enumerate(values, start=1)), start=0.0)


def pairwise_regret(order: Sequence[int], labels: Sequence[int]) -> int:
    """Kendall tau distance to the ideal order: pairs whose lower label stands above. Equal labels may stand anyhow."""
    return sum(labels[above] < labels[below] for above, below in combinations(order, 2))


def block_size_at(rank: int, order: Sequence[int], blocks: Sequence[set[int]]) -> int:
    """Documents in the block of the document at `rank`, which counts from 1."""
    return next(len(block) for block in blocks if order[rank - 1] in block)


def certain_ratio(order: Sequence[int], certain: Relation, k: int = 10) -> float:
    """Of the pairs among the first k places, how many are certain, in whichever direction; nan without a pair."""
    pairs = list(combinations(order[:k], 2))
    if not pairs:
        return nan
    return sum(bool(certain[i, j] or certain[j, i]) for i, j in pairs) / len(pairs)
