"""Schedules of intents: users of one round may judge documents by other labels than those of another.

Zhuang and Zuccon, "How do Online Learning to Rank Methods Adapt to Changes of Intent?" (SIGIR 2021), change the intent
abruptly and smoothly, and mix groups of users. docs/algorithms/intents.md describes the schedules and the measures.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from ol2r_cli.config.ranges import Count, NonNegative, PositiveShare, Share
from ol2r_cli.interfaces import IntentSchedule
from ol2r_cli.tensor.shapes import Float, Int
from ol2r_cli.tensor.streams import Streams

Rounds = NDArray[np.int64]  # [R], from 0
Shares = NDArray[np.float64]  # [R, I]: rows sum to 1


class NoChange(IntentSchedule):
    """All users judge by the labels of the dataset."""

    changes = False

    def shares(self, rounds: Rounds) -> Shares:
        return np.ones((len(rounds), 1))


class Abrupt(IntentSchedule):
    """Phases of `every` rounds: in each, `share` of the users have its intent, the next number in `intents`.

    The other users are spread evenly over the other intents of the list. The last phase does not end.
    """

    def __init__(self, intents: Sequence[Count], every: Count, share: PositiveShare):
        super().__init__()
        self.intents, self.every = [int(intent) for intent in intents], int(every)
        if len(set(self.intents)) < 2:
            raise ValueError(f"intent.intents must name two intents or more, such as [1,2], got {list(intents)}")
        self.largest = max(self.intents)
        self.of_phase = np.zeros((len(self.intents), self.largest))  # [phases, I]
        distinct = np.unique(self.intents)
        for shares, intent in zip(self.of_phase, self.intents, strict=True):
            shares[distinct - 1] = (1 - float(share)) / (len(distinct) - 1)
            shares[intent - 1] = float(share)

    def shares(self, rounds: Rounds) -> Shares:
        return self.of_phase[self._place(rounds // self.every)]

    def warnings(self, rounds: int) -> list[str]:
        """Return a line if all rounds have the same shares."""
        shares = self.shares(np.arange(rounds))
        advice = f"users keep their intent in all {rounds:,} rounds: type intent.every={max(1, rounds // 2)} or less"
        return [advice] if (shares == shares[0]).all() else []

    def _place(self, phase: Rounds) -> Rounds:
        """Return which entry of the list each phase has, for phases from 0."""
        return np.minimum(phase, len(self.intents) - 1)


class Recurring(Abrupt):
    """As `Abrupt`, but after the last intent of the list comes the first again."""

    def _place(self, phase: Rounds) -> Rounds:
        return phase % len(self.intents)


class Smooth(Abrupt):
    """As `Abrupt`, but in the last `width` rounds of a phase, users move steadily to its successor's shares."""

    def __init__(self, intents: Sequence[Count], every: Count, width: NonNegative, share: PositiveShare):
        super().__init__(intents, every, share)
        if width > every:
            raise ValueError(f"intent.width must be at most intent.every, which is {every}, got {width}")
        self.width = int(width)

    def shares(self, rounds: Rounds) -> Shares:
        """Return the shares of the phase of each round, mixed with those of the next one."""
        phase, within = rounds // self.every, rounds % self.every
        moved = np.maximum(within - (self.every - self.width), 0)[:, None] / max(self.width, 1)
        now, then = self.of_phase[self._place(phase)], self.of_phase[self._place(phase + 1)]
        return (1 - moved) * now + moved * then


class Mixture(IntentSchedule):
    """Groups of users with different intents in every round: `shares` of intents 1, 2, .., which sum to 1."""

    def __init__(self, shares: Sequence[Share]):
        super().__init__()
        if not shares or abs(sum(shares) - 1) >= 1e-6:
            raise ValueError(f"intent.shares must sum to 1, such as [.5,.5], got {list(shares)}")
        self.of_all, self.largest = np.array(shares, dtype=np.float64), len(shares)

    def shares(self, rounds: Rounds) -> Shares:
        return np.tile(self.of_all, (len(rounds), 1))


class DrawnIntents:
    """The intent of each replica's user in each round, by seed and schedule; rounds and intents count from 0."""

    def __init__(self, schedule: IntentSchedule, streams: Streams):
        self.schedule, self.streams = schedule, streams

    def shares(self, first: int, rounds: int) -> Float[torch.Tensor, "R I"]:
        """Return the shares of the intents in so many rounds."""
        return torch.from_numpy(np.ascontiguousarray(self.schedule.shares(np.arange(first, first + rounds))))

    def __call__(self, first: int, rounds: int) -> Int[torch.Tensor, "R B"]:
        """Return the intents in so many rounds."""
        borders = self.shares(first, rounds).cumsum(1)[:, None, :-1].to(self.streams.device)
        return (self.streams.first_numbers("intent/", first, rounds)[..., None] >= borders).sum(-1)

    def at(self, round: int) -> Int[torch.Tensor, "B"]:
        """Return the intents in one round."""
        return self(round, 1)[0]
