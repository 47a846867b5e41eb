"""Exposure of groups, and how unfair it is.

Jia and Wang, "Calibrating Explore-Exploit Trade-off for Fair Online Learning to Rank" (2021), sections 3.2 and 4.2.1,
Eq. (2) and (4); chapter 3 of Jia's dissertation "Toward Reliable Decision-making in Information Systems" prints the
formulas, Eq. (3.1.1) and (3.1.2).

A list is written as the groups of its documents, top first: "AAB" has an A at ranks 1 and 2 and a B at rank 3. So a
placement template is a list, too, and its projected unfairness is the unfairness of a list.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import log2


def letters(numbers: Sequence[int]) -> str:
    """Groups 0, 1, .. as "A", "B", .."""
    return "".join("ABCDEFG"[number] for number in numbers)


def exposure(model: str | Sequence[float], positions: int) -> list[float]:
    """The exposure of ranks 1 .. positions: 1/r if `reciprocal`, 1/(1 + log2 r) if `log`, or the head of a vector."""
    if model == "reciprocal":
        return [1 / rank for rank in range(1, positions + 1)]
    if model == "log":
        return [1 / (1 + log2(rank)) for rank in range(1, positions + 1)]
    return list(model[:positions])


def group_exposure(shown: str, group: str, exposed: Sequence[float]) -> float:
    """Exposure(G): the sum of the exposure of the ranks at which a document of the group is shown.

    `exposed` is the exposure of each rank; a list may be shorter.
    """
    total = 0.0
    for rank, member in enumerate(shown):
        if member == group:
            total += exposed[rank]
    return total


def list_unfairness(shown: str, exposed: Sequence[float], beta: float) -> float:
    """UF(A, B, beta) = Exposure(A) - beta Exposure(B) of one list; positive where A gets more than its due."""
    return group_exposure(shown, "A", exposed) - beta * group_exposure(shown, "B", exposed)


def unfairness(history: Sequence[str], exposed: Sequence[float], beta: float) -> list[float]:
    """UF_1, UF_2, .. of Eq. (3.1.1): the signed sums of the unfairness of the lists shown so far."""
    return list(accumulate(list_unfairness(shown, exposed, beta) for shown in history))


def largest_disparity(history: Sequence[str], exposed: Sequence[float], betas: Sequence[float]) -> list[float]:
    """For groups A, B, C, ..: the largest |E(A) / due(A) - ..| over all pairs of groups after every round.

    `betas` has for B, C, .. the exposure that A is due per unit of theirs, so that it is due 1 / beta times as much.
    E is the exposure of all lists so far. With A and B alone it is the size of `unfairness`.
    """
    groups = "ABCDEFG"[: len(betas) + 1]
    due = dict(zip(groups, [1.0, *(1 / beta for beta in betas)], strict=True))
    total = dict.fromkeys(groups, 0.0)
    largest = []
    for shown in history:
        for group in groups:
            total[group] += group_exposure(shown, group, exposed)
        largest.append(max(abs(total[g] / due[g] - total[h] / due[h]) for g in groups for h in groups))
    return largest


def projected(before: float, template: str, exposed: Sequence[float], beta: float) -> float:
    """Eq. (3.1.2): UF_t if the template is shown after UF_{t-1} = `before`."""
    return before + list_unfairness(template, exposed, beta)


def coefficient(beta: str | float, labels: Sequence[float], groups: str) -> float:
    """beta, the exposure that A is due per unit of exposure of B (section 3.2).

    `merit`: mean label of A / mean label of B. `parity`: number of documents of A / number of documents of B, so that
    a fair system exposes the average document of both groups equally. Or a number.
    """
    if not isinstance(beta, str):
        return float(beta)
    members = {group: [label for label, of in zip(labels, groups, strict=True) if of == group] for group in "AB"}
    if beta == "parity":
        over, under = float(len(members["A"])), float(len(members["B"]))
    else:
        over, under = (sum(members[group]) / max(len(members[group]), 1) for group in "AB")
    if not under:
        raise ValueError(f"beta must be a number where group B has no {'documents' if beta == 'parity' else 'merit'}")
    return over / under
