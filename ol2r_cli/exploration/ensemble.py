"""Explore only where the members of an ensemble disagree (P2NeurRank, SIGIR 2022, section 3.3)."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ol2r_cli import loops
from ol2r_cli.exploration.divide_and_conquer import DivideAndConquer, ScoreOrder, Shuffle
from ol2r_cli.exploration.long_lists import Comparison
from ol2r_cli.interfaces import MEMBERS, Need
from ol2r_cli.tensor.shapes import Bool, Float


class Ensemble(DivideAndConquer):
    """Document i is certainly above j if and only if every member of the ranker scores it higher.

    `shuffle` as in `DivideAndConquer`. The relation is transitive, so there is nothing to close.
    """

    needs = (Need(MEMBERS, "ranker=pepairrank with ranker.members=2 or more"),)

    def __init__(self, shuffle: Shuffle):
        super().__init__(shuffle, transitive=False)

    def certain(self, ranked: ScoreOrder) -> Bool[Tensor, "b d d"]:
        """Return the unanimous pairs, in the order of the mean score."""
        members = self._members(ranked)
        if ranked.rows is not None:
            documents = ranked.order.shape[1]
            certain = np.zeros((documents, documents), np.bool_)
            loops.certain_pairs.unanimous(members[0].numpy(), certain)
            return torch.from_numpy(certain)[None]
        unanimous = members[:, 0, :, None] > members[:, 0, None, :]
        for member in members.unbind(1)[1:]:
            unanimous &= member[:, :, None] > member[:, None, :]
        return unanimous.triu_(1)  # rounding may order a mean against all members

    def comparison(self, ranked: ScoreOrder) -> Comparison:
        """Return `certain` for some rows of one list."""
        members = self._members(ranked)[0]

        def compare(rows: slice, end: int) -> Bool[Tensor, "r w"]:
            unanimous = members[0, rows, None] > members[0, rows.start : end]
            for member in members[1:]:
                unanimous &= member[rows, None] > member[rows.start : end]
            return unanimous.triu_(1)

        return compare

    def _members(self, ranked: ScoreOrder) -> Float[Tensor, "b n d"]:
        """Return the scores of every member, in the order of the mean score."""
        members = ranked.prediction.scores[ranked.replicas, :, : ranked.order.shape[1]]
        return members.gather(2, ranked.order[:, None].expand_as(members))
