"""Expected reciprocal rank (Chapelle, Metzler, Zhang and Grinspan, "Expected reciprocal rank for graded relevance",
CIKM 2009)."""

from __future__ import annotations

from torch import Tensor

from ol2r_cli.config.ranges import Count
from ol2r_cli.interfaces import RankedLists
from ol2r_cli.metrics.list_measure import ListMeasure
from ol2r_cli.metrics.ranking import expected_reciprocal_rank
from ol2r_cli.tensor.shapes import Float


class ERR(ListMeasure):
    """The expectation of 1 / rank at which a user is satisfied, who examines the first `cutoff` places from the top."""

    def __init__(self, cutoff: Count):
        super().__init__("err", "ERR", cutoff)

    def value(self, lists: RankedLists) -> Float[Tensor, "*L"]:
        """Return the expected reciprocal rank of each list."""
        return expected_reciprocal_rank(lists.labels, lists.grades)
