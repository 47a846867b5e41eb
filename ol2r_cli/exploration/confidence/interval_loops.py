"""PairRank's confidence intervals (exploration/confidence/): which pairs of a list are certain, and M and M^-1."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ol2r_cli.exploration.divide_and_conquer.certain_pair_loops import (
    divide,
    keep_reasons,
    pack,
    take_bits,
    write_pairs,
)
from ol2r_cli.exploration.order.order_loops import mean_of_members
from ol2r_cli.loops.compile import compiled, compiled_sums
from ol2r_cli.loops.dense import add_products, dot, dot_of_lanes, few_times, times, times_transposed
from ol2r_cli.loops.lanes import barrier, lane, lanes, of_many_lanes
from ol2r_cli.loops.orders import ascending, number
from ol2r_cli.loops.random_numbers import EXPLORE, drawn
from ol2r_cli.loops.workspace import mark, release, take, take_integers, take_matrix

FULL, DIAGONAL, INVERSE_DIAGONAL = range(3)  # forms of M^-1: all of it, its diagonal, the inverse of M's diagonal
AT_ONCE = 128  # rows that are added to M at once: their products with each other take memory
_SPREAD = 300.0  # of scores, up to which e^score is a number whose square is one
_ROWS = 64  # of the list that are compared at once
_HALF_UNIT = 2.0**-24  # relative error of a number in single precision


class Intervals(NamedTuple):
    """The confidence intervals of B replicas: M and M^-1 [B, F, F], alpha^2 [B], which form of M^-1 is used, whether
    pairs are closed, whether shuffles are conservative, and the places that are used.

    `blocks` [R, B, D] receives the block of every place, or nothing, and `certain` [R, B, c, c] the certain pairs of
    the first c places.
    """

    matrix: Any
    inverse: Any
    scale: Any
    form: int
    is_transitive: int
    is_conservative: int
    places: int
    blocks: Any
    certain: Any


def room_of_intervals(documents: int, features: int, pairs: int) -> int:
    """Return how many numbers of the workspace the stages of confidence intervals take."""
    words = (documents + 63) // 64
    of_list = documents * (words + 20) + 16 * words + features
    products = 3 * documents * features + documents * max(documents, _ROWS)
    pairs = min(pairs, AT_ONCE)
    return max(of_list + products, 2 * pairs * features + pairs * pairs) + 1024


@compiled
def arranges_by_intervals(b, space, round, queries, exploration):
    """Arrange blocks in their certain order, each at random."""
    before = mark(space)
    documents = round.documents
    score_order, ranked = take_integers(space, documents), take(space, documents)
    bits = take_bits(space, documents)
    sort_by_score(round.scores, score_order, ranked, space)
    y = take_matrix(space, documents, queries.table.shape[1])
    centre(queries.table, round.start, score_order, y, space)
    find_certain(b, y, ranked, exploration, bits, space)
    serve(b, space, round, score_order, bits, exploration)
    release(space, before)


@compiled
def serve(b, space, round, score_order, bits, exploration):
    """Arrange the blocks of certain pairs, whose documents are `score_order` [d], in their order, each at random."""
    before = mark(space)
    documents = len(score_order)
    order, block = take_integers(space, documents), take_integers(space, documents)
    chance = drawn(space, round.seed, EXPLORE, round.t, documents)
    transitive, conservative = exploration.is_transitive, exploration.is_conservative
    divide(bits, score_order, chance, transitive, conservative, exploration.places, order, block, space)
    for place in range(lane(), len(round.ranking), lanes()):
        round.ranking[place] = score_order[order[place]]
    if len(exploration.blocks):
        keep_reasons(bits, order, block, exploration.blocks[round.row, b], exploration.certain[round.row, b])
    barrier()
    release(space, before)


@compiled
def sort_by_score(scores, score_order, ranked, space):
    """Write the documents in the order of their mean score over members [N, d], best first, and these scores."""
    before = mark(space)
    keys = take(space, len(score_order))
    mean_of_members(scores, keys)
    for d in range(lane(), len(keys), lanes()):
        keys[d] = -number(keys[d])
    barrier()
    ascending(keys, score_order)
    for rank in range(lane(), len(score_order), lanes()):
        ranked[rank] = -keys[score_order[rank]]
    barrier()
    release(space, before)


@compiled
def centre(table, start, score_order, y, space):
    """Write the features of the documents in this order, less their mean, to y [d, F]."""
    before = mark(space)
    documents, features = y.shape
    mean = take(space, features)
    for f in range(lane(), features, lanes()):
        mean[f] = 0.0
    for i in range(documents):
        row = table[start + score_order[i]]
        for f in range(lane(), features, lanes()):
            mean[f] += row[f] / documents
    for i in range(documents):
        row = table[start + score_order[i]]
        for f in range(lane(), features, lanes()):
            y[i, f] = row[f] - mean[f]
    barrier()
    release(space, before)


@compiled
def compares_lists(b, space, x, order, scores, length, exploration, certain):
    """Write to certain [B, D, D], which is False, which pairs of lists are certain, in the order [B, D] by scores,
    which are scores [B, D] in this order; x [B, D, F] are features in theirs. Only the first `length` [B] are
    documents."""
    before = mark(space)
    documents, features = length[b], x.shape[2]
    y = take_matrix(space, documents, features)
    bits = take_bits(space, documents)
    score_order, ranked = take_integers(space, documents), take(space, documents)
    for d in range(lane(), documents, lanes()):
        score_order[d], ranked[d] = order[b, d], scores[b, d]
    barrier()
    centre(x[b], 0, score_order, y, space)
    find_certain(b, y, ranked, exploration, bits, space)
    write_pairs(bits, certain[b])
    release(space, before)


@compiled
def find_certain(b, y, scores, exploration, bits, space):
    """Write to bits whether (sigma(s_i - s_j) - 1/2)^2 > alpha^2 |x_i - x_j|^2, for i < j, in the norm of M^-1.

    y [d, F] is x less its mean, in score order like scores [d]. With a_i = e^{s_i}, sigma(s_i - s_j) - 1/2 =
    (a_i - a_j) / (2 (a_i + a_j)): no pair needs an exponential or a division. |x_i - x_j|^2 = K_ii + K_jj - 2 K_ij,
    where K_ij = p_i . y_j and p_i = M^-1 y_i.
    """
    before = mark(space)
    documents, features = y.shape
    p = take_matrix(space, documents, features)
    if exploration.form == FULL:
        times(y, exploration.inverse[b], p, space)
    else:
        factor = take(space, features)
        for f in range(lane(), features, lanes()):
            if exploration.form == DIAGONAL:
                factor[f] = exploration.inverse[b, f, f]
            else:
                factor[f] = 1 / exploration.matrix[b, f, f]
        for i in range(documents):
            for f in range(lane(), features, lanes()):
                p[i, f] = y[i, f] * factor[f]
        barrier()
    compare(y, p, scores, exploration.scale[b], bits, space)
    release(space, before)


@compiled_sums
def compare(y, p, scores, scale, bits, space):
    """Write the certain pairs to bits, on a CPU.

    K_ij is computed in single precision, where a sum of F products of rounded numbers, in any order, is off by at most
    g |p_i| |y_j| with g = (F + 2) u / (1 - (F + 2) u), u = 2^-24 (Higham, Accuracy and Stability of Numerical
    Algorithms, 2002, section 3.1, and Cauchy-Schwarz). Where this bound leaves a comparison open, K_ij is computed in
    double precision; so are all pairs of a row whose length could leave the range of single precision.
    """
    before = mark(space)
    documents, features = y.shape
    words = bits.shape[1]
    own, length, bound = take(space, documents), take(space, documents), take(space, documents)
    truths = take(space, 8 * words).view(np.bool_)
    for j in range(len(truths)):
        truths[j] = False
    for i in range(documents):
        own[i], length[i] = dot(p[i], y[i]), _in_range(math.sqrt(dot(y[i], y[i])))
        bound[i] = 2 * (features + 3) * _HALF_UNIT * _in_range(math.sqrt(dot(p[i], p[i])))
    if scores[0] - scores[documents - 1] >= _SPREAD:
        for i in range(documents):
            truths[i] = False
            for j in range(i + 1, documents):
                width = max(own[i] + own[j] - 2 * dot(p[i], y[j]), 0.0)
                margin = 1 / (1 + math.exp(scores[j] - scores[i])) - 0.5
                truths[j] = margin * margin > scale * width
            pack(truths, bits[i])
        release(space, before)
        return
    a, half = take(space, documents), (documents * features + 1) // 2
    p_rounded = take(space, half).view(np.float32)[: documents * features].reshape((documents, features))
    y_rounded = take(space, half).view(np.float32)[: documents * features].reshape((documents, features))
    products = take(space, (_ROWS * documents + 1) // 2).view(np.float32)
    for i in range(documents):
        a[i] = math.exp(scores[i] - scores[0])
        for f in range(features):
            p_rounded[i, f], y_rounded[i, f] = p[i, f], y[i, f]
    for first in range(0, documents, _ROWS):
        rows = min(_ROWS, documents - first)
        cross = products[: rows * (documents - first)].reshape((rows, documents - first))
        np.dot(p_rounded[first : first + rows], y_rounded[first:].T, cross)
        for i in range(first, first + rows):
            row, is_open = cross[i - first], 0
            truths[i] = False
            for j in range(i + 1, documents):
                less, factor = a[i] - a[j], 4 * scale * (a[i] + a[j]) * (a[i] + a[j])
                lead = less * less - factor * (own[i] + own[j] - 2 * row[j - first])
                truths[j] = lead > 0
                is_open += not abs(lead) > factor * bound[i] * length[j]
            if is_open:
                _settle(i, a, scale, own, p, y, row[i - first :], bound[i], length, truths)
            pack(truths, bits[i])
    release(space, before)


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
    return length if length == 0 or 1e-12 < length < 1e12 else math.inf


@of_many_lanes(compare)
@compiled
def compare_together(y, p, scores, scale, bits, space):
    """Write the certain pairs to bits, in double precision: every lane finds words of them."""
    before = mark(space)
    documents, words = bits.shape
    cross = take_matrix(space, documents, documents)
    a = take(space, documents)
    times_transposed(p, y, cross, space)
    is_far = scores[0] - scores[documents - 1] >= _SPREAD
    for i in range(lane(), documents, lanes()):
        a[i] = math.exp(scores[i] - scores[0])
    barrier()
    for cell in range(lane(), documents * words, lanes()):
        i, word, left = cell // words, cell % words, np.uint64(0)
        for j in range(max(64 * word, i + 1), min(64 * word + 64, documents)):
            width = max(cross[i, i] + cross[j, j] - 2 * cross[i, j], 0.0)
            less, both = a[i] - a[j], 2 * (a[i] + a[j])
            if is_far:
                less, both = 1 / (1 + math.exp(scores[j] - scores[i])) - 0.5, 1.0
            if less * less > both * both * (scale * width):
                left |= np.uint64(1) << np.uint64(j - 64 * word)
        bits[i, word] = left
    barrier()
    release(space, before)


@compiled
def remembers_pairs(b, space, round, queries, exploration):
    """Add the pairs of the round to M, and bring its inverse up to date."""
    before = mark(space)
    features = queries.table.shape[1]
    for first in range(0, round.found[0], AT_ONCE):
        count = min(AT_ONCE, round.found[0] - first)
        rows = take_matrix(space, count, features)
        for r in range(count):
            winner = queries.table[round.start + round.winners[first + r]]
            loser = queries.table[round.start + round.losers[first + r]]
            for f in range(lane(), features, lanes()):
                rows[r, f] = np.float64(winner[f]) - np.float64(loser[f])
        barrier()
        add_outer_products(exploration.matrix[b], exploration.inverse[b], rows, space)
        release(space, before)


@compiled
def adds_rows(b, space, rows, valid, matrix, inverse):
    """Add the outer products of the valid rows [B, M, F] to M [B, F, F], and bring its inverse up to date."""
    before = mark(space)
    pairs, features = rows.shape[1], rows.shape[2]
    at_once, pair = min(pairs, AT_ONCE), 0
    while pair < pairs:
        chosen, count = take_matrix(space, at_once, features), 0
        while pair < pairs and count < at_once:
            if valid[b, pair]:
                for f in range(lane(), features, lanes()):
                    chosen[count, f] = rows[b, pair, f]
                count += 1
            pair += 1
        barrier()
        add_outer_products(matrix[b], inverse[b], chosen[:count], space)
        release(space, before)


@compiled
def add_outer_products(matrix, inverse, rows, space):
    """Add rows^T rows, of a few rows [c, F], to matrix, and bring its inverse up to date, [F, F] each.

    Woodbury's identity: W^T W is subtracted from the inverse, with L W = rows A^-1 and L L^T = I + rows A^-1 rows^T.
    """
    before = mark(space)
    count, features = rows.shape
    projected = take_matrix(space, count, features)
    small = take_matrix(space, count, count)
    add_products(rows, rows, 1.0, matrix, False, space)
    few_times(rows, inverse, projected)
    for r in range(count):
        for c in range(r + 1):
            product = dot_of_lanes(projected[r], rows[c], space)
            if lane() == 0:
                small[r, c] = product + (r == c)
    barrier()
    if lane() == 0:
        factor_few(small)
    barrier()
    for r in range(count):  # W in place of what is projected
        for c in range(r):
            for f in range(lane(), features, lanes()):
                projected[r, f] -= small[r, c] * projected[c, f]
        for f in range(lane(), features, lanes()):
            projected[r, f] /= small[r, r]
    barrier()
    add_products(projected, projected, -1.0, inverse, False, space)
    release(space, before)


@compiled
def factor_few(matrix):
    """Put L in place of the lower triangle of a symmetric matrix L L^T of a few rows."""
    for r in range(len(matrix)):
        for c in range(r):
            for k in range(c):
                matrix[r, c] -= matrix[r, k] * matrix[c, k]
            matrix[r, c] /= matrix[c, c]
            matrix[r, r] -= matrix[r, c] * matrix[r, c]
        matrix[r, r] = math.sqrt(matrix[r, r])
