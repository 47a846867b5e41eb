"""FairCo: exposure in proportion to merit by a proportional controller (Morik, Singh, Hong and Joachims, "Controlling
Fairness and Bias in Dynamic Learning-to-Rank", SIGIR 2020, section 6; a baseline of Jia and Wang, 2021)."""

from __future__ import annotations

import torch
from torch import Tensor

from ol2r_cli.interfaces import (
    BY_SCORE,
    RELEVANCE,
    Candidates,
    Draft,
    Fairness,
    Interaction,
    Need,
    Oracle,
    Sizes,
)
from ol2r_cli.random import Random
from ol2r_cli.shapes import Float, Int

MERITS = ("labels", "estimated", "beta")
LEAST = 1e-4  # merit of a group that has none, as in the authors' code; and exposure of a place that has none
COARSE = 29  # bits of a float64 beyond the precision of float32: scores that differ in these alone are equal


class FairCo(Fairness):
    """Sorts by estimated relevance + `gain` x err, equal ones as in the draft.

    err is what the document's group is owed: the largest of both groups' exposure so far per unit of merit, less the
    group's own. `gain` >= 0 is lambda, in units of relevance per unit of exposure over merit. `merit` of a group is its
    mean label in the training split (`labels`), its mean of clicks over exposure among the documents shown so far
    (`estimated`), or what the run's `beta` says, beta to 1 (`beta`).
    """

    needs = (Need(RELEVANCE, "ranker=ips_regression with exploration=none"), Need(BY_SCORE, "exploration=none"))

    exposed: Tensor
    clicked: Tensor
    shown: Tensor

    def __init__(self, gain: float, merit: str):
        super().__init__()
        if not 0 <= gain < float("inf"):
            raise ValueError(f"fairness.gain must be a number from 0 up, got {gain}")
        if merit not in MERITS:
            raise ValueError(f"fairness.merit must be one of {', '.join(MERITS)}, got {merit!r}")
        self.gain, self.merit, self.needs_labels = gain, merit, merit == "labels"

    def setup(self, sizes: Sizes, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """Owe nobody anything; ValueError where the dataset has no groups."""
        self.exposure = self.two_groups(sizes)
        merit = torch.tensor([self.exposure.beta, 1.0], dtype=torch.float64)
        if self.merit == "labels":
            assert oracle is not None
            merit = mean_labels(oracle)
        self.known = merit.to(sizes.device)  # [2], unless it is estimated
        for name in "exposed", "clicked", "shown":
            self.register_buffer(name, torch.zeros(sizes.replicas, 2, dtype=torch.float64, device=sizes.device))

    def owed(self) -> Float[Tensor, "B 2"]:
        """err of both groups: 0 for one, 0 or more for the other."""
        merit = self.clicked / self.shown.clamp(min=1) if self.merit == "estimated" else self.known
        share = self.exposed / merit.clamp(min=LEAST)
        return share.amax(1, keepdim=True) - share

    def arrange(self, draft: Draft, candidates: Candidates, random: Random) -> Int[Tensor, "B O"]:
        """All candidates by promoted score."""
        assert candidates.group is not None
        promoted = draft.scores.double() + self.gain * self.owed().gather(1, candidates.group.long())
        coarse = (promoted.view(torch.int64) >> COARSE << COARSE).view(torch.float64)
        coarse = coarse.masked_fill(~candidates.mask, float("-inf")).gather(1, draft.order)
        return draft.order.gather(1, coarse.argsort(dim=1, descending=True, stable=True))

    def learn(self, interaction: Interaction, random: Random) -> None:
        """Exposure, clicks over exposure, and number of the shown documents of both groups."""
        assert interaction.candidates.group is not None
        group = interaction.candidates.group.gather(1, interaction.ranking)
        self.exposed += self.exposure.of_groups(group, interaction.shown)
        mine = torch.stack([interaction.shown & (group == number) for number in (0, 1)], 1)  # [B 2 K]
        position = self.exposure.position[: group.shape[1]].clamp(min=LEAST)
        self.clicked += ((interaction.clicks / position)[:, None] * mine).sum(2)
        self.shown += mine.sum(2)


def mean_labels(oracle: Oracle) -> Float[Tensor, "2"]:
    """Of both groups' documents in the training split; 0 where a group has none."""
    assert oracle.group is not None
    row = oracle.rows()
    labels, group = oracle.labels[row].double(), oracle.group[row]
    mine = [group == number for number in (0, 1)]
    return torch.stack([(labels * some).sum() / some.sum().clamp(min=1) for some in mine])
