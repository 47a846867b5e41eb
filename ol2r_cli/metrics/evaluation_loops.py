"""The first places of every list of an offline evaluation. metrics/evaluation.py has the same as tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from ol2r_cli.loops.compile import compiled
from ol2r_cli.loops.dense import dot
from ol2r_cli.loops.orders import descending
from ol2r_cli.loops.workspace import Workspace, take, take_integer_matrix, take_integers

_TINY = 2.0**-1000  # as in metrics/evaluation.py


def top_labels(
    scores: Any, slack: Any, weights: Any, table: Any, tails: Any, label_bits: int, length: Any, places: int
) -> Any:
    """Return the labels [S, B, Q, places] of the first places of every list, 0 below its end; overwrites `scores`.

    Finite scores are compared in single precision, so that rounding errors are ties. `tails` [B, Q, D], of less than
    2^29, break ties: the larger one first, among negative scores the smaller one. Their last `label_bits` bits are the
    label. Query q has length[q] documents.

    `scores` [S, B, Q, D], of single precision, are within slack[s, b] of the rounded products of weights [S, B, F] with
    table [Q, D, F]. Where that does not decide which labels come first, these products do. Without slack the scores
    are final.
    """
    *lists, documents = scores.shape
    top, single = np.zeros((*lists, places), np.int64), np.empty(documents, np.float32)
    space = Workspace(np.empty(4 * documents + (lists[2] + 1) * places + 2), np.zeros(2, np.int64))
    write_top_labels(scores, slack, weights, table, tails, (1 << label_bits) - 1, length, top, single, space)
    return top


@compiled
def write_top_labels(scores, slack, weights, table, tails, label, length, top, single, space):
    """Write what `top_labels` returns to `top`; `label` is a number with the bits of a label, `single` [D] is room."""
    snapshots, replicas, queries, documents = scores.shape
    places = top.shape[3]
    found, order = take_integers(space, documents + 1), take_integers(space, places + 1)
    keys = take(space, documents)
    bits = keys.view(np.int64)
    # The first documents of each query's last list. None of the first ones of the next list is below all of them, and
    # where lists are similar little is above the lowest, and nearly sorted.
    last = take_integer_matrix(space, queries, places)
    for q in range(queries):
        for i in range(places):
            last[q, i] = i
    for b in range(replicas):
        for s in range(snapshots):
            undecided = 2 * slack[s, b]  # differences up to it
            for q in range(queries):
                size = min(places, length[q])
                count = find_candidates(scores[s, b, q], last[q, :size], length[q], undecided, found, single)
                first = order[: min(count, places + 1)]
                for final in range(2):
                    for i in range(count):
                        if final:
                            single[i] = dot(weights[s, b], table[q, found[i]])
                        keys[i] = single[i] + _TINY
                        bits[i] |= tails[b, q, found[i]]
                    descending(keys[:count], first)
                    if undecided == 0 or are_labels_decided(first, single, bits, places, label, undecided):
                        break
                for place in range(size):
                    last[q, place] = found[first[place]]
                    top[s, b, q, place] = bits[first[place]] & label


@compiled
def find_candidates(scores, last, documents, undecided, found, single):
    """Write the documents that may be the first of a list to found, and their scores [D] to single; return how many
    there are.

    They are the first ones of the last list, and all whose score is not below all of theirs by more than `undecided`.
    The scores of the former are NaN afterwards.
    """
    size, lowest = len(last), np.float32(np.inf)
    for i in range(size):
        found[i] = last[i]
        single[i] = scores[found[i]]
        lowest = min(lowest, single[i])
        scores[found[i]] = np.nan  # not found again
    lowest, count = np.float32(lowest - undecided), size
    for d in range(documents):
        found[count] = d
        count += scores[d] >= lowest  # without a branch, which would be mispredicted
    for i in range(size, count):
        single[i] = scores[found[i]]
    return count


@compiled
def are_labels_decided(first, single, bits, places, label, undecided):
    """Return whether the labels of the first places stay if scores differ by less than `undecided`: neighbours in the
    order `first` are further apart, or have the same label and are both shown."""
    decided = True
    for place in range(1, len(first)):
        upper, lower = first[place - 1], first[place]
        close = not single[upper] - single[lower] > undecided
        decided &= not close or (place < places and (bits[upper] ^ bits[lower]) & label == 0)
    return decided
