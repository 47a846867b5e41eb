"""Divide and conquer: shuffle only documents whose mutual order is uncertain (PairRank, WWW 2021, section 3.2.3).

From certain pairs to ordered blocks, and to a random order that respects them. In the functions of this file documents
are in score order, best first and padding last, so that certain pairs only point down the list: `certain[i, j]` says
that document i certainly ranks above document j > i. Padding ranks certainly below every real document and forms the
last block. exploration/divide_and_conquer/certain_pair_loops.py has the same for one list.
"""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

import torch
from torch import Tensor

from ol2r_cli import loops
from ol2r_cli.config.ranges import Range
from ol2r_cli.exploration.divide_and_conquer import certain_pair_loops
from ol2r_cli.exploration.order import mean_of_members
from ol2r_cli.interfaces import (
    CERTAIN,
    LAYERS,
    STATED,
    Candidates,
    Exploration,
    Need,
    Oracle,
    Prediction,
    Proposal,
    RunContext,
)
from ol2r_cli.tensor.shapes import Bool, Float, Int
from ol2r_cli.tensor.streams import Random

Shuffle = Literal["conservative", "random"]
Width = Annotated[float, Range(0, 1e100)]  # factor of the intervals; its square has to be a number


class ScoreOrder(NamedTuple):
    """b of the replicas, whose queries have at most d documents, with these documents in score order."""

    replicas: slice  # which of the B replicas
    prediction: Prediction  # of all B replicas
    order: Int[Tensor, "b d"]  # best score first, padding last
    scores: Float[Tensor, "b d"]  # in this order
    mask: Bool[Tensor, "b d"]  # in this order


class DivideAndConquer(Exploration):
    """Serves blocks in their certain order, each block in random order. A subclass says which pairs are certain.

    `shuffle` is `conservative` (certain pairs inside a block keep their order) or `random`; `transitive` closes the
    relation of certain pairs before blocks are formed.
    """

    offers = frozenset({CERTAIN})

    def __init__(self, shuffle: Shuffle, transitive: bool):
        super().__init__()
        self.shuffle, self.transitive = shuffle, transitive

    def setup(self, context: RunContext, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """Store which places of a proposed order, and which of their certain pairs, are used; and for loops how blocks
        are shuffled, and that nothing is recorded of them."""
        super().setup(context, features)
        self.how = int(self.transitive), int(self.shuffle == "conservative"), self.ranking_depth
        no_blocks = torch.zeros(0, 0, 0, dtype=torch.int16, device=context.device)
        self.unrecorded = no_blocks, no_blocks.bool()[None]
        self.certain_places, self.needs_reasons = context.certain_places, context.needs_reasons
        self.only_shown = context.ranking_depth == context.positions and not context.needs_reasons

    def certain(self, ranked: ScoreOrder) -> Bool[Tensor, "b s s"]:
        """Return [i, j]: document i of the order is certainly above document j; only for i < j.

        The first s documents may be fewer than d. Then at least K documents must be above each of the others once
        `transitive` has been applied; these are served in score order.
        """
        raise NotImplementedError

    def propose(self, prediction: Prediction, candidates: Candidates, random: Random) -> Proposal:
        """Find certain pairs, form blocks and shuffle each block: in score order, returned by document."""
        scores, mask = mean_of_members(prediction), candidates.mask
        lengths, documents = mask.sum(1), mask.shape[1]
        score_order, certain, compared = self.compared(prediction, scores, mask)
        orders, blocks = torch.zeros_like(score_order), torch.zeros_like(score_order)
        width, by_place = min(self.certain_places, documents), self.certain_places < documents
        pairs = mask.new_zeros(len(mask), width, width)
        lists = certain, compared, lengths, score_order, random.uniform(documents).contiguous()
        room, written = certain_pair_loops.room_of_lists(documents), (orders, blocks, pairs, int(by_place))
        loops.launch.launch(certain_pair_loops.proposes, len(mask), room, *lists, self.how, *written)
        if not self.needs_reasons or not torch.equal(compared, lengths):
            return Proposal(orders, scores)
        if by_place:
            return Proposal(orders, scores, blocks, certain_by_place=pairs)
        return Proposal(orders, scores, blocks, pairs)

    def compared(self, prediction: Prediction, scores: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
        """Return the documents in score order [B, D], their certain pairs [B, D, D], of which the first [B] were
        compared."""
        score_order = scores.masked_fill(~mask, float("-inf")).sort(dim=1, descending=True, stable=True).indices
        certain = self.certain(ScoreOrder(slice(None), prediction, score_order, scores.gather(1, score_order), mask))
        return score_order, certain.contiguous(), mask.sum(1).clamp(max=certain.shape[1])


class Stated(Exploration):
    """Serves the layers of a partial order that the ranker states, each in uniformly random order: TopRank's partition
    (Lattimore et al., NeurIPS 2018).

    The first layer holds the documents with no other document certainly above. Removing them gives the next layer, and
    so on (algorithm 1, line 4). Unlike PairRank's blocks, documents of different layers need not be a certain pair.
    """

    needs = (Need(STATED, "ranker=toprank"),)
    offers = frozenset({CERTAIN, LAYERS})

    def propose(self, prediction: Prediction, candidates: Candidates, random: Random) -> Proposal:
        assert prediction.certain is not None
        layer = layers(prediction.certain, candidates.mask)
        order = by_block(layer, random.exponential(layer.shape[1]).to(prediction.scores.dtype))
        return Proposal(order, -layer.to(prediction.scores.dtype), layer, prediction.certain)


def layers(above: Bool[Tensor, "B D D"], mask: Bool[Tensor, "B D"]) -> Int[Tensor, "B D"]:
    """Return the layer of each document, from 0. Padding has the layer D.

    If every remaining document has another above it, which takes a cycle, all remaining documents are the last layer.
    How many layers there are is read on the host, as TopRank reads its counts.
    """
    beats = above.float()
    layer = torch.full(mask.shape, mask.shape[1], dtype=torch.int64, device=mask.device)
    left, number = mask.clone(), 0
    while left.any():
        free = left & (torch.bmm(left.float()[:, None], beats).squeeze(1) == 0)
        free |= left & ~free.any(1, keepdim=True)
        layer.masked_fill_(free, number)
        left &= ~free
        number += 1
    return layer


def by_block(block: Int[Tensor, "B D"], clock: Float[Tensor, "B D"]) -> Int[Tensor, "B D"]:
    """Return the order by block, and by clock in each block."""
    return (block * (clock.amax(1, keepdim=True) + 1) + clock).argsort(1)
