"""FairExp: which of all group placements is shown.

Jia and Wang, "Calibrating Explore-Exploit Trade-off for Fair Online Learning to Rank" (2021), sections 4.2.1, 4.2.2
and, for the fallback, 5.2.1; Jia's dissertation, chapter 3, Algorithm 3, lines 5 and 8 to 11.

What the paper leaves open: two templates of the same added regret (here the less unfair one), and of the same |UF| as
well (here the first in the order of `templates`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import NamedTuple

from tests.reference.exposure import projected
from tests.reference.fairswap import is_fillable, merge
from tests.reference.shuffles import Order

DECIMALS = 9  # |UF| is compared to so many places: 1/2 and 1/3 + 1/6 tie, however they are summed


class Choice(NamedTuple):
    """The template that is shown."""

    template: str
    order: Order
    added: int  # regret
    unfairness: float  # UF_t, signed
    qualified: bool  # False: none of the fillable templates was, and this is the fallback


def templates(k: int, documents: int) -> list[str]:
    """All 2^k' placements of the groups, from AA..A to BB..B in alphabetical order; k' = min(k, documents)."""
    return ["".join(groups) for groups in product("AB", repeat=min(k, documents))]


def qualifies(template: str, before: float, exposed: Sequence[float], beta: float, epsilon: float) -> bool:
    """|UF_{t-1} + Exposure(A) - beta Exposure(B)| <= epsilon: the template belongs to the set Omega-bar."""
    return abs(projected(before, template, exposed, beta)) <= epsilon


def lists(order: Sequence[int], groups: str, k: int) -> dict[str, Order]:
    """The merged list of every template that the documents can fill."""
    return {
        template: merge(order, groups, template)
        for template in templates(k, len(order))
        if is_fillable(template, groups)
    }


def choose(
    arranged: Mapping[str, Order],
    added: Callable[[Order], int],
    before: float,
    exposed: Sequence[float],
    beta: float,
    epsilon: float,
) -> Choice:
    """The template, of those in `arranged`, whose list is shown after UF_{t-1} = `before`.

    Of the qualified ones that with the least added regret, ties by the least |UF_t|; if none qualifies, the one with
    the least |UF_t|, ties by the least added regret. What is level after that goes to the first in alphabetical order.

    `added` counts the certain pairs that a list breaks: see `violations.broken`, of the whole order or of the shown.
    """

    def unfair(template: str) -> float:
        return round(abs(projected(before, template, exposed, beta)), DECIMALS)

    qualified = [template for template in arranged if qualifies(template, before, exposed, beta, epsilon)]
    if qualified:
        best = min(qualified, key=lambda template: (added(arranged[template]), unfair(template), template))
    else:
        best = min(arranged, key=lambda template: (unfair(template), added(arranged[template]), template))
    order = arranged[best]
    return Choice(best, order, added(order), projected(before, best, exposed, beta), bool(qualified))
