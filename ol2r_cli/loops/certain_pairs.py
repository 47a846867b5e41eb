"""Divide and conquer of one list (PairRank, WWW 2021, section 3.2.3): certain pairs, their closure, blocks, an order.

Documents are in score order, so that certain pairs only point down the list. exploration/divide_and_conquer.py has
the same as tensors, and the reasons.
"""

from __future__ import annotations

import numpy as np

from ol2r_cli.loops.compile import compiled, compiled_sums

FULL, DIAGONAL, INVERSE_DIAGONAL = range(3)  # forms of M^-1: all of it, its diagonal, the inverse of M's diagonal
_ROWS = 64  # of the list that are compared at once
_SPREAD = 300.0  # of scores, up to which e^score is a number whose square is one


@compiled_sums
def confident(x, matrix, inverse, form, scores, scale, certain):
    """Write to certain [d, d], which is False, whether (sigma(s_i - s_j) - 1/2)^2 > scale |x_i - x_j|^2, for i < j.

    x [d, F] and scores [d] are in score order; the norm is that of a form of M^-1, from M and M^-1 [F, F]. It is
    |x_i - x_j|^2 = K_ii + K_jj - 2 K_ij, where K_ij = p_i . y_j, y_i is x_i less the mean of all x, and p_i = M^-1 y_i.
    With a_i = e^{s_i}, sigma(s_i - s_j) - 1/2 = (a_i - a_j) / (2 (a_i + a_j)): no pair needs an exponential or a
    division, unless the scores are too far apart.
    """
    documents = len(x)
    y = (x - x.sum(0) / documents).astype(x.dtype)
    if form == FULL:
        p = np.dot(y, inverse)
    elif form == DIAGONAL:
        p = y * np.diag(inverse)
    else:
        p = y / np.diag(matrix)
    own, a, is_far = (p * y).sum(1), np.exp(scores - scores[0]), scores[0] - scores[-1] >= _SPREAD
    for first in range(0, documents, _ROWS):
        cross = np.dot(p[first : first + _ROWS], y[first:].T)
        for i in range(first, min(first + _ROWS, documents)):
            row = cross[i - first]
            for j in range(i + 1, documents):
                less, both = a[i] - a[j], a[i] + a[j]
                if is_far:
                    less, both = np.tanh((scores[i] - scores[j]) / 2), 1.0
                width = max(own[i] + own[j] - 2 * row[j - first], 0.0)
                certain[i, j] = less * less > 4 * scale * both * both * width


@compiled
def unanimous(scores, certain):
    """Write to certain [d, d], which is False, whether every member, of scores [N, d], scores i above j, for i < j."""
    members, documents = scores.shape
    for i in range(documents):
        for j in range(i + 1, documents):
            certain[i, j] = scores[0, i] > scores[0, j]
        for n in range(1, members):
            for j in range(i + 1, documents):
                certain[i, j] &= scores[n, i] > scores[n, j]


@compiled
def closed(certain):
    """Return the transitive closure of the certain pairs [d, d].

    From the last document up: what i reaches is what it is certainly above, and what these reach. The first of them
    reaches most of the others, which then add nothing.
    """
    documents, reached = len(certain), np.zeros_like(certain)
    for i in range(documents - 1, -1, -1):
        for j in range(i + 1, documents):
            if certain[i, j] and not reached[i, j]:
                reached[i, j] = True
                for k in range(j + 1, documents):
                    reached[i, k] |= reached[j, k]
    return reached


@compiled
def partition(certain, block):
    """Write the block of every document: a block ends after k if no document up to k has an uncertain one below k."""
    end, number = 0, 0
    for i in range(len(certain)):
        last = len(certain) - 1
        while last > max(i, end) and certain[i, last]:
            last -= 1
        end = max(i, end, last)
        block[i] = number
        number += end == i


@compiled
def shuffle(certain, block, clock, conservative, places, order):
    """Fill order [d] with a random order that respects the blocks, and, if `conservative`, the certain pairs inside.

    `clock` [d] has exponential numbers. Conservative: a document's clock starts when the last document certainly above
    it has rung; only in blocks that reach into the first `places`.
    """
    documents, start = len(block), 0
    rings = clock.copy()
    while start < documents:
        stop = start + 1
        while stop < documents and block[stop] == block[start]:
            stop += 1
        if conservative and start < places:
            latest = np.zeros(stop - start)
            for i in range(start, stop):
                rings[i] += latest[i - start]
                for j in range(i + 1, stop):
                    latest[j - start] = max(latest[j - start], rings[i] * certain[i, j])
        if stop - start > 1:
            order[start:stop] = start + np.argsort(rings[start:stop])
        else:
            order[start] = start
        start = stop


@compiled
def propose(certain, by_score, chance, transitive, conservative, places, order, block, pairs, by_place):
    """Fill order and block [D] of one replica, and pairs [c, c], whose certain pairs are among the first s documents.

    `certain` [s, s] is by rank in the score order, `by_score` [d] has the document at each rank, chance [D] has uniform
    numbers by document. Documents below the first s stay in score order, in the block of the last of them. `pairs`,
    which is False, is by place of the order if `by_place`, otherwise by document; padding is below all.
    """
    compared, documents = len(certain), len(by_score)
    if transitive:
        certain = closed(certain)
    number = np.zeros(documents, dtype=np.int64)
    partition(certain, number[:compared])
    number[compared:] = number[compared - 1]
    ordered = np.arange(documents)
    clock = -np.log(chance[by_score[:compared]])
    shuffle(certain, number[:compared], clock, conservative, places, ordered[:compared])
    for rank in range(documents):
        block[by_score[rank]] = number[rank]
        order[rank] = by_score[ordered[rank]]
    for d in range(documents, len(order)):
        block[d], order[d] = number[documents - 1] + 1, d
    for i in range(min(len(pairs), compared) if by_place else compared):
        if by_place:
            for j in range(min(len(pairs), compared)):
                pairs[i, j] = certain[ordered[i], ordered[j]]
        else:
            for j in range(i + 1, compared):  # certain pairs only point down the list
                pairs[by_score[i], by_score[j]] = certain[i, j]
            pairs[by_score[i], documents:] = True


@compiled
def by_intervals(table, start, scores, chance, intervals, b, pairs):
    """Return order and block [d] of a query, from row `start` on, by confidence intervals (exploration/confidence.py).

    As `propose`, with pairs by place. `scores` [d] are by document, `intervals` those of `play.Strategy`.
    """
    form, scale, transitive, conservative, places, matrix, inverse = intervals
    by_score = np.argsort(-scores, kind="mergesort")
    documents = len(scores)
    x = np.empty((documents, table.shape[1]), scores.dtype)
    for rank in range(documents):
        x[rank] = table[start + by_score[rank]]
    certain = np.zeros((documents, documents), np.bool_)
    confident(x, matrix[b], inverse[b], form, scores[by_score], scale, certain)
    order, block = np.empty(documents, np.int64), np.empty(documents, np.int64)
    propose(certain, by_score, chance, transitive, conservative, places, order, block, pairs, True)
    return order, block
