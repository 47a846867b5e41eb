"""Null space gradient descent: what it stores, what it draws, and who wins.

Wang, Langley, Kim, McCord-Snook, Wang, Efficient Exploration of Gradient Space for Online Learning to Rank (SIGIR
2018). The numbers of stored directions and queries, and when they are stored, are those of the authors' code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tests.reference.arrays import Vector


@dataclass
class LostDirections:
    """A ring of directions that lost, each with the clicks that it earned less those of the current ranker."""

    room: int
    directions: list[Vector] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    place: int = 0

    def store(self, directions: Sequence[Vector], earned: Sequence[float]) -> None:
        """Store the candidates that earned less than the current ranker, member 0, and no more than the fourth least of
        all members did."""
        limit = sorted(earned)[:4][-1]
        for direction, clicks in zip(directions, earned[1:], strict=True):
            if clicks < earned[0] and clicks <= limit:
                if len(self.values) < self.room:
                    self.directions.append(direction)
                    self.values.append(clicks - earned[0])
                else:
                    self.directions[self.place], self.values[self.place] = direction, clicks - earned[0]
                self.place = (self.place + 1) % self.room

    def worst(self, count: int) -> list[Vector]:
        """The `count` with the lowest values; of equal ones those at the later places."""
        order = sorted(range(len(self.values)), key=lambda place: (self.values[place], -place))
        return [self.directions[place] for place in order[:count]]


def null_space_direction(normals: Vector, avoided: Sequence[Vector]) -> Vector:
    """Uniform on the unit sphere of the null space of the avoided directions, if `normals` are standard normals.

    What a vector has in the null space is what is left when the nearest combination of the others is taken away.
    """
    left = np.asarray(normals, dtype=np.float64)
    if len(avoided):
        rows = np.array(avoided).T
        left = left - rows @ np.linalg.lstsq(rows, left, rcond=1e-9)[0]
    return left / np.sqrt(left @ left)


def preselected(directions: Sequence[Vector], documents: Sequence[Vector], count: int) -> list[Vector]:
    """The `count` directions with the largest |u.x|, where x is the mean document, in that order; all of them, as
    drawn, if there are no more."""
    if len(directions) == count:
        return list(directions)
    mean = sum(documents) / len(documents)
    return sorted(directions, key=lambda direction: -abs(direction @ mean))[:count]


@dataclass
class StoredQuery:
    """A query that was served: its documents, which of them were clicked, the sum of 1/rank of those, and when."""

    documents: list[Vector]
    clicked: list[int]
    ease: float
    round: int


@dataclass
class StoredQueries:
    """Difficult queries, in the order of their places."""

    room: int
    window: int
    queries: list[StoredQuery] = field(default_factory=list)

    def store(self, documents: Sequence[Vector], listed: Sequence[int], clicks: Sequence[bool], round: int) -> None:
        """Store a query with a click, if there is room; otherwise in place of the first that is older than the window,
        or of the easiest if that is easier."""
        clicked = [document for document, click in zip(listed, clicks, strict=True) if click]
        if not clicked:
            return
        ease = float(np.float32(sum(1 / rank for rank, click in enumerate(clicks, start=1) if click)))
        new = StoredQuery(list(documents), clicked, ease, round)
        if len(self.queries) < self.room:
            self.queries.append(new)
            return
        old = [place for place, query in enumerate(self.queries) if round - query.round > self.window]
        eases = [query.ease for query in self.queries]
        if old:
            self.queries[old[0]] = new
        elif ease < max(eases):
            self.queries[eases.index(max(eases))] = new

    def quality(self, weights: Vector) -> float:
        """The sum of 1/rank of everything that was clicked, where these weights rank all documents; equal documents
        share the best of their ranks."""
        total = 0.0
        for query in self.queries:
            scores = [document @ weights for document in query.documents]
            for document in query.clicked:
                total += 1 / (1 + sum(score > scores[document] + 1e-9 for score in scores))
        return total


def winner(won: Sequence[int], members: Sequence[Vector], queries: StoredQueries) -> list[int]:
    """The members that the ranker moves to: of several that won the best at stored queries, the first of equals."""
    if len(won) < 2:
        return list(won)
    qualities = [queries.quality(members[member]) for member in won]
    best = max(qualities)
    return [next(member for member, quality in zip(won, qualities, strict=True) if quality > best - 1e-9)]
