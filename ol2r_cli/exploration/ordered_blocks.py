"""Divide and conquer: from certain pairs to ordered blocks, and to a random order that respects them.

PairRank (WWW 2021), section 3.2.3. In this file documents are in score order, best first and padding last, so that
certain pairs only point down the list: `certain[i, j]` says that document i certainly ranks above document j > i.
Padding ranks certainly below every real document and forms the last block.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ol2r_cli.tensor.gather import cached_arange
from ol2r_cli.tensor.shapes import Bool, Float, Int
from ol2r_cli.tensor.synchronisation import is_host_readable

CELLS = 16_384  # replicas x D^2: with more cells a CPU gains nothing from larger batches
CHUNK = 64  # documents whose ringing times are computed together
LEAF = 128  # documents up to which the closure is computed by squaring
LATE = 1e30  # later than every clock


def similar_lengths(mask: Bool[Tensor, "B D"]) -> list[tuple[Int[Tensor, "_"] | slice, int]]:
    """Return groups of replicas with similar lengths and the longest length of each, so that D^2 is rarely padding.

    A group of one replica is a slice. On a GPU, and for small batches, all replicas are one group.
    """
    if not is_host_readable(mask) or mask.numel() * mask.shape[1] <= CELLS or len(mask) == 1:
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
    """Return the transitive closure.

    It closes each half of the list, then the pairs across: every path across is a path in the upper half, one certain
    pair across, and a path in the lower half. This takes a third of the work of one product of the whole matrix.
    """
    reach = certain.float()
    return reach > 0 if _close(reach) else certain


def _close(reach: Float[Tensor, "B D D"]) -> bool:
    """Close a 0/1 matrix in place. Return False only if it was closed already."""
    half = reach.shape[1] // 2
    if reach.shape[1] <= LEAF:
        if not is_host_readable(reach):
            for _ in range((reach.shape[1] - 1).bit_length()):  # paths of 1, 2, 4, .. pairs, up to the longest possible
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


def shuffle(
    block: Int[Tensor, "B D"], clock: Float[Tensor, "B D"], certain: Bool[Tensor, "B D D"] | None, places: int
) -> Int[Tensor, "B D"]:
    """Return a random order that respects the blocks and, if given, the certain pairs inside them (conservative).

    `clock` has exponential numbers with rate 1. Conservative: a document's clock starts when the last document
    certainly above it has been placed, and documents are placed as their clocks ring. The exponential distribution has
    no memory, so the next document is uniform among those that may come next. This is the paper's random topological
    order without a sequence of draws. Only the blocks that reach into the first `places` are drawn conservatively (on a
    GPU, only these places); the others are in some order that respects the blocks.
    """
    if certain is not None and not is_host_readable(certain):
        return _first_places(clock, certain, min(places, block.shape[1]))
    rings = clock
    if certain is not None:
        end = int((block <= block[:, min(places, block.shape[1]) - 1, None]).sum(1).max())
        above, top_block = certain[:, :end, :end], block[:, :end]
        rings = clock.clone()
        rings[:, :end] = ringing_times(clock[:, :end], above & (top_block[:, :, None] == top_block[:, None, :]))
    return by_block(block, rings)


def by_block(block: Int[Tensor, "B D"], rings: Float[Tensor, "B D"]) -> Int[Tensor, "B D"]:
    """Return the order by block, and by ringing time in each block."""
    return (block * (rings.amax(1, keepdim=True) + 1) + rings).argsort(1)


def ringing_times(clock: Float[Tensor, "B D"], above: Bool[Tensor, "B D D"]) -> Float[Tensor, "B D"]:
    """Return for each document its clock plus the latest ringing time of the documents `above` it.

    The list is processed in chunks. Inside a chunk the equation is iterated to its fixed point, with as many passes as
    its longest chain has documents; then the chunk delays the documents below it.
    """
    rings, delay = clock.clone(), torch.zeros_like(clock)
    for start in range(0, clock.shape[1], CHUNK):
        chunk, below = slice(start, start + CHUNK), slice(start + CHUNK, None)
        inside, ticking, started = above[:, chunk, chunk].to(clock.dtype), clock[:, chunk], delay[:, chunk]
        latest = started
        while True:
            later = (inside * (latest + ticking)[:, :, None]).amax(1)
            if start:
                later = torch.maximum(later, started)
            if torch.equal(later, latest):
                break
            latest = later
        rings[:, chunk] = latest + ticking
        if start + CHUNK < clock.shape[1]:
            delayed = (above[:, chunk, below] * rings[:, chunk, None]).amax(1)
            delay[:, below] = torch.maximum(delay[:, below], delayed)
    return rings


def _first_places(clock: Float[Tensor, "B D"], certain: Bool[Tensor, "B D D"], count: int) -> Int[Tensor, "B D"]:
    """Return an order whose first `count` places are drawn one by one, without reading values; the rest as it is.

    Each step places the document that rings first among those with no unplaced document certainly above. Blocks need
    no attention, because every document of an earlier block is certainly above.
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
