"""Fairness by what documents or groups are owed for their relevance: none at all, FairCo and MCFair.

Both add what is owed to the relevance of a document and sort by the sum, so that no estimate of certainty is needed.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from ol2r_cli.config.ranges import NonNegative
from ol2r_cli.interfaces import (
    BY_SCORE,
    RELEVANCE,
    Candidates,
    Fairness,
    Interaction,
    Need,
    Oracle,
    Proposal,
    RunContext,
)
from ol2r_cli.tensor.shapes import Bool, Float, Int, Shaped
from ol2r_cli.tensor.streams import Random

LEAST = 1e-4  # smallest merit of a group, as in FairCo's code, and smallest exposure of a place
LEAST_EXPOSURE = 1e-5  # that clicks are divided by, as in MCFair's code
LEAST_SQUARE = 0.1  # of the exposure, in the marginal certainty, as in MCFair's code
COARSE = 29  # bits of a float64 beyond the precision of float32: scores that differ only in these bits are equal
# Of a fairness that sorts by sums of relevance and promotion: its sums would undo any exploration.
NEEDS_ESTIMATES = (Need(RELEVANCE, "ranker=ips_regression with exploration=none"), Need(BY_SCORE, "exploration=none"))


class NoFairness(Fairness):
    """Leaves the proposed order unchanged."""

    reranks = False

    def rerank(self, proposal: Proposal, candidates: Candidates, random: Random) -> Int[Tensor, "B O"]:
        """Return the proposed order."""
        return proposal.order

    def stages(self) -> Any:
        """Return what is not None: proposals are served."""
        return ()


class FairCo(Fairness):
    """Sorts by estimated relevance + `gain` x err. Documents with equal sums keep the proposed order.

    err of a document's group is the largest of all groups' exposure per unit of merit so far, minus the group's own.
    `gain` is lambda, in units of relevance per unit of exposure over merit. `merit` of a group is its mean label in the
    training split (`labels`), its mean of clicks over exposure among the documents shown so far (`estimated`), or
    what the run's `beta` says: beta for group 0 and 1 for group 1 (`beta`). Morik, Singh, Hong and Joachims,
    "Controlling Fairness and Bias in Dynamic Learning-to-Rank" (SIGIR 2020), section 6.
    """

    needs = NEEDS_ESTIMATES

    exposed: Tensor
    clicked: Tensor
    shown: Tensor

    def __init__(self, gain: NonNegative, merit: Literal["labels", "estimated", "beta"]):
        super().__init__()
        self.gain, self.merit, self.needs_labels = gain, merit, merit == "labels"

    def setup(self, context: RunContext, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """Reset exposure and clicks to zero; ValueError if the dataset does not have two groups or more."""
        self.exposure = self.all_groups(context)
        shape = context.replicas, self.exposure.groups
        merit = torch.tensor(self.exposure.merits(), dtype=torch.float64)
        if self.merit == "labels":  # of the training split; 0 for a group without documents
            assert oracle is not None
            assert oracle.group is not None
            group, labels = oracle.group[oracle.rows()].long(), oracle.labels[oracle.rows()].double()
            sizes = torch.bincount(group, minlength=self.exposure.groups)
            merit = torch.bincount(group, labels, self.exposure.groups) / sizes.clamp(min=1)
        self.fixed_merit = merit.to(context.device)  # [G]; not used if merit is estimated
        for name in "exposed", "clicked", "shown":
            self.register_buffer(name, torch.zeros(shape, dtype=torch.float64, device=context.device))

    def errors(self) -> Float[Tensor, "B G"]:
        """Return err of all groups: 0 for one of them, 0 or more for the others."""
        merit = self.clicked / self.shown.clamp(min=1) if self.merit == "estimated" else self.fixed_merit
        share = self.exposed / merit.clamp(min=LEAST)
        return share.amax(1, keepdim=True) - share

    def rerank(self, proposal: Proposal, candidates: Candidates, random: Random) -> Int[Tensor, "B O"]:
        """Sort all candidates by relevance + gain x err."""
        assert candidates.group is not None
        promoted = proposal.scores.double() + self.gain * self.errors().gather(1, candidates.group.long())
        return by_sum(proposal.order, promoted, candidates.mask)

    def learn(self, interaction: Interaction, random: Random) -> None:
        """Add the exposure, the clicks over exposure and the number of the shown documents of each group."""
        assert interaction.candidates.group is not None
        group, shown = interaction.candidates.group.gather(1, interaction.ranking), interaction.shown
        position = self.exposure.position[: group.shape[1]].clamp(min=LEAST)
        self.exposed += self.exposure.of_groups(group, shown)
        self.clicked += sums_of_groups(interaction.clicks / position * shown, group, self.exposure.groups)
        self.shown += sums_of_groups(shown, group, self.exposure.groups)


class MCFair(Fairness):
    """Sorts by R + `gain` x q / max |q| + `certainty` / max(E^2, 0.1). Equal sums keep the proposed order.

    E is the exposure of the document so far and R its relevance: its clicks over E (`estimated`), or the ranker's
    score (`ranker`). q = R (E.R) - E (R.R) is -1/4 of the gradient in E of the disparity, the sum over pairs of
    (E_i R_j - E_j R_i)^2, so that documents with too little exposure have a positive q. E.R is a sum over the query's
    documents. With `between=groups`, E and R in q are means over the query's documents of each group, and q is that of
    the document's group. `gain` and `certainty` are in units of relevance. Yang, Xu, Wang, Tran and Ai,
    "Marginal-Certainty-aware Fair Ranking Algorithm" (WSDM 2023; `GradFair` with `MarginalUncertainty` in their code).
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
        worth = relevance.clamp(min=0)
        if self.groups:
            assert candidates.group is not None
            group, mask = candidates.group.long(), candidates.mask
            size = sums_of_groups(mask, group, self.groups).clamp(min=1)
            means = [sums_of_groups(value * mask, group, self.groups) / size for value in (exposed, worth)]
            owed = gradient(*means).gather(1, group) * mask
        else:
            owed = gradient(exposed * candidates.mask, worth * candidates.mask)
        owed /= owed.abs().amax(1, keepdim=True).clamp(min=torch.finfo(owed.dtype).tiny)
        uncertainty = 1 / exposed.square().clamp(min=LEAST_SQUARE)
        sums = relevance + self.gain * owed + self.certainty * uncertainty
        return by_sum(proposal.order, sums, candidates.mask)

    def learn(self, interaction: Interaction, random: Random) -> None:
        """Add exposure and clicks of the shown documents to their rows."""
        row = interaction.candidates.document.gather(1, interaction.ranking)
        self.exposed.scatter_add_(1, row, self.position[: row.shape[1]] * interaction.shown)
        self.clicked.scatter_add_(1, row, (interaction.clicks & interaction.shown).double())


def sums_of_groups(values: Shaped[Tensor, "B n"], group: Int[Tensor, "B n"], groups: int) -> Shaped[Tensor, "B G"]:
    """Return the sums over the documents of each group."""
    return torch.stack([(values * (group == number)).sum(1) for number in range(groups)], 1)


def gradient(exposed: Float[Tensor, "B n"], relevance: Float[Tensor, "B n"]) -> Float[Tensor, "B n"]:
    """Return q = R (E.R) - E (R.R): 0 where E is proportional to R; the sum of q R is always 0."""
    product = (exposed * relevance).sum(1, keepdim=True)
    return relevance * product - exposed * relevance.square().sum(1, keepdim=True)


def by_sum(order: Int[Tensor, "B O"], sums: Float[Tensor, "B D"], mask: Bool[Tensor, "B D"]) -> Int[Tensor, "B O"]:
    """Return the documents of `order` by their sum, float64, the largest first. Equal sums keep their order."""
    coarse = (sums.view(torch.int64) >> COARSE << COARSE).view(torch.float64)
    coarse = coarse.masked_fill(~mask, float("-inf")).gather(1, order)
    return order.gather(1, coarse.argsort(dim=1, descending=True, stable=True))
