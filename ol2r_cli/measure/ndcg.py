"""NDCG of the lists shown, its cumulative sum, and NDCG of the deployed ranker on held-out queries."""

from __future__ import annotations

import torch
from torch import Tensor

from ol2r_cli.columns import CUTOFFS, ndcg_columns
from ol2r_cli.config.ranges import Count, PositiveShare
from ol2r_cli.interfaces import Measure, RankedLists, Rounds, RunContext
from ol2r_cli.metrics.ranking import dcg, discounts, gains, ndcg
from ol2r_cli.tensor.shapes import Float, Int


class NDCG(Measure):
    """NDCG at `cutoff` of every round, or at the number of positions if that is smaller, and of evaluations.

    Cumulative NDCG multiplies round t by discount^(t - 1), 0 < discount <= 1. With cutoff 10, the columns of rounds
    have no number in their names, and evaluations have all of `CUTOFFS`.
    """

    cumulative_ndcg: Tensor

    def __init__(self, cutoff: Count, discount: PositiveShare):
        super().__init__()
        self.cutoff = self.places = cutoff
        self.discount = discount
        self.cutoffs = CUTOFFS if cutoff == CUTOFFS[-1] else (cutoff,)
        self.trace = ndcg_columns(cutoff)[:2]
        self.evaluation = tuple(ndcg_columns(each)[2] for each in self.cutoffs)

    def setup(self, context: RunContext, best: Int[Tensor, "Q K"]) -> None:
        """Compute the largest DCG of every training query."""
        self.ideal = dcg(best[:, : self.cutoff])  # [Q]
        self.skips = context.no_relevant == "skip"
        zeros = torch.zeros(context.replicas, dtype=torch.float64, device=context.device)
        self.register_buffer("cumulative_ndcg", zeros)

    def of_rounds(self, rounds: Rounds) -> dict[str, Tensor]:
        """Return online and cumulative NDCG. A query that is skipped adds 0 to the sum."""
        ideal = self.ideal[rounds.query]
        online = ndcg(dcg(rounds.grades[:, :, : self.cutoff]), ideal)
        cumulative = self._accumulate(rounds.first, online)
        applicable = online.masked_fill(ideal == 0, torch.nan) if self.skips else online
        return {self.trace[0].name: applicable, self.trace[1].name: cumulative}

    def _accumulate(self, first: int, online: Float[Tensor, "R B"]) -> Float[Tensor, "R B"]:
        """Return the cumulative discounted NDCG after each round."""
        rounds = torch.arange(first - 1, first - 1 + len(online), device=online.device, dtype=torch.float64)
        steps = online * (self.discount**rounds)[:, None]
        steps[0] += self.cumulative_ndcg
        sums = steps.cumsum(0)
        self.cumulative_ndcg = sums[-1].clone()
        return sums

    def of_lists(self, lists: RankedLists) -> dict[str, Tensor]:
        """Return NDCG at each of the cutoffs."""
        gain = gains(lists.labels)
        reached = (gain * discounts(gain.shape[-1], gain.device)).cumsum(-1)
        return {
            f"ndcg_{cutoff}": ndcg(reached[..., min(cutoff, gain.shape[-1]) - 1], dcg(lists.best[..., :cutoff]))
            for cutoff in self.cutoffs
        }
