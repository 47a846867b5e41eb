"""CascadeUCB1 and CascadeKL-UCB for one query, and what clicks say of the documents in each form of feedback.

Kveton, Szepesvari, Wen, Ashkan: Cascading Bandits: Learning to Rank in the Cascade Model (ICML 2015), Algorithm 1. For
users who change, CascadeDUCB and CascadeSWUCB: Li, de Rijke: Cascading Non-Stationary Bandits (IJCAI 2019).
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


@dataclass
class ForgettingBandit:
    """CascadeDUCB, or with a window CascadeSWUCB, for one query: every sum goes over all rounds so far."""

    documents: int
    feedback: str
    epsilon: float
    discount: float = 1.0
    window: int | None = None
    rounds: list[dict[int, int]] = field(default_factory=list)  # of each round, examined documents and their clicks

    def sums(self, document: int) -> tuple[float, float]:
        """Weighted clicks on a document, and weighted rounds in which it was examined."""
        clicks = count = 0.0
        for age, examined in enumerate(reversed(self.rounds)):
            if document in examined and (self.window is None or age < self.window):
                clicks += self.discount**age * examined[document]
                count += self.discount**age
        return clicks, count

    def scores(self) -> list[float]:
        """A bound for each document, infinite where no examination counts."""
        t, bounds = len(self.rounds) + 1, []
        for document in range(self.documents):
            clicks, count = self.sums(document)
            if self.window is None and count:
                rounds = sum(self.discount**age for age in range(t))
                bounds.append(clicks / count + 2 * sqrt(self.epsilon * log(rounds) / count))
            elif count:
                bounds.append(clicks / count + sqrt(self.epsilon * log(min(t, self.window)) / count))
            else:
                bounds.append(inf)
        return bounds

    def learn(self, shown: Sequence[int], clicks: Sequence[int]) -> None:
        """The list that was shown, and its clicks by place."""
        examined = observed(clicks, self.feedback)
        self.rounds.append(dict(zip(shown[:examined], map(int, clicks[:examined]), strict=True)))
