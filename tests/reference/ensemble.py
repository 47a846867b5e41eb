"""What several rankers are certain of together.

Jia and Wang, Scalable Exploration for Neural Online Learning to Rank with Perturbed Feedback (SIGIR 2022), lines 7 to
14 of Algorithm 1 and Definition 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence

Pair = tuple[int, int]


def certain(scores_by_member: Sequence[Sequence[float]]) -> set[Pair]:
    """S^c as (i, j), i certainly above j: min over the members of sigma(f_i - f_j) > 1/2.

    That is, every member scores i strictly above j. (max < 1/2 is the same pair from the other side: (j, i).) The
    relation is transitive as it stands, and a single member is certain of everything but its ties.
    """
    documents = range(len(scores_by_member[0]))
    return {(i, j) for i in documents for j in documents if all(scores[i] > scores[j] for scores in scores_by_member)}
