"""Divide and conquer: from certain pairs to ordered blocks, and a random order that respects them.

PairRank (WWW 2021), section 3.2.3. Documents stand in score order here, best first and padding last, so that certain
pairs only point down the list: `certain[i, j]` says that document i certainly ranks above document j > i. Padding ranks
certainly below every real document and forms the last block.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ol2r_cli.host import on_host
from ol2r_cli.rows import places
from ol2r_cli.shapes import Bool, Float, Int

CELLS = 16_384  # D^2 x replicas from which on a CPU gains nothing from working on more replicas at once
CHUNK = 64  # documents whose ringing times are settled together
LEAF = 128  # documents for which the closure is found by squaring
LATE = 1e30  # later than any clock rings


def similar_lengths(mask: Bool[Tensor, "B D"]) -> list[tuple[Int[Tensor, "_"] | slice, int]]:
    """Replicas to be worked on together, and the length of their longest query: what costs D^2 should not be padded.

    A group of one is a slice. On a GPU, and where nothing is gained by a division, everything is one group.
    """
    if not on_host(mask) or mask.numel() * mask.shape[1] <= CELLS or len(mask) == 1:
        return [(slice(None), mask.shape[1])]
    groups: list[list[int]] = []
    lengths = mask.sum(1).tolist()
    for replica in sorted(range(len(lengths)), key=lambda b: -lengths[b]):
        if groups and (len(groups[-1]) + 1) * lengths[groups[-1][0]] ** 2 <= CELLS:
            groups[-1].append(replica)
        else:
            groups.append([replica])
    return [(slice(g[0], g[0] + 1) if len(g) == 1 else torch.tensor(g), lengths[g[0]]) for g in groups]


def close(certain: Bool[Tensor, "B D D"]) -> Bool[Tensor, "B D D"]:
    """The transitive closure.

    Of each half of the list first, then across: whoever reaches the start of a certain pair from above reaches all that
    its end reaches below. That takes a third of the work of one product of the whole matrix.
    """
    reach = certain.float()
    return reach > 0 if _close(reach) else certain


def _close(reach: Float[Tensor, "B D D"]) -> bool:
    """In place, for entries 0 and 1; returns False where it is certain that nothing was added."""
    half = reach.shape[1] // 2
    if reach.shape[1] <= LEAF:
        if not on_host(reach):
            for _ in range((reach.shape[1] - 1).bit_length()):  # paths of 1, 2, 4, .. pairs: as many as there may be
                reach.copy_(torch.baddbmm(reach, reach, reach).clamp_(max=1))
            return True
        added = False
        while (torch.bmm(reach, reach) > reach * reach.shape[1]).any():  # most relations are closed already
            reach.copy_(torch.baddbmm(reach, reach, reach).clamp_(max=1))
            added = True
        return added
    upper, lower, across = reach[:, :half, :half], reach[:, half:, half:], reach[:, :half, half:]
    _close(upper)
    _close(lower)
    from_above = torch.baddbmm(across, upper, across)
    across.copy_(torch.baddbmm(from_above, from_above, lower).clamp_(max=1))
    return True


def partition(certain: Bool[Tensor, "B D D"]) -> Int[Tensor, "B D"]:
    """Block number of each document: the finest ordered partition in which every pair across blocks is certain.

    A block ends after the k-th document exactly when the k documents above win all their k (D - k) comparisons with
    those below, that is when the running sum of certain wins less certain losses reaches it: pairs among the k cancel.
    Equal to the paper's connected components and topological sort.
    """
    documents = certain.shape[1]
    net = certain.sum(2) - certain.sum(1)
    above = places(documents, certain.device) + 1
    ends = net.cumsum(1) == above * (documents - above)
    return ends.cumsum(1) - ends.long()


def shuffle(
    block: Int[Tensor, "B D"], clock: Float[Tensor, "B D"], certain: Bool[Tensor, "B D D"] | None, places: int
) -> Int[Tensor, "B D"]:
    """A random order that respects the blocks and, where given, the certain pairs inside them (conservative).

    `clock` is exponential with rate 1. Conservative: a document's clock starts when the last document certainly above
    it has been placed, and documents are placed as their clocks ring. Because the exponential distribution has no
    memory, the next to ring is at every step uniform among the documents that are free: the random topological order,
    without the sequence of draws. Only the blocks of the first `places` are drawn so (on a GPU, only these places);
    what is below is in any order that respects the blocks.
    """
    if certain is not None and not on_host(certain):
        return _placed(clock, certain, min(places, block.shape[1]))
    rings = clock
    if certain is not None:
        end = int((block <= block[:, min(places, block.shape[1]) - 1, None]).sum(1).max())
        above, own = certain[:, :end, :end], block[:, :end]
        rings = clock.clone()
        rings[:, :end] = _rings(clock[:, :end], above & (own[:, :, None] == own[:, None, :]))
    return (block * (rings.amax(1, keepdim=True) + 1) + rings).argsort(1)


def _rings(clock: Float[Tensor, "B D"], above: Bool[Tensor, "B D D"]) -> Float[Tensor, "B D"]:
    """Ringing times: the latest of the documents above, plus the own clock.

    Chunk by chunk down the list; inside a chunk the equation is iterated to its fixed point, which takes as many passes
    as its longest chain.
    """
    rings = clock.clone()
    for start in range(0, clock.shape[1], CHUNK):
        own = slice(start, start + CHUNK)
        inside, ticking = above[:, own, own].to(clock.dtype), clock[:, own]
        started = (above[:, :start, own] * rings[:, :start, None]).amax(1) if start else torch.zeros_like(ticking)
        latest = started
        while True:
            later = (inside * (latest + ticking)[:, :, None]).amax(1)
            if start:
                later = torch.maximum(later, started)
            if torch.equal(later, latest):
                break
            latest = later
        rings[:, own] = latest + ticking
    return rings


def _placed(clock: Float[Tensor, "B D"], certain: Bool[Tensor, "B D D"], count: int) -> Int[Tensor, "B D"]:
    """The first `count` places one by one, which never asks how far it is; the other documents follow as they stand.

    At every step the document is placed that rings first among those with nobody left above them; blocks need no care,
    because whoever is in an earlier one is certainly above.
    """
    above = certain.to(clock.dtype)
    above.diagonal(dim1=1, dim2=2).fill_(-1)  # who has been placed waits for ever
    waits, rings = certain.sum(1).to(clock.dtype), clock.clone()
    replica, placed = places(len(clock), clock.device), []
    for _ in range(count):
        ring, document = rings.add(waits, alpha=LATE).min(1)
        placed.append(document)
        below = above[replica, document]
        waits -= below
        torch.maximum(rings, torch.addcmul(clock, below, ring[:, None]), out=rings)
    first = torch.stack(placed, 1)
    rank = places(clock.shape[1], clock.device).expand_as(clock) + count
    return rank.scatter(1, first, places(count, clock.device).expand_as(first)).argsort(1)
