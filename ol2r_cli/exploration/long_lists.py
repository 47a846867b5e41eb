"""Divide and conquer on one long list: the blocks and the order of `blocks.py` without the transitive closure.

The closure takes D^3 operations and several tables of D^2 numbers. From `LONG` documents on it is avoided: certain
pairs are compared some documents at a time and kept as one table of D^2 bits (bytes), blocks are found from each
document's first and last certain pair, and paths are followed only from the documents whose pairs are traced.

As in `blocks.py`, documents are in score order, so that certain pairs only point down the list. There is no padding.
Everything here reads values, so it is for a CPU.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from ol2r_cli.exploration.ordered_blocks import by_block, close, ringing_times
from ol2r_cli.tensor.gather import cached_arange
from ol2r_cli.tensor.shapes import Bool, Float, Int

LONG = 1_280  # documents of a list from which on the closure is avoided; the longest list of MSLR has 1,251
NUMBERS = 1 << 17  # numbers of a comparison, which should stay in the cache
CHUNK = 128  # documents whose paths are followed together

# compare(rows, end) [r w] says which of the documents `rows` are certainly above which of rows.start .. end - 1.
Comparison = Callable[[slice, int], Tensor]


def compare_in_chunks(compare: Comparison, documents: int, positions: int | None) -> Bool[Tensor, "s s"]:
    """Return the certain pairs of the first s documents: all, or with `positions` those that can be among the first K.

    A document with K certain pairs above it cannot be among the first K of an order that respects them. The list ends
    after the last document with fewer. Documents below that one do not influence it, because certain pairs only point
    down the list. As rows are compared the list becomes shorter, and so does the next comparison.
    """
    certain = torch.zeros(documents, documents, dtype=torch.bool)
    above, end, start = torch.zeros(documents, dtype=torch.int32), documents, 0
    while start < end:
        rows = slice(start, min(start + max(NUMBERS // (end - start), 8), end, start + 255))
        certain[rows, start:end] = found = compare(rows, end)
        if positions is not None:
            above[start:end] += found.view(torch.uint8).sum(0, dtype=torch.uint8)
            end = int((above[:end] < positions).nonzero()[-1]) + 1
        start = rows.stop
    return certain[:end, :end]


def partition_unclosed(certain: Bool[Tensor, "d d"]) -> Int[Tensor, "d"]:
    """Return the block numbers that `partition` returns for the transitive closure.

    Let f(i) be the first document certainly below i (D if there is none) and l(j) the last certainly above j (-1).
    A block ends after k exactly if each i <= k reaches each j > k by a path of certain pairs, that is if

    1. f(i) <= k + 1 for all i <= k, and l(j) >= k for all j > k, and
    2. each i with f(i) = k + 1 is certainly above each j with l(j) = k.

    Necessary: if f(i) > k, the first step of i's path to k + 1 leads to k + 1, because paths lead down the list. The
    same holds for the last step of the path from k to j. From an i with f(i) = k + 1 to a j with l(j) = k, the first
    step leads below k and the last begins at or above k, so that the path is one pair. Sufficient: from i <= k the
    steps i, f(i), f(f(i)), .. reach a document with f = k + 1, and from j > k the steps l lead up to one with l = k.
    """
    documents = len(certain)
    first, last = _first_below(certain), _last_above(certain)
    k = np.arange(documents - 1)
    ends = (np.maximum.accumulate(first)[:-1] == k + 1) & (np.minimum.accumulate(last[::-1])[::-1][1:] == k)
    sinks, sources = (np.bincount(side, minlength=documents + 1)[1:-1] for side in (first, last + 1))
    for end in (ends & (sinks > 1) & (sources > 1)).nonzero()[0]:  # a single i is k itself, a single j is k + 1
        i, j = (first == end + 1).nonzero()[0], (last == end).nonzero()[0]
        ends[end] = certain.numpy()[np.ix_(i, j)].all()
    return torch.from_numpy(np.concatenate([[0], ends.cumsum()]))


def partition_direct(certain: Bool[Tensor, "d d"]) -> Int[Tensor, "d"]:
    """Return the block numbers that `partition` returns for these pairs, which need not be transitive.

    A block ends after k exactly if no document up to k has an uncertain pair with one below k.
    """
    documents = len(certain)
    # the last document below that is not a certain pair
    uncertain = documents - 1 - np.concatenate([rows[:, ::-1].argmin(1) for rows in _chunks(certain.numpy())])
    ends = np.maximum.accumulate(uncertain)[:-1] <= np.arange(documents - 1)
    return torch.from_numpy(np.concatenate([[0], ends.cumsum()]))


def shuffle_long(
    block: Int[Tensor, "d"], clock: Float[Tensor, "d"], certain: Bool[Tensor, "d d"] | None, places: int
) -> Int[Tensor, "d"]:
    """Return the order that `shuffle` returns for the transitive closure, without tables of D^2 numbers.

    Pairs that only the closure has change no ringing time: a document on the path rings no earlier than the upper one.
    """
    rings = clock
    if certain is not None:
        starts = torch.searchsorted(block, cached_arange(int(block[-1]) + 2, block.device)).tolist()
        end = starts[int(block[min(places, len(block)) - 1]) + 1]
        rings = clock.clone()
        for start, stop in itertools.pairwise(starts):
            if start < end and stop > start + 1:
                inside = certain[None, start:stop, start:stop]
                rings[start:stop] = ringing_times(clock[None, start:stop], inside)[0]
    return by_block(block[None], rings[None])[0]


def reachable(certain: Bool[Tensor, "d d"], among: Int[Tensor, "p"]) -> Bool[Tensor, "p p"]:
    """Return the transitive closure of the certain pairs, only for the documents `among`."""
    start, stop = int(among.min()), int(among.max()) + 1
    reach = certain[among, :stop].float()
    for low in range(start, stop, CHUNK):
        high = min(low + CHUNK, stop)
        inside = close(certain[None, low:high, low:high])[0].float()
        here = torch.addmm(reach[:, low:high], reach[:, low:high], inside).clamp_(max=1)
        reach[:, low:high] = here
        left = here.any(0).nonzero()[:, 0]  # documents of the chunk that are on a path
        reach[:, high:].addmm_(here[:, left], certain[low + left, high:stop].float())
    return reach[:, among] > 0


def _chunks(pairs: np.ndarray) -> Iterator[np.ndarray]:
    """Iterate over some rows at a time: numpy copies what it searches if rows are cut short or reversed."""
    return (pairs[start : start + CHUNK] for start in range(0, len(pairs), CHUNK))


def _first_below(certain: Bool[Tensor, "d d"]) -> np.ndarray:
    """Return the first document certainly below each; d if there is none."""
    pairs = certain.numpy()
    first = np.concatenate([rows.argmax(1) for rows in _chunks(pairs)])
    return np.where(pairs[np.arange(len(pairs)), first], first, len(pairs))


def _last_above(certain: Bool[Tensor, "d d"]) -> np.ndarray:
    """Return the last document certainly above each; -1 if there is none."""
    last = torch.zeros(len(certain), dtype=torch.int64)  # counted from 1
    for start in range(0, len(certain), CHUNK):
        rows = certain[start : start + CHUNK, start:].view(torch.uint8)
        latest = (rows * torch.arange(1, len(rows) + 1, dtype=torch.uint8)[:, None]).amax(0)
        torch.where(latest > 0, latest.long() + start, last[start:], out=last[start:])
    return last.numpy() - 1
