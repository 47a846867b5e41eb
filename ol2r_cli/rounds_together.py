"""Many rounds in one call of a compiled loop (loops/play.py), where the roles of a run allow it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from ol2r_cli import loops
from ol2r_cli.dataset.table import Split
from ol2r_cli.intent.schedules import DrawnIntents
from ol2r_cli.interfaces import CERTAIN, ClickModel, Exploration, Fairness, Measure, Ranker, Role, RunContext
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
_NO_BLOCKS = np.empty((0, 0, 0), np.int16), np.empty((0, 0, 0, 0), np.bool_)
_ROUNDS, _REPLICA_ROUNDS = 1024, 4096  # most that are measured together


class RoundsTogether:
    """Plays the rounds of these roles, and records them in `measurement`, by one call for many rounds.

    Every stage is the loop that a role calls for a single round, with the same random numbers.
    """

    def __init__(
        self,
        split: Split,
        intents: DrawnIntents | None,
        streams: Streams,
        measurement: Measurement,
        ranker: Ranker,
        exploration: Exploration,
        click: ClickModel,
        recording: Sequence[Measure],
    ):
        assert split.rows is not None
        assert streams.seeds is not None
        numbers = {field: crc32(stream.encode()) for field, stream in _STREAMS.items()}
        self.numbers = loops.play.Numbers(streams.seeds, **numbers)
        rows = split.rows
        self.queries = loops.play.Queries(rows.table, split.label_of, split.group_of, rows.start, rows.length)
        self.intents, self.streams, self.measurement = intents, streams, measurement
        self.recording = recording  # at most one: that of the blocks
        if not recording:
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
        listing, parameter, most, intervals = strategy
        kind_of_user, *probabilities = user
        kind, pairs, *state, newton = learner
        intervals, newton = (_in_precision(each, learner.theta.dtype) for each in (intervals, newton))
        play = loops.play.playing(listing, kind_of_user, kind, pairs)
        roles = parameter, intervals, tuple(probabilities), tuple(state), newton
        rounds = min(rounds, most)
        record = self._record(first + 1, rounds)
        given = tuple(self.queries), self._intents(first, rounds, replicas), tuple(self.numbers)
        played = play(first, rounds, *given, *roles, directions, record)
        self.measurement.take_back(rounds - played)
        for role in self.ranker, self.exploration:
            role.after_loops(played)
        return played

    def _intents(self, first: int, rounds: int, replicas: int) -> NDArray[np.int64]:
        return np.zeros((rounds, replicas), np.int64) if self.intents is None else self.intents(first, rounds).numpy()

    def _record(self, first: int, rounds: int) -> tuple[NDArray[Any], ...]:
        rows = slice(self.measurement.recorded, self.measurement.recorded + rounds)
        written = self.measurement.rows_for(first, rounds)
        blocks = [array[rows] for measure in self.recording for array in measure.for_loops()]
        return *written, *(blocks or _NO_BLOCKS)


def rounds_together(
    context: RunContext,
    split: Split,
    intents: DrawnIntents | None,
    streams: Streams,
    measurement: Measurement,
    ranker: Ranker,
    exploration: Exploration,
    fairness: Fairness,
    click: ClickModel,
) -> RoundsTogether | None:
    """What plays the rounds of these roles together; None if they must be played one by one.

    That is so if a role has no compiled form, and if a measure has none that receives these rounds.
    """
    if not context.loops:  # then numba may be absent, and tensors on a GPU
        return None
    with_blocks = CERTAIN in exploration.offers
    recording = [measure for measure in measurement.recording if with_blocks or not measure.needs_blocks]
    parts: tuple[Role | Measure, ...] = (ranker, exploration, fairness, click, *recording)
    if not all(_has_form_for_loops(part) for part in parts):
        return None
    return RoundsTogether(split, intents, streams, measurement, ranker, exploration, click, recording)


def _in_precision(state: Iterable[Any], dtype: Any) -> tuple[Any, ...]:
    """Return the state with this precision where it is empty, so that machine code fits."""
    empty = (isinstance(each, np.ndarray) and each.dtype.kind == "f" and not each.size for each in state)
    return tuple(each.astype(dtype) if is_empty else each for each, is_empty in zip(state, empty, strict=True))


def _has_form_for_loops(part: Role | Measure) -> bool:
    return "for_loops" in vars(type(part)) and part.for_loops() is not None
