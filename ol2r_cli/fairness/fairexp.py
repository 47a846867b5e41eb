"""FairExp: keep the cumulative unfairness within epsilon, at the least regret (Jia and Wang, 2021, section 4.2)."""

from __future__ import annotations

import torch
from torch import Tensor

from ol2r_cli.fairness.templates import broken, fillable, merged, queues, templates
from ol2r_cli.interfaces import CERTAIN, Candidates, Draft, Fairness, Interaction, Need, Oracle, Sizes
from ol2r_cli.random import Random
from ol2r_cli.rows import pick_both, places
from ol2r_cli.shapes import Bool, Float, Int

LEVEL = 1e-9  # unfairness that differs by less is the same: sums of the same terms, summed in another order


class FairExp(Fairness):
    """Of all placements of the two groups at the top that keep |UF_t| <= `epsilon`, the one that breaks the fewest
    certain pairs, ties to the least unfair; where no placement keeps it, the least unfair, ties to the fewest.

    UF_t = sum over rounds of Exposure(group 0) - beta Exposure(group 1). Each group keeps the draft's order. `count` is
    which broken pairs count: `all`, or those among the `shown`. Certain pairs that the draft itself does not keep, as
    inside a block that is shuffled at random, do not count.
    """

    needs = (Need(CERTAIN, "exploration=confidence"),)

    unfairness: Tensor

    def __init__(self, epsilon: float, count: str):
        super().__init__()
        if not epsilon >= 0:
            raise ValueError(f"fairness.epsilon must be 0 or more, got {epsilon}")
        if count not in ("all", "shown"):
            raise ValueError(f"fairness.count must be 'all' or 'shown', got {count!r}")
        self.epsilon, self.count = epsilon, count

    def setup(self, sizes: Sizes, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """Start at UF_0 = 0; ValueError where the dataset has no groups."""
        self.exposure, self.positions = self.two_groups(sizes), min(sizes.positions, sizes.documents)
        group = templates(self.positions, sizes.device).group
        filled = places(self.positions, sizes.device) < places(self.positions + 1, sizes.device)[:, None]
        # [S, K + 1]: what a template adds to UF where so many places are filled
        self.added = self.exposure.unfairness(self.exposure.of_groups(group[:, None], filled))
        self.register_buffer("unfairness", torch.zeros(sizes.replicas, dtype=torch.float64, device=sizes.device))

    def arrange(self, draft: Draft, candidates: Candidates, random: Random) -> Int[Tensor, "B O"]:
        """The chosen placement at the top, all other documents below in the draft's order."""
        assert candidates.group is not None
        assert draft.certain is not None
        order, length = draft.order, candidates.mask.sum(1)
        group, real = candidates.group.gather(1, order), candidates.mask.gather(1, order)
        queue = queues(group, real, self.positions)
        certain = pick_both(draft.certain, order).triu(1)
        cost = broken(certain, group, queue, self.count)
        unfair = (self.unfairness[:, None] + self.added[:, length.clamp(max=self.positions)].T).abs()
        template = self._choose(cost, unfair, fillable(queue, length))
        return order.gather(1, merged(template, queue, length, order.shape[1]))

    def learn(self, interaction: Interaction, random: Random) -> None:
        """UF_t, of what was shown."""
        assert interaction.candidates.group is not None
        group = interaction.candidates.group.gather(1, interaction.ranking)
        self.unfairness += self.exposure.unfairness(self.exposure.of_groups(group, interaction.shown))

    def _choose(
        self, cost: Float[Tensor, "B S"], unfair: Float[Tensor, "B S"], possible: Bool[Tensor, "B S"]
    ) -> Int[Tensor, "B"]:
        """By cost and then unfairness where some template qualifies, else the other way round; then the first."""
        qualified = possible & (unfair <= self.epsilon)
        some, level = qualified.any(1, keepdim=True), (unfair / LEVEL).round()
        candidates = torch.where(some, qualified, possible)
        major = torch.where(some, cost, level).masked_fill_(~candidates, torch.inf)
        minor = torch.where(some, level, cost)
        return minor.masked_fill_(major > major.amin(1, keepdim=True), torch.inf).argmin(1)
