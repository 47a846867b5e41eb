"""The click-through rate of every round."""

from __future__ import annotations

from torch import Tensor

from ol2r_cli.columns import Column
from ol2r_cli.interfaces import Measure, Rounds


class ClickThroughRate(Measure):
    """The share of the shown documents that are clicked."""

    trace = (Column("ctr", "click-through rate", higher_is_better=True),)

    def of_rounds(self, rounds: Rounds) -> dict[str, Tensor]:
        """Return clicks divided by shown documents."""
        return {"ctr": rounds.clicks.sum(2) / rounds.shown.sum(2)}
