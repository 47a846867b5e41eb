"""Divide and conquer: serve blocks of documents whose mutual order is uncertain (PairRank, WWW 2021, section 3.2.3)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ol2r_cli.exploration.blocks import close, partition, shuffle, similar_lengths
from ol2r_cli.host import on_host
from ol2r_cli.interfaces import CERTAIN, Belief, Candidates, Draft, Exploration
from ol2r_cli.random import Random
from ol2r_cli.rows import pick_both, places
from ol2r_cli.shapes import Bool, Float, Int


class Ranked(NamedTuple):
    """Some replicas, whose queries have at most d documents, and these documents in the order of their scores."""

    some: Tensor | slice
    belief: Belief  # of all replicas
    order: Int[Tensor, "b d"]  # best score first, padding last
    scores: Float[Tensor, "b d"]  # in that order
    mask: Bool[Tensor, "b d"]  # in that order, too


class DivideAndConquer(Exploration):
    """Blocks are served in their certain order, and each block in a random order; a subclass says what is certain.

    `shuffle` is `conservative` (certain pairs inside a block keep their order) or `random`; `transitive` closes the
    certain relation before blocks are formed.
    """

    offers = frozenset({CERTAIN})

    def __init__(self, shuffle: str, transitive: bool):
        super().__init__()
        if shuffle not in ("conservative", "random"):
            raise ValueError(f"exploration.shuffle must be 'conservative' or 'random', got {shuffle!r}")
        self.shuffle, self.transitive = shuffle, transitive

    def certain(self, ranked: Ranked) -> Bool[Tensor, "b s s"]:
        """[i, j]: the i-th document is certainly above the j-th; only for i < j.

        Of all documents, or of the first s where the others do not matter because, with everything that is certain, K
        documents are above each of them; they follow in the order of their scores.
        """
        raise NotImplementedError

    def propose(self, belief: Belief, candidates: Candidates, random: Random) -> Draft:
        """Certain pairs, their blocks, and a random order of each block."""
        scores = belief.scores[:, 0] if belief.scores.shape[1] == 1 else belief.scores.mean(1)
        mask, clock = candidates.mask, random.exponential(scores.shape[1]).to(scores.dtype)
        parts = [
            (some, self._propose(some, belief, scores[some, :longest], mask[some, :longest], clock))
            for some, longest in similar_lengths(mask)
        ]
        return parts[0][1] if len(parts) == 1 else _together(scores, parts)

    def _propose(
        self,
        some: Tensor | slice,
        belief: Belief,
        scores: Float[Tensor, "b d"],
        mask: Bool[Tensor, "b d"],
        clock: Float[Tensor, "B D"],
    ) -> Draft:
        """The draft of some replicas: worked out in score order, stated by document."""
        by_score = scores.masked_fill(~mask, float("-inf")).argsort(1, descending=True)
        certain = self.certain(Ranked(some, belief, by_score, scores.gather(1, by_score), mask))
        kept, rest = by_score.tensor_split([certain.shape[1]], dim=1)
        mask = mask[:, : kept.shape[1]]
        if not on_host(mask) or not mask.all():  # a group of one is not padded
            certain = (certain | ~mask[:, None, :]) & mask[:, :, None]
        if self.transitive:
            certain = close(certain)
        block = partition(certain)
        clock = clock[some, : scores.shape[1]].gather(1, kept)
        order = shuffle(block, clock, certain if self.shuffle == "conservative" else None, self.ordered)
        if rest.shape[1]:
            return Draft(torch.cat([kept.gather(1, order), rest], 1), scores)
        rank = torch.empty_like(by_score).scatter_(
            1, by_score, places(scores.shape[1], scores.device).expand_as(by_score)
        )
        return Draft(by_score.gather(1, order), scores, block.gather(1, rank), pick_both(certain, rank))


def _together(scores: Float[Tensor, "B D"], parts: list[tuple[Tensor | slice, Draft]]) -> Draft:
    """The drafts of groups of replicas as one; padding beyond a group's longest query is a last block of its own.

    Without reasons where some group has none.
    """
    replicas, documents = scores.shape
    order = torch.arange(documents).repeat(replicas, 1)
    block = torch.full_like(order, documents)
    certain = torch.zeros(replicas, documents, documents, dtype=torch.bool)
    for some, part in parts:
        longest = part.order.shape[1]
        order[some, :longest] = part.order
        certain[some, :longest, longest:] = True
        if part.block is not None and part.certain is not None:
            block[some, :longest] = part.block
            certain[some, :longest, :longest] = part.certain
    explained = all(part.block is not None for _, part in parts)
    return Draft(order, scores, block, certain) if explained else Draft(order, scores)
