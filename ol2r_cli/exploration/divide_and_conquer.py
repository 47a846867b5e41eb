"""Divide and conquer: shuffle only documents whose mutual order is uncertain (PairRank, WWW 2021, section 3.2.3).

From certain pairs to ordered blocks, and to a random order that respects them. In the functions of this file documents
are in score order, best first and padding last, so that certain pairs only point down the list: `certain[i, j]` says
that document i certainly ranks above document j > i. Padding ranks certainly below every real document and forms the
last block. loops/certain_pairs.py has the same for one list.
"""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

import torch
from torch import Tensor

from ol2r_cli import loops
from ol2r_cli.config.ranges import Range
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
from ol2r_cli.tensor.gather import cached_arange, gather_square
from ol2r_cli.tensor.shapes import Bool, Float, Int
from ol2r_cli.tensor.streams import Random

Shuffle = Literal["conservative", "random"]
Width = Annotated[float, Range(0, 1e100)]  # factor of the intervals; its square has to be a number

LATE = 1e30  # later than every clock


class ScoreOrder(NamedTuple):
    """b of the replicas, whose queries have at most d documents, with these documents in score order."""

    replicas: slice  # which of the B replicas: one where loops go through them, otherwise all
    prediction: Prediction  # of all B replicas
    order: Int[Tensor, "b d"]  # best score first, padding last
    scores: Float[Tensor, "b d"]  # in this order
    mask: Bool[Tensor, "b d"]  # in this order
    loops: bool = False


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
        """Store which places of a proposed order, and which of their certain pairs, are used."""
        super().setup(context, features)
        self.certain_places, self.needs_reasons = context.certain_places, context.needs_reasons
        self.only_shown = context.ranking_depth == context.positions and not context.needs_reasons

    def certain(self, ranked: ScoreOrder) -> Bool[Tensor, "b s s"]:
        """Return [i, j]: document i of the order is certainly above document j; only for i < j.

        The first s documents may be fewer than d. Then at least K documents must be above each of the others once
        `transitive` has been applied; these are served in score order.
        """
        raise NotImplementedError

    def propose(self, prediction: Prediction, candidates: Candidates, random: Random) -> Proposal:
        """Find certain pairs, form blocks and shuffle each block: in score order, returned by document.

        Loops go through one replica after the other, each without padding.
        """
        scores, mask, documents = mean_of_members(prediction), candidates.mask, candidates.mask.shape[1]
        if candidates.rows is not None:
            explained = self.needs_reasons
            orders, blocks, by_ranks = (torch.zeros(mask.shape, dtype=torch.int64) for _ in range(3))
            width, by_place = min(self.certain_places, documents), self.certain_places < documents
            pairs = torch.zeros(len(mask), width, width, dtype=torch.bool)
            certain = torch.zeros(len(mask), documents, documents, dtype=torch.bool)
            compared = torch.zeros(len(mask), dtype=torch.int64)
            for b, length in enumerate(candidates.rows.length.tolist()):
                sorted_scores, by_score = scores[b : b + 1, :length].sort(1, descending=True)
                real = torch.ones_like(by_score, dtype=torch.bool)
                ranked = ScoreOrder(slice(b, b + 1), prediction, by_score, sorted_scores, real, loops=True)
                found = self.certain(ranked)[0]
                by_ranks[b, :length], compared[b] = by_score[0], len(found)
                certain[b, : len(found), : len(found)] = found
                explained &= len(found) == length
            lists = certain, compared, torch.from_numpy(candidates.rows.length), by_ranks, random.uniform(documents)
            how = int(self.transitive), int(self.shuffle == "conservative"), self.ranking_depth
            room, written = loops.certain_pairs.room_of_lists(documents), (orders, blocks, pairs, int(by_place))
            loops.launch.launch(loops.certain_pairs.proposes, len(mask), room, *lists, how, *written)
            if not explained:
                return Proposal(orders, scores)
            return Proposal(orders, scores, blocks, **{"certain_by_place" if by_place else "certain": pairs})

        by_score = scores.masked_fill(~mask, float("-inf")).argsort(1, descending=True)
        certain = self.certain(ScoreOrder(slice(None), prediction, by_score, scores.gather(1, by_score), mask))
        top, rest = by_score.tensor_split([certain.shape[1]], dim=1)
        mask = mask[:, : top.shape[1]]
        certain = (certain | ~mask[:, None, :]) & mask[:, :, None]
        if self.transitive:
            certain = close(certain)
        block = partition(certain)
        clock = random.exponential(documents).to(scores.dtype).gather(1, top)
        if self.shuffle == "conservative":
            order = shuffle(clock, certain, min(self.ranking_depth, top.shape[1]))
        else:
            order = by_block(block, clock)
        if rest.shape[1]:
            return Proposal(torch.cat([top.gather(1, order), rest], 1), scores)
        rank = by_score.argsort(1)
        return Proposal(by_score.gather(1, order), scores, block.gather(1, rank), gather_square(certain, rank))


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


def close(certain: Bool[Tensor, "B D D"]) -> Bool[Tensor, "B D D"]:
    """Return the transitive closure: of paths of 1, 2, 4, .. pairs, up to the longest possible."""
    reach = certain.float()
    for _ in range((certain.shape[1] - 1).bit_length()):
        reach = torch.baddbmm(reach, reach, reach).clamp_(max=1)
    return reach > 0


def partition(certain: Bool[Tensor, "B D D"]) -> Int[Tensor, "B D"]:
    """Return block numbers of the finest ordered partition in which every pair across blocks is certain.

    A block ends after document k exactly if the first k documents certainly win all k (D - k) comparisons with the
    others. Pairs among the first k cancel in the running sum of certain wins minus certain losses, so this is the case
    exactly if that sum is k (D - k). The result equals the paper's connected components in topological order.
    """
    documents = certain.shape[1]
    net = certain.sum(2) - certain.sum(1)
    above = cached_arange(documents, certain.device) + 1
    ends = net.cumsum(1) == above * (documents - above)
    return ends.cumsum(1) - ends.long()


def by_block(block: Int[Tensor, "B D"], clock: Float[Tensor, "B D"]) -> Int[Tensor, "B D"]:
    """Return the order by block, and by clock in each block."""
    return (block * (clock.amax(1, keepdim=True) + 1) + clock).argsort(1)


def shuffle(clock: Float[Tensor, "B D"], certain: Bool[Tensor, "B D D"], count: int) -> Int[Tensor, "B D"]:
    """Return an order whose first `count` places are drawn one by one and respect the certain pairs; the rest as it is.

    `clock` has exponential numbers with rate 1. A document's clock starts when the last document certainly above it has
    been placed, and documents are placed as their clocks ring. The exponential distribution has no memory, so the next
    document is uniform among those that may come next. This is the paper's random topological order without a sequence
    of draws. Blocks need no attention, because every document of an earlier block is certainly above.
    """
    above = certain.to(clock.dtype)
    above.diagonal(dim1=1, dim2=2).fill_(-1)  # makes a placed document wait for ever
    waits, rings = certain.sum(1).to(clock.dtype), clock.clone()
    replica, placed = cached_arange(len(clock), clock.device), []
    for _ in range(count):
        ring, document = rings.add(waits, alpha=LATE).min(1)
        placed.append(document)
        below = above[replica, document]
        waits -= below
        torch.maximum(rings, torch.addcmul(clock, below, ring[:, None]), out=rings)
    first = torch.stack(placed, 1)
    rank = cached_arange(clock.shape[1], clock.device).expand_as(clock) + count
    return rank.scatter(1, first, cached_arange(count, clock.device).expand_as(first)).argsort(1)
