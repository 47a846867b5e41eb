"""CascadeUCB1 and CascadeKL-UCB for one query, and what clicks say of the documents in each form of feedback.

Kveton, Szepesvari, Wen, Ashkan: Cascading Bandits: Learning to Rank in the Cascade Model (ICML 2015), Algorithm 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf, log, sqrt

from scipy.optimize import brentq


def observed(clicks: Sequence[int], feedback: str) -> int:
    """Number of places, from the top, that count as examined."""
    clicked = [place for place, click in enumerate(clicks, 1) if click]
    if feedback == "all" or not clicked:
        return len(clicks)
    return clicked[0] if feedback == "first_click" else clicked[-1]


def kl(p: float, q: float) -> float:
    """The divergence of a coin with probability q from one with probability p."""
    total = 0.0
    if p > 0:
        total += p * log(p / q) if q > 0 else inf
    if p < 1:
        total += (1 - p) * log((1 - p) / (1 - q)) if q < 1 else inf
    return total


def ucb1(clicks: int, count: int, t: int, alpha: float = 1.5) -> float:
    """The index of CascadeUCB1."""
    return clicks / count + sqrt(alpha * log(t) / count)


def kl_ucb(clicks: int, count: int, t: int, c: float = 3.0) -> float:
    """The index of CascadeKL-UCB: a root, found by Brent's method."""
    mean = clicks / count
    budget = log(t)
    if c > 0:
        budget = budget + c * log(log(t)) if t > 1 else 0.0
    if budget <= 0 or mean == 1:
        return mean
    return brentq(lambda q: count * kl(mean, q) - budget if q < 1 else 1.0, mean, 1.0, xtol=1e-15, rtol=1e-15)


@dataclass
class CascadeBandit:
    """Documents 0 .. documents - 1 of one query. `index` is one of the two above."""

    documents: int
    feedback: str
    index: object
    t: int = 1  # number of the coming round of this query
    count: list[int] = field(init=False)
    clicks: list[int] = field(init=False)

    def __post_init__(self) -> None:
        """Nothing has been observed."""
        self.count, self.clicks = [0] * self.documents, [0] * self.documents

    def scores(self) -> list[float]:
        """An index for each document, infinite where it was never examined."""
        pairs = zip(self.clicks, self.count, strict=True)
        return [self.index(clicks, count, self.t) if count else inf for clicks, count in pairs]

    def learn(self, shown: Sequence[int], clicks: Sequence[int]) -> None:
        """The list that was shown, and its clicks by place."""
        examined = observed(clicks, self.feedback)
        for document, click in zip(shown[:examined], clicks[:examined], strict=True):
            self.count[document] += 1
            self.clicks[document] += click
        self.t += 1
