"""Labels of the best documents of many lists, for the offline evaluation."""

from __future__ import annotations

import numpy as np

from ol2r_cli.loops.compile import compiled

_LOWEST = np.int64(-(2**63))
_SIGN, _TAIL = np.int64(0x7FFFFFFF), np.int64(0xFFFFFFFF)


@compiled
def top_labels(scores, tails, label_bits, length, places):
    """Return the labels [S, B, Q, places] of the first places of every list, 0 below its end.

    `scores` [S, B, Q, D] are compared in single precision, so that rounding errors are ties. `tails` [B, Q, D], of less
    than 2^32, break ties: the larger one first, among negative scores the smaller one. Their last `label_bits` bits are
    the label. Query q has length[q] documents.
    """
    snapshots, replicas, queries, documents = scores.shape
    top = np.zeros((snapshots, replicas, queries, places), dtype=np.int64)
    best = np.empty(places + 1, dtype=np.int64)  # keys in descending order, and a place for the one that drops out
    single, found = np.empty(documents, dtype=np.float32), np.empty(documents + 1, dtype=np.int64)
    label = (np.int64(1) << label_bits) - 1
    for s in range(snapshots):
        for b in range(replicas):
            for q in range(queries):
                for d in range(length[q]):
                    single[d] = np.float32(scores[s, b, q, d]) + np.float32(0)
                best[:] = _LOWEST
                for number in range(_candidates(single, length[q], places, found)):
                    bits = np.int64(np.float32(single[found[number]]).view(np.int32))
                    tail = tails[b, q, found[number]]
                    if bits < 0:  # of negative numbers, those with larger bits are lower
                        bits, tail = bits ^ _SIGN, ~tail & _TAIL
                    key = (bits << 32) | tail
                    if key > best[places - 1]:
                        place = places - 1
                        while place > 0 and key > best[place - 1]:
                            best[place] = best[place - 1]
                            place -= 1
                        best[place] = key
                for place in range(min(places, length[q])):
                    top[s, b, q, place] = (best[place] if best[place] >= 0 else ~best[place]) & label
    return top


@compiled
def _candidates(scores, length, places, found):
    """Fill `found` with documents among which the first places are, and return how many these are.

    With the list in as many parts as there are places, the lowest of their maxima is at most the score of the last
    place: documents below it are left out without comparing them with each other.
    """
    size = length // places
    least = np.float32(-np.inf)
    if size > 3:
        least = np.float32(np.inf)
        for part in range(places):
            most = scores[part * size]
            for d in range(part * size + 1, (part + 1) * size):
                most = scores[d] if scores[d] > most else most
            least = most if most < least else least
    count = 0
    for d in range(length):
        found[count] = d
        count += not scores[d] < least
    return count
