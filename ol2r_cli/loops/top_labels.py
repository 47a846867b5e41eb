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
    snapshots, replicas, queries, _ = scores.shape
    top = np.zeros((snapshots, replicas, queries, places), dtype=np.int64)
    best = np.empty(places + 1, dtype=np.int64)  # keys in descending order, and a place for the one that drops out
    label = (np.int64(1) << label_bits) - 1
    for s in range(snapshots):
        for b in range(replicas):
            for q in range(queries):
                best[:] = _LOWEST
                for d in range(length[q]):
                    bits = np.int64(np.float32(np.float32(scores[s, b, q, d]) + np.float32(0)).view(np.int32))
                    tail = tails[b, q, d]
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
