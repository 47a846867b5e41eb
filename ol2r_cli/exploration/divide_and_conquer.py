"""Divide and conquer: shuffle only documents whose mutual order is uncertain (PairRank, WWW 2021, section 3.2.3)."""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ol2r_cli import loops
from ol2r_cli.config.ranges import Range
from ol2r_cli.exploration.long_lists import (
    LONG,
    Comparison,
    compare_in_chunks,
    partition_direct,
    partition_unclosed,
    reachable,
    shuffle_long,
)
from ol2r_cli.exploration.ordered_blocks import close, partition, shuffle, similar_lengths
from ol2r_cli.interfaces import CERTAIN, Candidates, Exploration, Oracle, Prediction, Proposal, Rows, RunContext
from ol2r_cli.tensor.gather import cached_arange, gather_square
from ol2r_cli.tensor.shapes import Bool, Float, Int
from ol2r_cli.tensor.streams import Random
from ol2r_cli.tensor.synchronisation import is_host_readable

Shuffle = Literal["conservative", "random"]
Width = Annotated[float, Range(0, 1e100)]  # factor of the intervals; its square has to be a number


class ScoreOrder(NamedTuple):
    """b of the replicas, whose queries have at most d documents, with these documents in score order."""

    replicas: Tensor | slice  # which of the B replicas
    prediction: Prediction  # of all B replicas
    order: Int[Tensor, "b d"]  # best score first, padding last
    scores: Float[Tensor, "b d"]  # in this order
    mask: Bool[Tensor, "b d"]  # in this order
    rows: Rows | None = None  # for compiled loops, which take one replica at a time; of all B replicas


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

    def comparison(self, ranked: ScoreOrder) -> Comparison | None:
        """Return what compares some documents of one replica's long list, or None if all must be compared at once."""
        return None

    def propose(self, prediction: Prediction, candidates: Candidates, random: Random) -> Proposal:
        """Find certain pairs, form blocks and shuffle each block."""
        scores = prediction.scores[:, 0] if prediction.scores.shape[1] == 1 else prediction.scores.mean(1)
        if candidates.rows is not None and scores.shape[1] < LONG:
            return self._propose_by_loops(prediction, scores, candidates.rows, random)
        mask, clock = candidates.mask, random.exponential(scores.shape[1]).to(scores.dtype)
        parts = [
            (replicas, self._propose(replicas, prediction, scores[replicas, :longest], mask[replicas, :longest], clock))
            for replicas, longest in similar_lengths(mask)
        ]
        return parts[0][1] if len(parts) == 1 else _combine(scores, parts)

    def _propose(
        self,
        replicas: Tensor | slice,
        prediction: Prediction,
        scores: Float[Tensor, "b d"],
        mask: Bool[Tensor, "b d"],
        clock: Float[Tensor, "B D"],
    ) -> Proposal:
        """Return the proposal for some replicas: computed in score order, returned by document."""
        by_score = scores.masked_fill(~mask, float("-inf")).argsort(1, descending=True)
        ranked = ScoreOrder(replicas, prediction, by_score, scores.gather(1, by_score), mask)
        if self._is_long(mask):
            return self._propose_long(ranked, scores, clock[replicas, : scores.shape[1]])
        certain = self.certain(ranked)
        top, rest = by_score.tensor_split([certain.shape[1]], dim=1)
        mask = mask[:, : top.shape[1]]
        if not is_host_readable(mask) or not mask.all():  # a group of one replica has no padding
            certain = (certain | ~mask[:, None, :]) & mask[:, :, None]
        if self.transitive:
            certain = close(certain)
        block = partition(certain)
        clock = clock[replicas, : scores.shape[1]].gather(1, top)
        order = shuffle(block, clock, certain if self.shuffle == "conservative" else None, self.ranking_depth)
        if rest.shape[1]:
            return Proposal(torch.cat([top.gather(1, order), rest], 1), scores)
        rank = torch.empty_like(by_score).scatter_(
            1, by_score, cached_arange(scores.shape[1], scores.device).expand_as(by_score)
        )
        return Proposal(by_score.gather(1, order), scores, block.gather(1, rank), gather_square(certain, rank))

    def _propose_by_loops(
        self, prediction: Prediction, scores: Float[Tensor, "B D"], rows: Rows, random: Random
    ) -> Proposal:
        """Return the proposal replica by replica, each without padding."""
        replicas, documents = scores.shape
        chance = random.array(documents)
        order, block = (np.empty((replicas, documents), dtype=np.int64) for _ in range(2))
        by_place = self.certain_places < documents
        width = min(self.certain_places, documents)
        pairs = np.zeros((replicas, width, width), dtype=np.bool_)
        explained = self.needs_reasons
        for b, length in enumerate(rows.length.tolist()):
            of_replica = scores[b : b + 1, :length]
            by_score = of_replica.argsort(1, descending=True)
            mask = torch.ones_like(by_score, dtype=torch.bool)
            ranked = ScoreOrder(slice(b, b + 1), prediction, by_score, of_replica.gather(1, by_score), mask, rows)
            certain = self.certain(ranked)[0].numpy()
            explained &= len(certain) == length
            documents_by_score = by_score[0].numpy()
            loops.certain_pairs.propose(
                certain,
                documents_by_score,
                chance[b],
                self.transitive,
                self.shuffle == "conservative",
                self.ranking_depth,
                order[b],
                block[b],
                pairs[b],
                by_place,
            )
        proposed = torch.from_numpy(order)
        if not explained:
            return Proposal(proposed, scores)
        reasons = {"certain_by_place" if by_place else "certain": torch.from_numpy(pairs)}
        return Proposal(proposed, scores, torch.from_numpy(block), **reasons)

    def _is_long(self, mask: Bool[Tensor, "b d"]) -> bool:
        """Return whether a group is one long list on a CPU, of which not all certain pairs are used."""
        long = mask.shape[1] >= LONG and self.certain_places < mask.shape[1]
        return long and len(mask) == 1 and is_host_readable(mask) and bool(mask.all())

    def _propose_long(self, ranked: ScoreOrder, scores: Float[Tensor, "1 d"], clock: Float[Tensor, "1 d"]) -> Proposal:
        """Return the same proposal with fewer reasons, without the transitive closure.

        The closure of the certain pairs would give the same order: a document between two others rings after the upper
        and before the lower one, and shares their block if they share one.
        """
        by_score, compare = ranked.order, self.comparison(ranked)
        if compare is None:
            certain = self.certain(ranked)[0]
        else:
            leaves_out = self.only_shown and self.shuffle == "conservative"
            certain = compare_in_chunks(compare, by_score.shape[1], self.positions if leaves_out else None)
        top, rest = by_score.tensor_split([len(certain)], dim=1)
        block = partition_unclosed(certain) if self.transitive else partition_direct(certain)
        above = certain if self.shuffle == "conservative" else None
        order = shuffle_long(block, clock[0, top[0]], above, self.ranking_depth)
        proposed = torch.cat([top[:, order], rest], 1)
        if not self.needs_reasons or rest.shape[1]:
            return Proposal(proposed, scores)
        first = order[: self.certain_places]
        pairs = reachable(certain, first) if self.transitive else certain[first][:, first]
        block = torch.empty_like(by_score).scatter_(1, by_score, block[None])
        return Proposal(proposed, scores, block, certain_by_place=pairs[None])


def _combine(scores: Float[Tensor, "B D"], parts: list[tuple[Tensor | slice, Proposal]]) -> Proposal:
    """Return the proposals of groups of replicas as one. Padding beyond a group's longest query is one more block.

    The result has no blocks and certain pairs if one of the proposals has none, and certain pairs by place if one of
    them has these.
    """
    replicas, documents = scores.shape
    order = torch.arange(documents).repeat(replicas, 1)
    block = torch.full_like(order, documents)
    by_place = [part.certain_by_place.shape[1] for _, part in parts if part.certain_by_place is not None]
    width = by_place[0] if by_place else documents
    certain = torch.zeros(replicas, width, width, dtype=torch.bool)
    for members, part in parts:
        longest = part.order.shape[1]
        order[members, :longest] = part.order
        if part.block is not None:
            block[members, :longest] = part.block
            certain[members, :longest, longest:] = True
            if part.certain_by_place is not None:
                certain[members] = part.certain_by_place
            elif part.certain is not None:
                pairs = gather_square(part.certain, part.order[:, :width]) if by_place else part.certain
                certain[members, :longest, :longest] = pairs
    if any(part.block is None for _, part in parts):
        return Proposal(order, scores)
    return Proposal(order, scores, block, **{"certain_by_place" if by_place else "certain": certain})
