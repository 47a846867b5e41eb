"""Explore only where the members of an ensemble disagree (P2NeurRank, SIGIR 2022, section 3.3)."""

from __future__ import annotations

from torch import Tensor

from ol2r_cli.exploration.divide import DivideAndConquer, Ranked
from ol2r_cli.interfaces import MEMBERS, Need
from ol2r_cli.shapes import Bool


class Ensemble(DivideAndConquer):
    """i ranks certainly above j iff every member of the ranker scores it higher.

    `shuffle` as in `DivideAndConquer`. The relation is transitive by itself: there is nothing to close.
    """

    needs = (Need(MEMBERS, "ranker=pepairrank with ranker.members=2 or more"),)

    def __init__(self, shuffle: str):
        super().__init__(shuffle, transitive=False)

    def certain(self, ranked: Ranked) -> Bool[Tensor, "b d d"]:
        """Unanimity, down the order of the mean score."""
        members = ranked.belief.scores[ranked.some, :, : ranked.order.shape[1]]
        members = members.gather(2, ranked.order[:, None].expand_as(members))
        every = members[:, 0, :, None] > members[:, 0, None, :]
        for member in members.unbind(1)[1:]:
            every &= member[:, :, None] > member[:, None, :]
        return every.triu_(1)  # should rounding ever order a mean the other way round
