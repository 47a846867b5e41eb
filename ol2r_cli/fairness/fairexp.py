"""FairExp: keep the cumulative unfairness within epsilon, at the least regret (Jia and Wang, 2021, section 4.2)."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from torch import Tensor

from ol2r_cli.config.ranges import Range
from ol2r_cli.fairness.fairswap import FairSwap
from ol2r_cli.fairness.templates import CountedPairs, broken_pairs, fillable, group_queues, merge, templates
from ol2r_cli.interfaces import CERTAIN, Candidates, Fairness, Interaction, Need, Oracle, Proposal, RunContext
from ol2r_cli.tensor.gather import cached_arange
from ol2r_cli.tensor.shapes import Bool, Float, Int
from ol2r_cli.tensor.streams import Random

LEVEL = 1e-9  # smaller differences in unfairness come from summing the same terms in another order
NEITHER = 2  # the group of padding


class FairExp(Fairness):
    """Chooses a template, which assigns the K places to the two groups, and fills it.

    Among the templates that keep |UF_t| <= `epsilon` it takes the one that breaks the fewest certain pairs; ties go to
    the least unfair one. If no template keeps the bound, it takes the least unfair one; ties go to the fewest broken
    pairs. UF_t is the sum over rounds of Exposure(group 0) - beta Exposure(group 1).

    `fill` says which documents a template takes: with `ordered` each group keeps its proposed order; `paper` is
    FairSwap as printed, for comparison, which shuffles once more and is slow. `count` says which broken pairs count:
    `all`, or those among the `shown` documents. With `ordered`, certain pairs that the proposal itself breaks, for
    example inside a randomly shuffled block, do not count.
    """

    needs = (Need(CERTAIN, "ranker=pairrank with exploration=confidence"),)

    unfairness: Tensor

    def __init__(
        self, epsilon: Annotated[float, Range(0, infinite=True)], fill: Literal["ordered", "paper"], count: CountedPairs
    ):
        super().__init__()
        self.epsilon, self.fill, self.count = epsilon, fill, count

    def setup(self, context: RunContext, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """Start with UF_0 = 0; ValueError if the dataset does not have two groups."""
        self.exposure, self.positions = self.two_groups(context), min(context.positions, context.documents)
        group = templates(self.positions, context.device).group
        places = cached_arange(self.positions, context.device)
        filled = places < cached_arange(self.positions + 1, context.device)[:, None]  # [K + 1, K]
        # [K + 1, S]: the unfairness that a template adds if its first 0, 1, .., K places are filled
        self.added = self.exposure.unfairness(self.exposure.of_groups(group, filled[:, None]))
        self.register_buffer("unfairness", torch.zeros(context.replicas, dtype=torch.float64, device=context.device))

    def rerank(self, proposal: Proposal, candidates: Candidates, random: Random) -> Int[Tensor, "B O"]:
        """Fill the chosen template at the top. All other documents follow in the proposed order."""
        assert candidates.group is not None
        assert proposal.certain is not None
        order, length = proposal.order, candidates.mask.sum(1)
        group = candidates.group.masked_fill(~candidates.mask, NEITHER).gather(1, order)
        queues = group_queues(group, self.positions)
        unfair = (self.unfairness[:, None] + self.added.index_select(0, length.clamp(max=self.positions))).abs_()
        possible = fillable(queues, length)
        within = possible & (unfair <= self.epsilon)
        any_within = within.any(1, keepdim=True)
        allowed = torch.where(any_within, within, possible)
        if self.fill == "paper":
            swap = FairSwap(proposal, candidates, random)
            cost = swap.broken_pairs(allowed, self.positions, self.count)
            return swap.rerank(_choose(cost, unfair, allowed, any_within), self.positions)
        cost = broken_pairs(proposal.certain, order, group, queues, self.count)
        template = _choose(cost, unfair, allowed, any_within)
        return order.gather(1, merge(template, queues, length, order.shape[1]))

    def learn(self, interaction: Interaction, random: Random) -> None:
        """Add the unfairness of the shown documents."""
        assert interaction.candidates.group is not None
        group = interaction.candidates.group.gather(1, interaction.ranking)
        self.unfairness += self.exposure.unfairness(self.exposure.of_groups(group, interaction.shown))


def _choose(
    cost: Float[Tensor, "B S"],
    unfair: Float[Tensor, "B S"],
    allowed: Bool[Tensor, "B S"],
    any_within: Bool[Tensor, "B 1"],
) -> Int[Tensor, "B"]:
    """Return the first of the best allowed templates: by cost and then unfairness if `any_within`, else the reverse."""
    level = (unfair / LEVEL).round()
    major = torch.where(any_within, cost, level).masked_fill_(~allowed, torch.inf)
    minor = torch.where(any_within, level, cost)
    return minor.masked_fill_(major > major.amin(1, keepdim=True), torch.inf).argmin(1)
