"""No fairness constraint: serve the draft."""

from __future__ import annotations

from torch import Tensor

from ol2r_cli.interfaces import Candidates, Draft, Fairness
from ol2r_cli.random import Random
from ol2r_cli.shapes import Int


class NoFairness(Fairness):
    """Leaves the proposed order as it is."""

    rearranges = False

    def arrange(self, draft: Draft, candidates: Candidates, random: Random) -> Int[Tensor, "B O"]:
        """The draft's order."""
        return draft.order
