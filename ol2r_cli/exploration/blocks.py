"""Divide and conquer: from certain pairs to ordered blocks, and a random order that respects them.

PairRank (WWW 2021), section 3.2.3. `certain[i, j]` says that document i certainly ranks above document j; padding ranks
certainly below every real document, so that it forms the last block.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ol2r_cli.interfaces import Draft
from ol2r_cli.shapes import Bool, Float, Int

CELLS = 16_384  # D^2 x replicas from which on a CPU gains nothing from working on more replicas at once


def similar_lengths(mask: Bool[Tensor, "B D"]) -> list[tuple[Int[Tensor, "_"] | slice, int]]:
    """Replicas to be worked on together, and the length of their longest query: what costs D^2 should not be padded.

    On a GPU, and for a single replica, everything is one group.
    """
    if len(mask) == 1 or mask.is_cuda:
        return [(slice(None), mask.shape[1])]
    groups: list[list[int]] = []
    lengths = mask.sum(1).tolist()
    for replica in sorted(range(len(lengths)), key=lambda b: -lengths[b]):
        if groups and (len(groups[-1]) + 1) * lengths[groups[-1][0]] ** 2 <= CELLS:
            groups[-1].append(replica)
        else:
            groups.append([replica])
    return [(slice(g[0], g[0] + 1) if len(g) == 1 else torch.tensor(g), lengths[g[0]]) for g in groups]


def draft(
    scores: Float[Tensor, "B D"], certain: Bool[Tensor, "B D D"], clock: Float[Tensor, "B D"], conservative: bool
) -> Draft:
    """Blocks of the certain relation, each in random order (`clock`: see `shuffle`)."""
    block = partition(certain)
    return Draft(shuffle(block, clock, certain if conservative else None), scores, block, certain)


def whole(scores: Float[Tensor, "B D"], parts: list[tuple[Tensor | slice, Draft]]) -> Draft:
    """The drafts of groups of replicas as one; padding beyond a group's longest query is last, in a block of its own."""
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
    return Draft(order, scores, block, certain)


def close(certain: Bool[Tensor, "B D D"]) -> Bool[Tensor, "B D D"]:
    """The transitive closure, by squaring until nothing is added. Most relations are closed already: one product."""
    while True:
        reach = certain.float()
        added = (reach @ reach > 0) & ~certain
        if not added.any():
            return certain
        certain = certain | added


def partition(certain: Bool[Tensor, "B D D"]) -> Int[Tensor, "B D"]:
    """Block number of each document: the finest ordered partition in which every pair across blocks is certain.

    Sorted by certain wins less certain losses, a block ends after the k-th document exactly when the k documents above
    win all their k (D - k) comparisons with those below, that is when the sum of their differences reaches it: pairs
    among the k contribute nothing. Equal to the paper's connected components and topological sort.
    """
    documents = certain.shape[1]
    net, order = (certain.sum(2) - certain.sum(1)).sort(1, descending=True)
    above = torch.arange(1, documents + 1, device=certain.device)
    ends = net.cumsum(1) == above * (documents - above)
    block_by_place = ends.cumsum(1) - ends.long()
    return torch.empty_like(order).scatter_(1, order, block_by_place)


def shuffle(
    block: Int[Tensor, "B D"], clock: Float[Tensor, "B D"], certain: Bool[Tensor, "B D D"] | None
) -> Int[Tensor, "B D"]:
    """A random order that respects the blocks and, where given, the certain pairs inside them (conservative).

    `clock` is exponential with rate 1. Conservative: a document's clock starts when the last document certainly above
    it has been placed, and documents are placed as their clocks ring. Because the exponential distribution has no
    memory, the next to ring is at every step uniform among the documents that are free: the random topological order,
    without the sequence of draws. A ringing time is therefore max over certain parents + clock, iterated to its fixed
    point, which takes as many passes as the longest chain inside a block.
    """
    rings = clock
    if certain is not None:
        inside = certain.mT & (block[:, :, None] == block[:, None, :])
        delay = torch.zeros_like(inside, dtype=clock.dtype).masked_fill_(~inside, float("-inf"))
        while True:
            later = (delay + rings[:, None, :]).amax(2).clamp_(min=0).add_(clock)
            if torch.equal(later, rings):
                break
            rings = later
    return (block * (rings.amax(1, keepdim=True) + 1) + rings).argsort(1)
