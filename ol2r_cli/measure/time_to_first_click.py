"""The time to the first click, in documents (Radlinski, Kurup and Joachims, CIKM 2008, "Time to First Click")."""

from __future__ import annotations

import torch
from torch import Tensor

from ol2r_cli.columns import Column
from ol2r_cli.interfaces import Measure, Rounds


class TimeToFirstClick(Measure):
    """The rank of the first click from the top. A simulated user has no clock, so that time is counted in documents.

    It does not apply to a round without a click.
    """

    trace = (Column("time_to_first_click", "time to first click", higher_is_better=False, digits=2),)

    def of_rounds(self, rounds: Rounds) -> dict[str, Tensor]:
        """Return the rank of the first clicked place, NaN without one."""
        rank = 1 + rounds.clicks.int().argmax(2)
        return {"time_to_first_click": torch.where(rounds.clicks.any(2), rank.double(), torch.nan)}
