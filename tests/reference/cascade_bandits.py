"""CascadeUCB1 and CascadeKL-UCB for one query, and what clicks say of the documents in each form of feedback.

Kveton, Szepesvari, Wen, Ashkan: Cascading Bandits: Learning to Rank in the Cascade Model (ICML 2015), Algorithm 1. For
users who change, CascadeDUCB and CascadeSWUCB: Li, de Rijke: Cascading Non-Stationary Bandits (IJCAI 2019). They have
the index of CascadeUCB1, with alpha = 4 epsilon or epsilon, of sums that forget.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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


def ucb1(clicks: float, count: float, t: float, alpha: float = 1.5) -> float:
    """The index of CascadeUCB1."""
    return clicks / count + sqrt(alpha * log(t) / count)


def kl_ucb(clicks: float, count: float, t: float, c: float = 3.0) -> float:
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
    """Documents 0 .. documents - 1 of one query. `index` is one of the two above; every sum goes over all rounds so
    far, of which a window leaves the newest, and a discount something of each."""

    documents: int
    feedback: str
    index: Callable[[float, float, float], float]
    discount: float = 1.0
    window: int | None = None
    rounds: list[dict[int, int]] = field(default_factory=list)  # of each round, examined documents and their clicks

    def weights(self, rounds: int) -> list[float]:
        """What so many rounds count, the newest first."""
        return [self.discount**age for age in range(min(rounds, self.window or rounds))]

    def sums(self, document: int) -> tuple[float, float]:
        """Weighted clicks on a document, and weighted rounds in which it was examined."""
        clicks = count = 0.0
        for weight, examined in zip(self.weights(len(self.rounds)), reversed(self.rounds), strict=False):
            if document in examined:
                clicks += weight * examined[document]
                count += weight
        return clicks, count

    def scores(self) -> list[float]:
        """An index for each document, infinite where no examination counts."""
        t, sums = sum(self.weights(len(self.rounds) + 1)), map(self.sums, range(self.documents))
        return [self.index(clicks, count, t) if count else inf for clicks, count in sums]

    def learn(self, shown: Sequence[int], clicks: Sequence[int]) -> None:
        """The list that was shown, and its clicks by place."""
        examined = observed(clicks, self.feedback)
        self.rounds.append(dict(zip(shown[:examined], map(int, clicks[:examined]), strict=True)))
