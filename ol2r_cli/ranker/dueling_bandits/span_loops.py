"""Spans of vectors: orthonormal bases, and the document space (`DocumentSpace` in ranker/dueling_bandits/).

Lanes share the features of a vector: each of them reads and writes its own, so that none waits for another to do so.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from ol2r_cli.loops.compile import compiled, compiled_sums
from ol2r_cli.loops.dense import dot_of_lanes
from ol2r_cli.loops.lanes import barrier, lane, lanes
from ol2r_cli.loops.workspace import mark, release, take, take_integers, take_matrix

TOLERANCE = 1e-6  # features are float32: what is shorter, relative to the longest vector, is their rounding


class DocumentSpaceState(NamedTuple):
    """How many places `below` [B] the last click count, whether a projected step has length 1, `normalise` [B], and the
    documents [B, E] of earlier rounds as rows of the table, the newest last, -1 for none."""

    below: Any
    normalise: Any
    recent: Any


class ProjectedDirection(NamedTuple):
    """What `projects` projects: the documents, a `DocumentSpaceState`, and a direction [B, F]."""

    documents: Any
    direction: Any


def room_of_projection(rows: int, features: int) -> int:
    """Return how many numbers of the workspace `project` takes with so many documents at most."""
    return rows * (2 * features + 1) + features + 64


@compiled_sums
def add(vector, factor, other):
    """Add a factor of another vector to a vector [F]."""
    for f in range(lane(), len(vector), lanes()):
        vector[f] += factor * other[f]


@compiled
def remove(vector, basis, count, space):
    """Remove from a vector [F] its part in the span of the first `count` rows of an orthonormal basis."""
    for r in range(count):
        add(vector, -dot_of_lanes(vector, basis[r], space), basis[r])


@compiled
def orthonormalise(vectors, basis, space):
    """Write an orthonormal basis of the span of vectors [M, F] to the first rows of `basis`; return their number.

    Vectors may be zero, equal or collinear. Gram-Schmidt twice: the second time removes the rounding of the first.
    """
    longest, count = 0.0, 0
    for m in range(len(vectors)):
        longest = max(longest, math.sqrt(dot_of_lanes(vectors[m], vectors[m], space)))
    for m in range(len(vectors)):
        if count == len(basis):
            break
        rest = basis[count]
        for f in range(lane(), len(rest), lanes()):
            rest[f] = vectors[m, f]
        for _ in range(2):
            remove(rest, basis, count, space)
        length = math.sqrt(dot_of_lanes(rest, rest, space))
        if length > TOLERANCE * longest:
            for f in range(lane(), len(rest), lanes()):
                rest[f] /= length
            count += 1
    barrier()
    return count


@compiled
def project(b, space, round, table, documents, direction):
    """Leave of a direction [F] its part in the document space of the round, and add the round's documents to those of
    earlier rounds. `documents` is a `DocumentSpaceState`."""
    before = mark(space)
    features, recent = len(direction), documents.recent[b]
    rows = take_integers(space, len(recent) + len(round.ranking))
    count = rows_that_count(round, documents.below[b], recent, rows)
    vectors = take_matrix(space, count, features)
    most = min(count, features)
    basis, whole = take_matrix(space, most, features), take(space, features)
    for r in range(count):
        for f in range(lane(), features, lanes()):
            vectors[r, f] = table[rows[r], f]
    for f in range(lane(), features, lanes()):
        whole[f], direction[f] = direction[f], 0.0
    for r in range(orthonormalise(vectors, basis, space)):
        add(direction, dot_of_lanes(whole, basis[r], space), basis[r])
    length = math.sqrt(dot_of_lanes(direction, direction, space))
    if documents.normalise[b] and length > 0:
        for f in range(lane(), features, lanes()):
            direction[f] /= length
    for place in range(lane(), len(recent), lanes()):
        kept = count - len(recent) + place
        recent[place] = rows[kept] if kept >= 0 else -1
    barrier()
    release(space, before)


@compiled
def projects(b, space, round, queries, projected):
    """Leave of the direction of a replica its part in the document space of the round (`project`)."""
    project(b, space, round, queries.table, projected.documents, projected.direction[b])


@compiled
def rows_that_count(round, below, recent, rows):
    """Write which rows of the table span the document space, the newest last, and return their number."""
    places, end, count = len(round.ranking), 0, 0
    for place in range(places):
        if round.clicks[place]:
            end = min(places, place + 1 + below)
    for place in range(len(recent) + end):
        row = recent[place] if place < len(recent) else round.start + round.ranking[place - len(recent)]
        if row >= 0:
            if lane() == 0:
                rows[count] = row
            count += 1
    barrier()
    return count
