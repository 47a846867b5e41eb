"""MCFair: documents by relevance, the gradient of the disparity of exposure, and marginal certainty.

Yang, Xu, Wang, Tran, Ai: Marginal-Certainty-aware Fair Ranking Algorithm (WSDM 2023). The terms are those of the
authors' public code (Taosheng-ty/WSDM23-MCFair, utils/ranking.py: GradFair, MarginalUncertainty), pair by pair.
"""

from __future__ import annotations

from collections.abc import Sequence


def disparity(exposed: Sequence[float], relevance: Sequence[float]) -> float:
    """The sum over all ordered pairs of (E_i R_j - E_j R_i)^2: 0 where exposure is proportional to relevance."""
    numbers = range(len(exposed))
    return sum((exposed[i] * relevance[j] - exposed[j] * relevance[i]) ** 2 for i in numbers for j in numbers)


def owed(exposed: Sequence[float], relevance: Sequence[float]) -> list[float]:
    """For each document j the sum over all i of (E_i R_j - E_j R_i) R_i: -1/4 of the gradient of `disparity` in E_j."""
    numbers = range(len(exposed))
    return [
        sum((exposed[i] * relevance[j] - exposed[j] * relevance[i]) * relevance[i] for i in numbers) for j in numbers
    ]


def owed_to_groups(exposed: Sequence[float], relevance: Sequence[float], group: Sequence[int]) -> list[float]:
    """For each document what its group is owed: `owed` of the means of the groups that the query has."""
    present = sorted(set(group))
    members = {g: [d for d in range(len(group)) if group[d] == g] for g in present}
    means = [[sum(values[d] for d in members[g]) / len(members[g]) for g in present] for values in (exposed, relevance)]
    by_group = dict(zip(present, owed(*means), strict=True))
    return [by_group[g] for g in group]


def scores(
    exposed: Sequence[float],
    relevance: Sequence[float],
    gain: float,
    certainty: float,
    group: Sequence[int] | None = None,
) -> list[float]:
    """The sums by which documents are sorted, given their exposure and relevance; between groups if these are given.

    Relevance below 0 counts as 0 in what is owed, which is divided by its largest size.
    """
    least = [max(value, 0.0) for value in relevance]
    q = owed(exposed, least) if group is None else owed_to_groups(exposed, least, group)
    largest = max(abs(value) for value in q)
    return [
        r + gain * (value / largest if largest else 0.0) + certainty / max(e * e, 0.1)
        for e, r, value in zip(exposed, relevance, q, strict=True)
    ]
