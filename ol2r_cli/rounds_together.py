"""Many rounds in one call of a compiled loop (loops/play.py), where the roles of a run allow it."""

from __future__ import annotations

from typing import Any
from zlib import crc32

import numpy as np

from ol2r_cli import loops
from ol2r_cli.dataset.table import Split
from ol2r_cli.interfaces import ClickModel, Exploration, Fairness, Ranker, Role, RunContext
from ol2r_cli.metrics.measurement import Measurement
from ol2r_cli.tensor.streams import Streams

_STREAMS = {
    "query": "query/",
    "explore": "explore/",
    "document": "explore/document",
    "coin": "explore/coin",
    "turns": "explore/turns",
    "author": "explore/author",
    "click": "click/",
    "pairs": "pairs/",
}  # field of loops.play.Numbers -> stream
_DIRECTIONS = 1 << 20  # numbers that are drawn at once, or those of one round
_ROUNDS, _REPLICA_ROUNDS = 1024, 4096  # most that are measured together


class RoundsTogether:
    """Plays the rounds of these roles, and records them in `measurement`, by one call for many rounds.

    Every stage is the loop that a role calls for a single round, with the same random numbers.
    """

    def __init__(
        self,
        split: Split,
        streams: Streams,
        measurement: Measurement,
        ranker: Ranker,
        exploration: Exploration,
        click: ClickModel,
    ):
        assert split.rows is not None
        assert streams.seeds is not None
        numbers = {field: crc32(stream.encode()) for field, stream in _STREAMS.items()}
        self.numbers = loops.play.Numbers(streams.seeds, **numbers)
        rows = split.rows
        self.queries = loops.play.Queries(rows.table, split.label_of, split.group_of, rows.start, rows.length)
        self.streams, self.measurement = streams, measurement
        measurement.allocate(max(measurement.ROUNDS, min(_ROUNDS, _REPLICA_ROUNDS // streams.replicas)))
        self.ranker: Any = ranker
        self.exploration, self.click = exploration, click

    def __call__(self, first: int, most: int) -> int:
        """Play up to `most` rounds from number `first`, from 0, on; returns how many were played."""
        learner = self.ranker.for_loops()
        replicas, features = learner.theta.shape
        drawn = replicas * learner.candidates * features
        rounds = min(most, max(1, _DIRECTIONS // drawn)) if drawn else most
        directions = np.empty((0, replicas, 0, features), learner.theta.dtype)
        if drawn:
            sources = [self.streams.at("judge", first + row) for row in range(rounds)]
            directions = self.ranker.directions_of(sources).numpy()
        strategy, user = self.exploration.for_loops(), self.click.for_loops()
        record = loops.play.Record(*self.measurement.rows_for(first + 1, rounds))
        roles = tuple(strategy), tuple(user), tuple(learner)
        loops.play.play(first, rounds, tuple(self.queries), tuple(self.numbers), *roles, directions, tuple(record))
        return rounds


def rounds_together(
    context: RunContext,
    split: Split,
    streams: Streams,
    measurement: Measurement,
    ranker: Ranker,
    exploration: Exploration,
    fairness: Fairness,
    click: ClickModel,
) -> RoundsTogether | None:
    """What plays the rounds of these roles together; None if they must be played one by one.

    That is so if a role has no compiled form, and if a measure receives every round.
    """
    if not context.loops or measurement.receives_rounds:  # without loops, numba may be absent, and tensors on a GPU
        return None
    if not all(map(_has_form_for_loops, (ranker, exploration, fairness, click))):
        return None
    return RoundsTogether(split, streams, measurement, ranker, exploration, click)


def _has_form_for_loops(role: Role) -> bool:
    return "for_loops" in vars(type(role)) and role.for_loops() is not None
