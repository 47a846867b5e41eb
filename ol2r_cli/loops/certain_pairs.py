"""Divide and conquer of one list (PairRank, WWW 2021, section 3.2.3): certain pairs, their closure, blocks, an order.

Documents are in score order, so that certain pairs only point down the list. exploration/divide_and_conquer.py has
the same as tensors, and the reasons.
"""

from __future__ import annotations

import numpy as np

from ol2r_cli.loops.compile import compiled, compiled_sums, part_of_caller
from ol2r_cli.loops.lists import ascending
from ol2r_cli.loops.updates import dot

_ONE, _ALL = np.uint64(1), np.uint64(2**64 - 1)
_GATHER, _TOP = np.uint64(0x0102040810204080), np.uint64(56)  # byte k of a product with it is bit k of the top byte
# The place of a word's only bit: a de Bruijn sequence moves six bits to the top that no other place has.
_SEQUENCE, _FIRST_SIX = np.uint64(0x03F79D71B4CB0A89), np.uint64(58)
_PLACE = np.zeros(64, np.int64)
for _place in range(64):
    _PLACE[(int(_SEQUENCE) << _place) % 2**64 >> 58] = _place
_SPREAD = 300.0  # of scores, up to which e^score is a number whose square is one


FULL, DIAGONAL, INVERSE_DIAGONAL = range(3)  # forms of M^-1: all of it, its diagonal, the inverse of M's diagonal
_ROWS = 64  # of the list that are compared at once
_HALF_UNIT = 2.0**-24  # relative error of a number in single precision


@compiled_sums
def confident(x, matrix, inverse, form, scores, scale, certain):
    """Write to certain [d, d], which is False, whether (sigma(s_i - s_j) - 1/2)^2 > scale |x_i - x_j|^2, for i < j.

    x [d, F] and scores [d] are in score order; the norm is that of a form of M^-1, from M and M^-1 [F, F]. With
    a_i = e^{s_i}, sigma(s_i - s_j) - 1/2 = (a_i - a_j) / (2 (a_i + a_j)): no pair needs an exponential or a division.

    |x_i - x_j|^2 = K_ii + K_jj - 2 K_ij, where K_ij = p_i . y_j, y_i is x_i less the mean of all x, and p_i = M^-1 y_i.
    K_ij is computed in single precision, where a sum of F products of rounded numbers, in any order, is off by at most
    g |p_i| |y_j| with g = (F + 2) u / (1 - (F + 2) u), u = 2^-24 (Higham, Accuracy and Stability of Numerical
    Algorithms, 2002, section 3.1, and Cauchy-Schwarz). Where this bound leaves a comparison open, K_ij is computed in
    the precision of x; so are all pairs of a row whose length could leave the range of single precision.
    """
    documents, features = x.shape
    mean, y, p = np.zeros(features), np.empty_like(x), np.empty_like(x)
    for i in range(documents):
        for f in range(features):
            mean[f] += x[i, f] / documents
    for i in range(documents):
        for f in range(features):
            y[i, f] = x[i, f] - mean[f]
    if form == FULL:
        np.dot(y, inverse, p)
    else:
        for f in range(features):
            factor = inverse[f, f] if form == DIAGONAL else 1 / matrix[f, f]
            for i in range(documents):
                p[i, f] = y[i, f] * factor
    own, length, bound = np.empty(documents), np.empty(documents), np.empty(documents)
    for i in range(documents):
        own[i], length[i] = dot(p[i], y[i]), _in_range(np.sqrt(dot(y[i], y[i])))
        bound[i] = 2 * (features + 3) * _HALF_UNIT * _in_range(np.sqrt(dot(p[i], p[i])))
    if scores[0] - scores[-1] >= _SPREAD:
        for i in range(documents):
            for j in range(i + 1, documents):
                width = max(own[i] + own[j] - 2 * dot(p[i], y[j]), 0.0)
                margin = 1 / (1 + np.exp(scores[j] - scores[i])) - 0.5
                certain[i, j] = margin * margin > scale * width
        return
    a, p_rounded, y_rounded = np.exp(scores - scores[0]), p.astype(np.float32), y.astype(np.float32)
    for first in range(0, documents, _ROWS):
        cross = np.dot(p_rounded[first : first + _ROWS], y_rounded[first:].T)
        for i in range(first, min(first + _ROWS, documents)):
            row, out, is_open = cross[i - first], certain[i], 0
            for j in range(i + 1, documents):
                less, factor = a[i] - a[j], 4 * scale * (a[i] + a[j]) * (a[i] + a[j])
                lead = less * less - factor * (own[i] + own[j] - 2 * row[j - first])
                out[j] = lead > 0
                is_open += not abs(lead) > factor * bound[i] * length[j]
            if is_open:
                _settle(i, a, scale, own, p, y, row[i - first :], bound[i], length, out)


@compiled
def _settle(i, a, scale, own, p, y, cross, bound, length, certain):
    """Compare the pairs of document i that single precision leaves open; `cross` [d - i] begins with document i."""
    for j in range(i + 1, len(a)):
        less, factor = a[i] - a[j], 4 * scale * (a[i] + a[j]) * (a[i] + a[j])
        lead = less * less - factor * (own[i] + own[j] - 2 * cross[j - i])
        if not abs(lead) > factor * bound * length[j]:
            certain[j] = less * less > factor * max(own[i] + own[j] - 2 * dot(p[i], y[j]), 0.0)


@compiled
def _in_range(length):
    """Return a length, or infinity where products of single precision could overflow or lose digits to underflow."""
    return length if length == 0 or 1e-12 < length < 1e12 else np.inf


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
def reach(certain, transitive):
    """Return the certain pairs as bits [d, words], with their transitive closure if `transitive`.

    From the last document up: what i reaches is what it is certainly above, and what these reach. The first of them
    reaches most of the others, which then add nothing.
    """
    documents = len(certain)
    words = (documents + 63) // 64
    bits, row = np.zeros((documents, words), np.uint64), np.zeros(64 * words, np.bool_)
    bytes = row.view(np.uint64)
    for i in range(documents - 1, -1, -1):
        for j in range(documents):
            row[j] = certain[i, j]
        for word in range(i // 64, words):
            left = np.uint64(0)
            for byte in range(8):  # eight truth values become eight bits
                left |= ((bytes[8 * word + byte] * _GATHER) >> _TOP) << np.uint64(8 * byte)
            if not transitive:
                bits[i, word] = left
                continue
            left &= ~bits[i, word]
            while left != 0:
                lowest = left & (~left + _ONE)
                j = 64 * word + _PLACE[(lowest * _SEQUENCE) >> _FIRST_SIX]
                bits[i, word] |= lowest
                for other in range(word, words):
                    bits[i, other] |= bits[j, other]
                left &= ~bits[i, word]
    return bits


@compiled
def _has(bits, j):
    return (bits[j // 64] >> np.uint64(j % 64)) & _ONE != 0


@compiled
def partition(bits, block):
    """Write the block of every document: a block ends after k if no document up to k has an uncertain one below k."""
    documents, end, number = len(bits), 0, 0
    for i in range(documents):
        for word in range(bits.shape[1] - 1, max(end, i) // 64 - 1, -1):
            uncertain = ~bits[i, word]
            if documents < 64 * word + 64:  # beyond the last document
                uncertain &= (_ONE << np.uint64(documents - 64 * word)) - _ONE
            if uncertain != 0:
                last = 64 * word + 63
                while (uncertain >> np.uint64(last % 64)) & _ONE == 0:
                    last -= 1
                end = max(end, i, last)
                break
        block[i] = number
        if end <= i:
            end = i
            number += 1


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
            drawn = ascending(rings[start:stop])
            for i in range(start, stop):
                order[i] = start + drawn[i - start]
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
    bits, number, ordered = reach(certain, transitive), np.empty(compared, np.int64), np.empty(compared, np.int64)
    partition(bits, number)
    clock = np.empty(compared)
    for rank in range(compared):
        clock[rank] = -np.log(chance[by_score[rank]])
    shuffle(certain, number, clock, conservative, places, ordered)
    for rank in range(documents):
        block[by_score[rank]] = number[min(rank, compared - 1)]
        order[rank] = by_score[ordered[rank] if rank < compared else rank]
    for d in range(documents, len(order)):
        block[d], order[d] = number[compared - 1] + 1, d
    if by_place:
        for p in range(min(len(pairs), compared)):
            for q in range(min(len(pairs), compared)):
                pairs[p, q] = _has(bits[ordered[p]], ordered[q])
    else:
        for i in range(compared):
            for j in range(i + 1, compared):  # certain pairs only point down the list
                pairs[by_score[i], by_score[j]] = _has(bits[i], j)
            for d in range(documents, len(pairs)):
                pairs[by_score[i], d] = True


@part_of_caller
def by_intervals(table, start, scores, chance, intervals, b, pairs):
    """Return order and block [d] of a query, from row `start` on, by confidence intervals (exploration/confidence.py).

    As `propose`, with pairs by place. `scores` [d] are by document, `intervals` those of `play.Strategy`.
    """
    form, scale, transitive, conservative, places, matrix, inverse = intervals
    documents = len(scores)
    x, best_first = np.empty((documents, table.shape[1]), scores.dtype), np.empty_like(scores)
    for d in range(documents):
        best_first[d] = -scores[d]
    by_score = ascending(best_first)
    for rank in range(documents):
        row, best_first[rank] = start + by_score[rank], scores[by_score[rank]]
        for f in range(x.shape[1]):
            x[rank, f] = table[row, f]
    certain = np.zeros((documents, documents), np.bool_)
    confident(x, matrix[b], inverse[b], form, best_first, scale, certain)
    order, block = np.empty(documents, np.int64), np.empty(documents, np.int64)
    propose(certain, by_score, chance, transitive, conservative, places, order, block, pairs, True)
    return order, block
