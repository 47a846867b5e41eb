"""NDCG of the lists shown, its cumulative sum, and NDCG of the deployed ranker on held-out queries."""

from __future__ import annotations

import torch
from torch import Tensor

from ol2r_cli.columns import CUTOFFS, EVALUATION_COLUMNS, TRACE_COLUMNS
from ol2r_cli.interfaces import Measure, RankedLists, Rounds, RunContext
from ol2r_cli.metrics.ranking import DISCOUNT, TOP, dcg, discounts, gains, ndcg
from ol2r_cli.tensor.shapes import Float, Int


class NDCG(Measure):
    """NDCG@10 of every round, or at the number of positions if that is smaller; NDCG at `CUTOFFS` of evaluations."""

    trace = (TRACE_COLUMNS["online_ndcg"], TRACE_COLUMNS["cumulative_ndcg"])
    evaluation = tuple(EVALUATION_COLUMNS[f"ndcg_{cutoff}"] for cutoff in CUTOFFS)
    places = max(CUTOFFS)
    cumulative_ndcg: Tensor

    def setup(self, context: RunContext, best: Int[Tensor, "Q K"]) -> None:
        """Compute the largest DCG of every training query."""
        self.ideal = dcg(best[:, :TOP])  # [Q]
        self.skips = context.no_relevant == "skip"
        zeros = torch.zeros(context.replicas, dtype=torch.float64, device=context.device)
        self.register_buffer("cumulative_ndcg", zeros)

    def of_rounds(self, rounds: Rounds) -> dict[str, Tensor]:
        """Return online and cumulative NDCG. A query that is skipped adds 0 to the sum."""
        ideal = self.ideal[rounds.query]
        online = ndcg(dcg(rounds.grades[:, :, :TOP]), ideal)
        cumulative = self._accumulate(rounds.first, online)
        return {
            "online_ndcg": online.masked_fill(ideal == 0, torch.nan) if self.skips else online,
            "cumulative_ndcg": cumulative,
        }

    def _accumulate(self, first: int, online: Float[Tensor, "R B"]) -> Float[Tensor, "R B"]:
        """Return the cumulative discounted NDCG after each round."""
        rounds = torch.arange(first - 1, first - 1 + len(online), device=online.device, dtype=torch.float64)
        steps = online * (DISCOUNT**rounds)[:, None]
        steps[0] += self.cumulative_ndcg
        sums = steps.cumsum(0)
        self.cumulative_ndcg = sums[-1].clone()
        return sums

    def of_lists(self, lists: RankedLists) -> dict[str, Tensor]:
        """Return NDCG at each of `CUTOFFS`."""
        gain = gains(lists.labels)
        reached = (gain * discounts(gain.shape[-1], gain.device)).cumsum(-1)
        return {
            f"ndcg_{cutoff}": ndcg(reached[..., min(cutoff, gain.shape[-1]) - 1], dcg(lists.best[..., :cutoff]))
            for cutoff in CUTOFFS
        }
