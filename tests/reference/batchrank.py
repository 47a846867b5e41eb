"""BatchRank for one query, batch by batch.

Zoghi, Tunys, Ghavamzadeh, Kveton, Szepesvari, Wen: Online Learning to Rank in Stochastic Click Models (ICML 2017),
Algorithms 1 (BatchRank), 2 (DisplayBatch), 3 (CollectClicks) and 4 (UpdateBatch).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, log

from scipy.optimize import brentq

from tests.reference.cascade_bandits import kl


def bounds(mean: float, budget: float) -> tuple[float, float]:
    """The smallest and the largest q with KL(mean, q) <= budget, by Brent's method."""

    def root(end: float) -> float:
        if mean == end:
            return end
        exact = {"xtol": 1e-15, "rtol": 1e-15}
        return brentq(lambda q: 1.0 if q == end else kl(mean, q) - budget, mean, end, **exact)

    return root(0.0), root(1.0)


@dataclass
class Batch:
    """Documents that share the places `first` to `last`, counted from 0, `last` included."""

    first: int
    last: int
    documents: list[int]
    stage: int = 0
    displays: dict[int, int] = field(init=False)
    clicks: dict[int, int] = field(init=False)

    def __post_init__(self) -> None:
        """A stage begins without displays."""
        self.displays, self.clicks = dict.fromkeys(self.documents, 0), dict.fromkeys(self.documents, 0)

    @property
    def size(self) -> int:
        """len(b): its number of places."""
        return self.last - self.first + 1


@dataclass
class BatchRank:
    """Documents 0 .. documents - 1 of one query, shown on `places` places in at most `rounds` rounds."""

    documents: int
    places: int
    rounds: int
    batches: list[Batch] = field(init=False)

    def __post_init__(self) -> None:
        """One batch with everything."""
        self.batches = [Batch(0, min(self.places, self.documents) - 1, list(range(self.documents)))]

    def display(self, chance: Sequence[float], place: Sequence[float]) -> list[int]:
        """The list: each batch shows its least displayed documents (first those of least `chance`), by `place`."""
        shown = []
        for batch in self.batches:
            least = sorted(batch.documents, key=lambda d: (batch.displays[d], chance[d]))[: batch.size]
            shown += sorted(least, key=lambda d: place[d])
        return shown

    def learn(self, shown: Sequence[int], clicks: Sequence[int]) -> None:
        """The list that was shown, and its clicks by place."""
        for batch in list(self.batches):
            least = min(batch.displays.values())
            for place in range(batch.first, batch.last + 1):
                document = shown[place]
                if batch.displays[document] == least:
                    batch.displays[document] += 1
                    batch.clicks[document] += clicks[place]
            needed = ceil(16 * 4**batch.stage * log(self.rounds))
            if min(batch.displays.values()) == needed:
                place = self.batches.index(batch)
                self.batches[place : place + 1] = self.update(batch, needed)

    def update(self, batch: Batch, needed: int) -> list[Batch]:
        """The two parts of a batch that is complete, or the batch in its next stage."""
        budget = (log(self.rounds) + 3 * log(log(self.rounds))) / needed
        lower, upper = {}, {}
        for document in batch.documents:
            lower[document], upper[document] = bounds(batch.clicks[document] / needed, budget)
        ordered = sorted(batch.documents, key=lambda d: (-lower[d], d))
        split = 0
        for k in range(1, batch.size):
            if lower[ordered[k - 1]] > max(upper[document] for document in ordered[k:]):
                split = k
        if split:
            middle = batch.first + split
            return [Batch(batch.first, middle - 1, ordered[:split]), Batch(middle, batch.last, ordered[split:])]
        worst = lower[ordered[batch.size - 1]]
        kept = [document for document in batch.documents if upper[document] >= worst]
        return [Batch(batch.first, batch.last, kept, batch.stage + 1)]
