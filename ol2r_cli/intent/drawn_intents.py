"""The intents of all users of a run, as its seeds and a schedule decide them, whatever the ranker does."""

from __future__ import annotations

import numpy as np
import torch

from ol2r_cli.interfaces import IntentSchedule
from ol2r_cli.tensor.shapes import Float, Int
from ol2r_cli.tensor.streams import Streams

_AHEAD = 256  # rounds drawn together where single rounds are asked for


class DrawnIntents:
    """Draws the intent of each replica's user in each round; rounds and intents count from 0 here."""

    def __init__(self, schedule: IntentSchedule, streams: Streams):
        self.schedule, self.streams = schedule, streams
        self._first, self._drawn = 0, torch.empty(0, 0, dtype=torch.int64)

    def shares(self, first: int, rounds: int) -> Float[torch.Tensor, "R I"]:
        """Return the shares of the intents in so many rounds."""
        return torch.from_numpy(np.ascontiguousarray(self.schedule.shares(np.arange(first, first + rounds))))

    def __call__(self, first: int, rounds: int) -> Int[torch.Tensor, "R B"]:
        """Return the intents in so many rounds."""
        borders = self.shares(first, rounds).cumsum(1)[:, None, :-1].to(self.streams.device)
        return (self.streams.first_numbers("intent/", first, rounds)[..., None] >= borders).sum(-1)

    def at(self, round: int) -> Int[torch.Tensor, "B"]:
        """Return the intents in one round."""
        if not self._first <= round < self._first + len(self._drawn):
            self._first, self._drawn = round, self(round, _AHEAD)
        return self._drawn[round - self._first]
