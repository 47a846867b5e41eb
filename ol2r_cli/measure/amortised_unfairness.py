"""How far the attention that a query's documents have received so far is from their relevance."""

from __future__ import annotations

import torch
from torch import Tensor

from ol2r_cli.columns import Column
from ol2r_cli.interfaces import Interaction, Measure, Rounds, RunContext
from ol2r_cli.tensor.shapes import Int


class AmortisedUnfairness(Measure):
    """The sum over the documents of the query of |A_d - R_d|, 0 to 2, after all rounds with this query so far.

    A_d is the document's share of the exposure of the query's documents in these rounds, R_d its share of the sum of
    their labels. Null where the query has nothing relevant. Biega, Gummadi and Weikum, "Equity of Attention", SIGIR
    2018.
    """

    trace = (Column("amortised_unfairness", "amortised unfairness", higher_is_better=False),)
    exposed: Tensor

    def setup(self, context: RunContext, best: Int[Tensor, "Q K"]) -> None:
        """Start at zero for each document of each query."""
        self.position = context.exposure_of_places()
        shape = context.replicas * context.queries, context.documents
        self.register_buffer("exposed", torch.zeros(shape, dtype=torch.float64, device=context.device))
        self.first_row = torch.arange(context.replicas, device=context.device) * context.queries
        self.values = torch.zeros(context.measured_rounds, context.replicas, dtype=torch.float64, device=context.device)

    def record(self, row: int, interaction: Interaction, labels: Int[Tensor, "B D"]) -> None:
        """Add the exposure of the list, and compare the shares of the query's documents."""
        of_query = self.first_row + interaction.candidates.query
        exposed = self.exposed.index_select(0, of_query)
        exposed.scatter_add_(1, interaction.ranking, self.position[: interaction.ranking.shape[1]] * interaction.shown)
        self.exposed.index_copy_(0, of_query, exposed)
        attention, relevance = exposed[:, : labels.shape[1]], labels * interaction.candidates.mask
        # 0 / 0 is NaN, which says that the value does not apply.
        shares = attention / attention.sum(1, keepdim=True) - relevance / relevance.sum(1, keepdim=True)
        self.values[row] = shares.abs().sum(1)

    def of_rounds(self, rounds: Rounds) -> dict[str, Tensor]:
        """Return what was recorded."""
        return {"amortised_unfairness": self.values[: len(rounds.query)].clone()}
