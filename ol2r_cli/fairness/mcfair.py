"""MCFair: exposure in proportion to relevance by the gradient of the disparity (Yang, Xu, Wang, Tran and Ai,
"Marginal-Certainty-aware Fair Ranking Algorithm", WSDM 2023; `GradFair` with `MarginalUncertainty` in their code)."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from ol2r_cli.config.ranges import NonNegative
from ol2r_cli.fairness.fairco import NEEDS_ESTIMATES, by_sum
from ol2r_cli.interfaces import Candidates, Fairness, Interaction, Oracle, Proposal, RunContext
from ol2r_cli.tensor.shapes import Bool, Float, Int
from ol2r_cli.tensor.streams import Random

LEAST_EXPOSURE = 1e-5  # that clicks are divided by, as in the authors' code
LEAST_SQUARE = 0.1  # of the exposure, in the marginal certainty, as in the authors' code


class MCFair(Fairness):
    """Sorts by R + `gain` x q / max |q| + `certainty` / max(E^2, 0.1). Equal sums keep the proposed order.

    E is the exposure of the document so far and R its relevance: its clicks over E (`estimated`), or the ranker's
    score (`ranker`). q = R (E.R) - E (R.R) is -1/4 of the gradient in E of the disparity, the sum over pairs of
    (E_i R_j - E_j R_i)^2, so that documents with too little exposure have a positive q. E.R is a sum over the query's
    documents. With `between=groups`, E and R in q are means over the query's documents of each group, and q is that of
    the document's group. `gain` and `certainty` are in units of relevance.
    """

    exposed: Tensor
    clicked: Tensor

    def __init__(
        self,
        gain: NonNegative,
        certainty: NonNegative,
        relevance: Literal["estimated", "ranker"],
        between: Literal["documents", "groups"],
    ):
        super().__init__()
        for name, value in ("gain", gain), ("certainty", certainty):
            if math.isinf(value):
                raise ValueError(f"{self.setting(name)} must be finite, got {value}")
        self.gain, self.certainty, self.relevance, self.between = gain, certainty, relevance, between
        self.needs = NEEDS_ESTIMATES if relevance == "ranker" else ()

    def setup(self, context: RunContext, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """Reset exposure and clicks of every row to zero; ValueError without groups where they are needed."""
        self.groups = self.all_groups(context).groups if self.between == "groups" else 0
        self.position = context.exposure_of_places()
        shape = context.replicas, len(features)
        for name in "exposed", "clicked":
            self.register_buffer(name, torch.zeros(shape, dtype=torch.float64, device=context.device))

    def rerank(self, proposal: Proposal, candidates: Candidates, random: Random) -> Int[Tensor, "B O"]:
        """Sort all candidates."""
        exposed, clicked = (state.gather(1, candidates.document) for state in (self.exposed, self.clicked))
        relevance = clicked / exposed.clamp(min=LEAST_EXPOSURE)
        if self.relevance == "ranker":
            relevance = proposal.scores.double()
        owed = self.owed(exposed, relevance.clamp(min=0), candidates)
        owed /= owed.abs().amax(1, keepdim=True).clamp(min=torch.finfo(owed.dtype).tiny)
        uncertainty = 1 / exposed.square().clamp(min=LEAST_SQUARE)
        sums = relevance + self.gain * owed + self.certainty * uncertainty
        return by_sum(proposal.order, sums, candidates.mask)

    def owed(
        self, exposed: Float[Tensor, "B D"], relevance: Float[Tensor, "B D"], candidates: Candidates
    ) -> Float[Tensor, "B D"]:
        """Return q of every document, 0 for padding."""
        if not self.groups:
            return gradient(exposed * candidates.mask, relevance * candidates.mask)
        assert candidates.group is not None
        group = candidates.group.long()
        members: Bool[Tensor, "B G D"] = torch.stack([group == number for number in range(self.groups)], 1)
        members &= candidates.mask[:, None]
        size = members.sum(2).clamp(min=1)
        means = [(value[:, None] * members).sum(2) / size for value in (exposed, relevance)]
        return gradient(*means).gather(1, group) * candidates.mask

    def learn(self, interaction: Interaction, random: Random) -> None:
        """Add exposure and clicks of the shown documents to their rows."""
        row = interaction.candidates.document.gather(1, interaction.ranking)
        self.exposed.scatter_add_(1, row, self.position[: row.shape[1]] * interaction.shown)
        self.clicked.scatter_add_(1, row, (interaction.clicks & interaction.shown).double())


def gradient(exposed: Float[Tensor, "B n"], relevance: Float[Tensor, "B n"]) -> Float[Tensor, "B n"]:
    """Return q = R (E.R) - E (R.R): 0 where E is proportional to R; the sum of q R is always 0."""
    product = (exposed * relevance).sum(1, keepdim=True)
    return relevance * product - exposed * relevance.square().sum(1, keepdim=True)
