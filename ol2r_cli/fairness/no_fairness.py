"""No fairness constraint: serve the proposal."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ol2r_cli.interfaces import Candidates, Fairness, Proposal
from ol2r_cli.tensor.shapes import Int
from ol2r_cli.tensor.streams import Random


class NoFairness(Fairness):
    """Leaves the proposed order unchanged."""

    reranks = False

    def rerank(self, proposal: Proposal, candidates: Candidates, random: Random) -> Int[Tensor, "B O"]:
        """Return the proposed order."""
        return proposal.order

    def for_loops(self) -> Any:
        """Nothing: proposals are served."""
        return ()
