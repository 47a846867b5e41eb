"""Mean reciprocal rank (Voorhees, TREC-8 question answering, 1999)."""

from __future__ import annotations

from torch import Tensor

from ol2r_cli.config.ranges import Count
from ol2r_cli.interfaces import RankedLists
from ol2r_cli.metrics.list_measure import ListMeasure
from ol2r_cli.metrics.ranking import reciprocal_rank
from ol2r_cli.tensor.shapes import Float


class MRR(ListMeasure):
    """1 / rank of the first document of grade 1 or more, 0 without one among the first `cutoff` places."""

    def __init__(self, cutoff: Count):
        super().__init__("mrr", "MRR", cutoff)

    def value(self, lists: RankedLists) -> Float[Tensor, "*L"]:
        """Return the reciprocal rank of each list."""
        return reciprocal_rank(lists.labels)
