"""Discounted cumulative gain with gains 2^grade - 1 and discounts log2(rank + 1) (Burges et al., ICML 2005)."""

from __future__ import annotations

from torch import Tensor

from ol2r_cli.config.ranges import Count
from ol2r_cli.interfaces import RankedLists
from ol2r_cli.metrics.list_measure import ListMeasure
from ol2r_cli.metrics.ranking import dcg
from ol2r_cli.tensor.shapes import Float


class DCG(ListMeasure):
    """DCG of the first `cutoff` places, which is not divided by that of the best list."""

    def __init__(self, cutoff: Count):
        super().__init__("dcg", "DCG", cutoff)

    def value(self, lists: RankedLists) -> Float[Tensor, "*L"]:
        """Return the DCG of each list."""
        return dcg(lists.labels)
