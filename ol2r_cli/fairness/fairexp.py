"""FairExp: keep the cumulative unfairness within epsilon, at the least regret (Jia and Wang, 2021, section 4.2)."""

from __future__ import annotations

import torch
from torch import Tensor

from ol2r_cli.fairness.fairswap import FairSwap
from ol2r_cli.fairness.templates import broken, fillable, merged, queues, templates
from ol2r_cli.interfaces import CERTAIN, Candidates, Draft, Fairness, Interaction, Need, Oracle, Sizes
from ol2r_cli.random import Random
from ol2r_cli.rows import places
from ol2r_cli.shapes import Bool, Float, Int

LEVEL = 1e-9  # unfairness that differs by less is the same: sums of the same terms, summed in another order
NEITHER = 2  # the group of padding


class FairExp(Fairness):
    """Of all placements of the two groups at the top that keep |UF_t| <= `epsilon`, the one that breaks the fewest
    certain pairs, ties to the least unfair; where no placement keeps it, the least unfair, ties to the fewest.

    UF_t = sum over rounds of Exposure(group 0) - beta Exposure(group 1), within `epsilon` >= 0. `fill` says which
    documents a placement takes: with `ordered` each group keeps the draft's order; `paper` is FairSwap as printed, for
    comparison, which shuffles once more and is slow. `count` is which broken pairs count: `all`, or those among the
    `shown`. With `ordered`, certain pairs that the draft itself does not keep, as inside a block that is shuffled at
    random, do not count.
    """

    needs = (Need(CERTAIN, "ranker=pairrank with exploration=confidence"),)

    unfairness: Tensor

    def __init__(self, epsilon: float, fill: str, count: str):
        super().__init__()
        if not epsilon >= 0:
            raise ValueError(f"fairness.epsilon must be 0 or more, got {epsilon}")
        if fill not in ("ordered", "paper"):
            raise ValueError(f"fairness.fill must be 'ordered' or 'paper', got {fill!r}")
        if count not in ("all", "shown"):
            raise ValueError(f"fairness.count must be 'all' or 'shown', got {count!r}")
        self.epsilon, self.fill, self.count = epsilon, fill, count

    def setup(self, sizes: Sizes, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """Start at UF_0 = 0; ValueError where the dataset has no groups."""
        self.exposure, self.positions = self.two_groups(sizes), min(sizes.positions, sizes.documents)
        group = templates(self.positions, sizes.device).group
        filled = places(self.positions, sizes.device) < places(self.positions + 1, sizes.device)[:, None]
        # [K + 1, S]: what a template adds to UF where so many places are filled
        self.added = self.exposure.unfairness(self.exposure.of_groups(group, filled[:, None]))
        self.register_buffer("unfairness", torch.zeros(sizes.replicas, dtype=torch.float64, device=sizes.device))

    def arrange(self, draft: Draft, candidates: Candidates, random: Random) -> Int[Tensor, "B O"]:
        """The chosen placement at the top, all other documents below in the draft's order."""
        assert candidates.group is not None
        assert draft.certain is not None
        order, length = draft.order, candidates.mask.sum(1)
        group = candidates.group.masked_fill(~candidates.mask, NEITHER).gather(1, order)
        queue = queues(group, self.positions)
        unfair = (self.unfairness[:, None] + self.added.index_select(0, length.clamp(max=self.positions))).abs_()
        possible = fillable(queue, length)
        qualified = possible & (unfair <= self.epsilon)
        some = qualified.any(1, keepdim=True)
        allowed = torch.where(some, qualified, possible)
        if self.fill == "paper":
            swap = FairSwap(draft, candidates, random)
            cost = swap.broken(allowed, self.positions, self.count)
            return swap.arranged(_least(cost, unfair, allowed, some), self.positions)
        cost = broken(draft.certain, order, group, queue, self.count)
        return order.gather(1, merged(_least(cost, unfair, allowed, some), queue, length, order.shape[1]))

    def learn(self, interaction: Interaction, random: Random) -> None:
        """UF_t, of what was shown."""
        assert interaction.candidates.group is not None
        group = interaction.candidates.group.gather(1, interaction.ranking)
        self.unfairness += self.exposure.unfairness(self.exposure.of_groups(group, interaction.shown))


def _least(
    cost: Float[Tensor, "B S"], unfair: Float[Tensor, "B S"], allowed: Bool[Tensor, "B S"], some: Bool[Tensor, "B 1"]
) -> Int[Tensor, "B"]:
    """Of the templates that are allowed: by cost and then unfairness where some qualify, else the other way round; then
    the first."""
    level = (unfair / LEVEL).round()
    major = torch.where(some, cost, level).masked_fill_(~allowed, torch.inf)
    minor = torch.where(some, level, cost)
    return minor.masked_fill_(major > major.amin(1, keepdim=True), torch.inf).argmin(1)
