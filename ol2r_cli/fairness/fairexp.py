"""FairExp: keep the cumulative unfairness within epsilon, at the least regret (Jia and Wang, 2021, section 4.2)."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
import torch
from torch import Tensor

from ol2r_cli import loops
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
        self.added = self._added(self.positions, context.device)
        self.loops = context.loops
        # For each number of places, since the last digit of a sum depends on it: sums of rounds are looked up.
        widths = range(1, self.positions + 1) if self.loops else ()
        self.added_by_width = {width: self._added(width, context.device).numpy() for width in widths}
        self.register_buffer("unfairness", torch.zeros(context.replicas, dtype=torch.float64, device=context.device))

    def _added(self, positions: int, device: torch.device) -> Float[Tensor, "K1 S"]:
        """Return the unfairness that each template of K places adds if its first 0, 1, .., K places are filled."""
        places = cached_arange(positions, device)
        filled = places < cached_arange(positions + 1, device)[:, None]  # [K + 1, K]
        group = templates(positions, device).group
        return self.exposure.unfairness(self.exposure.of_groups(group, filled[:, None]))

    def rerank(self, proposal: Proposal, candidates: Candidates, random: Random) -> Int[Tensor, "B O"]:
        """Fill the chosen template at the top. All other documents follow in the proposed order."""
        assert candidates.group is not None
        assert proposal.certain is not None
        if self.loops and self.fill == "ordered":
            return self._rerank_by_loops(proposal.order, proposal.certain, candidates.group, candidates.mask)
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

    def _rerank_by_loops(
        self,
        order: Int[Tensor, "B D"],
        certain: Bool[Tensor, "B D D"],
        group: Int[Tensor, "B D"],
        mask: Bool[Tensor, "B D"],
    ) -> Int[Tensor, "B D"]:
        """Return what `rerank` returns."""
        served, only_shown = np.empty(order.shape, np.int64), self.count == "shown"
        state = self.unfairness.numpy(), self.added_by_width[self.positions], float(self.epsilon)
        given = order.numpy(), mask.numpy(), group.numpy(), certain.numpy()
        loops.template_choice.rerank(*given, *state, only_shown, LEVEL, served)
        return torch.from_numpy(served)

    def learn(self, interaction: Interaction, random: Random) -> None:
        """Add the unfairness of the shown documents."""
        assert interaction.candidates.group is not None
        if self.loops:
            shown = interaction.candidates.group.numpy(), interaction.ranking.numpy(), interaction.shown.numpy()
            added = self.added_by_width[interaction.ranking.shape[1]]
            loops.template_choice.add_unfairness(*shown, added, self.unfairness.numpy())
            return
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
