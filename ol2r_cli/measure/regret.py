"""The pairwise regret of every round: pairs of documents that the served order has in the wrong order."""

from __future__ import annotations

import torch
from torch import Tensor

from ol2r_cli.columns import TRACE_COLUMNS
from ol2r_cli.interfaces import Interaction, Measure, Rounds, RunContext
from ol2r_cli.metrics.ranking import regret
from ol2r_cli.tensor.shapes import Int


class Regret(Measure):
    """Kendall's tau distance of the served order of all documents to the best one, ties free.

    It needs the order of all documents, also of those that are not shown, which costs a tenth of a round or more.
    """

    trace = (TRACE_COLUMNS["regret"],)
    needs_order = needs_reasons = True

    def setup(self, context: RunContext, best: Int[Tensor, "Q K"]) -> None:
        """Allocate room for the labels of whole lists."""
        self.grades = context.grades
        shape = context.measured_rounds, context.replicas, context.documents
        self.labels = torch.zeros(shape, dtype=torch.int8, device=context.device)

    def record(self, row: int, interaction: Interaction, labels: Int[Tensor, "B D"]) -> None:
        """Keep the labels in the order of the list."""
        self.labels[row, :, : labels.shape[1]] = labels.gather(1, interaction.order)

    def of_rounds(self, rounds: Rounds) -> dict[str, Tensor]:
        """Return the number of misordered pairs."""
        count = len(rounds.query)
        values = regret(self.labels[:count].flatten(0, 1).long(), self.grades)
        self.labels.zero_()  # the next lists may be shorter and leave places, which must have label 0
        return {"regret": values.unflatten(0, (count, -1))}
