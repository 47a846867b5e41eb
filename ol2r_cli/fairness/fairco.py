"""FairCo: exposure in proportion to merit by a proportional controller (Morik, Singh, Hong and Joachims, "Controlling
Fairness and Bias in Dynamic Learning-to-Rank", SIGIR 2020, section 6; a baseline of Jia and Wang, 2021)."""

from __future__ import annotations

import math
from typing import Literal

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
from ol2r_cli.tensor.shapes import Bool, Float, Int
from ol2r_cli.tensor.streams import Random

LEAST = 1e-4  # smallest merit of a group, as in the authors' code, and smallest exposure of a place
COARSE = 29  # bits of a float64 beyond the precision of float32: scores that differ only in these bits are equal
# Of a fairness that sorts by sums of relevance and promotion: its sums would undo any exploration.
NEEDS_ESTIMATES = (Need(RELEVANCE, "ranker=ips_regression with exploration=none"), Need(BY_SCORE, "exploration=none"))


class FairCo(Fairness):
    """Sorts by estimated relevance + `gain` x err. Documents with equal sums keep the proposed order.

    err of a document's group is the largest of all groups' exposure per unit of merit so far, minus the group's own.
    `gain` is lambda, in units of relevance per unit of exposure over merit. `merit` of a group is its mean label in the
    training split (`labels`), its mean of clicks over exposure among the documents shown so far (`estimated`), or
    what the run's `beta` says: beta for group 0 and 1 for group 1 (`beta`).
    """

    needs = NEEDS_ESTIMATES

    exposed: Tensor
    clicked: Tensor
    shown: Tensor

    def __init__(self, gain: NonNegative, merit: Literal["labels", "estimated", "beta"]):
        super().__init__()
        if math.isinf(gain):
            raise ValueError(f"{self.setting('gain')} must be finite, got {gain}")
        self.gain, self.merit, self.needs_labels = gain, merit, merit == "labels"

    def setup(self, context: RunContext, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """Reset exposure and clicks to zero; ValueError if the dataset does not have two groups or more."""
        self.exposure = self.all_groups(context)
        shape = context.replicas, self.exposure.groups
        merit = torch.tensor(self.exposure.merits(), dtype=torch.float64)
        if self.merit == "labels":
            assert oracle is not None
            merit = mean_labels(oracle, self.exposure.groups)
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
        group = interaction.candidates.group.gather(1, interaction.ranking)
        self.exposed += self.exposure.of_groups(group, interaction.shown)
        members = torch.stack([interaction.shown & (group == number) for number in range(self.exposure.groups)], 1)
        position = self.exposure.position[: group.shape[1]].clamp(min=LEAST)
        self.clicked += ((interaction.clicks / position)[:, None] * members).sum(2)
        self.shown += members.sum(2)


def by_sum(order: Int[Tensor, "B O"], sums: Float[Tensor, "B D"], mask: Bool[Tensor, "B D"]) -> Int[Tensor, "B O"]:
    """Return the documents of `order` by their sum, float64, the largest first. Equal sums keep their order."""
    coarse = (sums.view(torch.int64) >> COARSE << COARSE).view(torch.float64)
    coarse = coarse.masked_fill(~mask, float("-inf")).gather(1, order)
    return order.gather(1, coarse.argsort(dim=1, descending=True, stable=True))


def mean_labels(oracle: Oracle, groups: int) -> Float[Tensor, "G"]:
    """Return the mean label of each group in the training split; 0 for a group without documents."""
    assert oracle.group is not None
    row = oracle.rows()
    labels, group = oracle.labels[row].double(), oracle.group[row]
    members = [group == number for number in range(groups)]
    return torch.stack([(labels * member).sum() / member.sum().clamp(min=1) for member in members])
