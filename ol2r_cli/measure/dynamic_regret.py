"""Dynamic regret: what lists lack of the best list for the user of each round, whose intent may change."""

from __future__ import annotations

import torch
from torch import Tensor

from ol2r_cli.columns import Column
from ol2r_cli.interfaces import Measure, Rounds, RunContext
from ol2r_cli.metrics.ranking import TOP, dcg, ndcg
from ol2r_cli.tensor.shapes import Int


class DynamicRegret(Measure):
    """The sum over all rounds so far of 1 - NDCG@10 of the shown list; a query without a relevant document adds 0.

    Each round is compared with the best list by the labels of its own user (dynamic regret: Besbes, Gur and Zeevi,
    "Non-stationary stochastic optimization", Operations Research 2015), not with one ranker that is best on average.
    """

    trace = (Column("dynamic_regret", "dynamic regret", "Float64", "last", False, 1),)
    dynamic_regret: Tensor

    def setup(self, context: RunContext, best: Int[Tensor, "Q K"]) -> None:
        """Compute the largest DCG of every training query."""
        self.ideal = dcg(best[:, :TOP])
        zeros = torch.zeros(context.replicas, dtype=torch.float64, device=context.device)
        self.register_buffer("dynamic_regret", zeros)

    def of_rounds(self, rounds: Rounds) -> dict[str, Tensor]:
        """Return the sum after each round."""
        ideal = self.ideal[rounds.query]
        lacking = (1 - ndcg(dcg(rounds.grades[:, :, :TOP]), ideal)) * (ideal > 0)
        lacking[0] += self.dynamic_regret
        sums = lacking.cumsum(0)
        self.dynamic_regret = sums[-1].clone()
        return {"dynamic_regret": sums}
