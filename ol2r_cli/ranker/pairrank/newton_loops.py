"""The optimum of a pairwise ranker's objective after every round, by Newton's method around an anchor.

ranker/pairrank/newton.py says what `AnchoredNewton` decides, and why.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ol2r_cli.loops.compile import compiled, compiled_sums
from ol2r_cli.loops.dense import add_products, difference, dot_of_lanes, few_times, keep_difference
from ol2r_cli.loops.lanes import barrier, lane, lane_max, lane_sum, lanes
from ol2r_cli.loops.workspace import mark, release, take, take_integers, take_matrix

DRIFT = 0.3  # in units of score: every pair's weight in the Hessian is then within a factor exp(0.3) of the truth
PASSES = 100  # at most, in one round: rounding could keep a step from ever being good enough
PART = 64  # pairs that are added to the Hessian at once
_PANEL = 16  # rows that `invert` eliminates at once, a power of 2
_FEW = 8  # a correction of fewer pairs than an eighth of the features changes the inverse pair by pair
_LOST = 1e-3  # share of an inverse's curvature that a single pair may leave, before rounding shows


class PairwiseState(NamedTuple):
    """A linear ranker that is fitted to all pairs so far, for B replicas.

    theta, start, anchor and gradient [B, F], objective [B], the Hessian and its inverse [B, F, F]; of each of C pairs
    the score at the anchor, and when it was last weighted in the Hessian [B, C], which holds the first `held` [B] of
    `count` [B]; winner and loser [B, C, 2] as rows of the table, and their differences [B, C, F], or nothing on a GPU.
    The penalty is `l2` [B], and `l2_of_pair` [B] for every pair; the Hessian is outgrown by `growth` [B]; `is_exact`
    [B] is whether a step has to be a rounding error.
    """

    theta: Any
    start: Any
    anchor: Any
    gradient: Any
    objective: Any
    hessian: Any
    inverse: Any
    scores: Any
    base_scores: Any
    held: Any
    count: Any
    pairs: Any
    rows: Any
    l2: Any
    l2_of_pair: Any
    growth: Any
    is_exact: Any


def room_of_newton(capacity: int, features: int, pairs: int) -> int:
    """Return how many numbers of the workspace `learns_from_all_pairs` takes."""
    of_correction = 2 * capacity + 2 * PART * features
    return of_correction + 2 * _PANEL * (features + _PANEL) + pairs * features + 8 * features + 4096


@compiled
def learns_from_all_pairs(b, space, round, queries, ranker):
    """Add the pairs of the round to those of all rounds, and move theta to the optimum."""
    new = round.found[0]
    if new == 0:
        return
    before = mark(space)
    features, count = queries.table.shape[1], ranker.count[b]
    rows = take_matrix(space, new, features)
    for r in range(new):
        winner, loser = round.start + round.winners[r], round.start + round.losers[r]
        for f in range(lane(), features, lanes()):
            rows[r, f] = np.float64(queries.table[winner, f]) - np.float64(queries.table[loser, f])
            keep_difference(ranker, b, count + r, f, rows[r, f])
    for r in range(lane(), new, lanes()):
        ranker.pairs[b, count + r, 0] = round.start + round.winners[r]
        ranker.pairs[b, count + r, 1] = round.start + round.losers[r]
    barrier()
    add_at_anchor(b, space, rows, ranker)
    move_to_optimum(b, space, queries.table, ranker)
    release(space, before)


@compiled
def learns_from_rows(b, space, rows, valid, table, ranker):
    """Move theta to the optimum of all pairs, of which the valid ones of rows [B, M, F] are new, and kept already: for
    single rounds, in which a ranker may have replaced the features that `learns_from_all_pairs` reads from the table.
    """
    if add_valid_at_anchor(b, space, rows, valid, ranker):
        move_to_optimum(b, space, table, ranker)


@compiled
def adds_rows_at_anchor(b, space, rows, valid, step, q, ranker):
    """Add the valid rows [B, M, F], which are kept already, at the anchor. Write the Newton step [B, F] there, which is
    to be subtracted, and g . H^-1 g to q [B]."""
    add_valid_at_anchor(b, space, rows, valid, ranker)
    size = newton_step(ranker.inverse[b], ranker.gradient[b], step[b], space)
    if lane() == 0:
        q[b] = size
    barrier()


@compiled
def add_valid_at_anchor(b, space, rows, valid, ranker):
    """Do what `add_at_anchor` does for the valid rows [B, M, F], which have been counted; return their number."""
    before = mark(space)
    pairs, features = rows.shape[1], rows.shape[2]
    added, new = take_matrix(space, pairs, features), 0
    for pair in range(pairs):
        if valid[b, pair]:
            for f in range(lane(), features, lanes()):
                added[new, f] = rows[b, pair, f]
            new += 1
    barrier()
    if lane() == 0:
        ranker.count[b] -= new
    barrier()
    if new:
        add_at_anchor(b, space, added[:new], ranker)
    release(space, before)
    return new


@compiled
def add_at_anchor(b, space, rows, ranker):
    """Add pairs with these differences [c, F], which are kept already, to score, gradient and objective at the anchor,
    and to the number of pairs."""
    new, features = rows.shape
    anchor, gradient, count = ranker.anchor[b], ranker.gradient[b], ranker.count[b]
    loss = 0.0
    for r in range(new):
        score = dot_of_lanes(rows[r], anchor, space)
        if lane() == 0:
            ranker.scores[b, count + r] = score
        slope = 1 / (1 + math.exp(score))
        for f in range(lane(), features, lanes()):
            gradient[f] -= slope * rows[r, f]
        loss += softplus(-score)
    penalty = ranker.l2_of_pair[b] * new
    for f in range(lane(), features, lanes()):
        gradient[f] += penalty * (anchor[f] - ranker.start[b, f])
    barrier()
    if lane() == 0:
        ranker.objective[b] += loss
        ranker.count[b] = count + new
    barrier()


@compiled
def softplus(x):
    """Return log(1 + e^x)."""
    return x if x > 30 else math.log1p(math.exp(x))


@compiled
def move_to_optimum(b, space, table, ranker):
    """Move the anchor until the step to the optimum is good enough, and theta to the end of that step."""
    before = mark(space)
    features = ranker.theta.shape[1]
    step = take(space, features)
    for attempt in range(PASSES):
        is_outgrown = ranker.count[b] > ranker.growth[b] * ranker.held[b]
        if attempt > 0 or is_outgrown:
            correct(b, space, table, is_outgrown, ranker)
        q = newton_step(ranker.inverse[b], ranker.gradient[b], step, space)
        if not is_poor(q, ranker.objective[b], features, ranker.is_exact[b]):
            break
        move_anchor(b, space, table, step, ranker)
    for f in range(lane(), features, lanes()):
        ranker.theta[b, f] = ranker.anchor[b, f] - step[f]
    barrier()
    release(space, before)


@compiled
def newton_step(inverse, gradient, step, space):
    """Write H^-1 g to step [F], and return g . H^-1 g."""
    features = len(step)
    few_times(gradient.reshape((1, features)), inverse, step.reshape((1, features)))
    return dot_of_lanes(step, gradient, space)


@compiled
def is_poor(q, objective, features, is_exact):
    """Return whether the step from the anchor may miss the guarantee of `AnchoredNewton`.

    The gap left by a step is of higher order in q, the more so the more evidence there is per parameter: q may exceed
    the tolerated gap 100-fold then, but not at all while pairs are few or separable (calibrated; see
    docs/algorithms/pairrank.md).
    """
    if is_exact:
        return q > 2.0**-52
    evidence = objective / (3 * features)
    return q > min(max(20 * evidence * evidence, 1.0), 100.0) * (1e-3 + 1e-5 * objective)


@compiled
def move_anchor(b, space, table, step, ranker):
    """Move the anchor against a step [F], damped where it changes a score by more than `DRIFT`, and compute scores,
    gradient and objective there."""
    before = mark(space)
    count, features = ranker.count[b], len(step)
    scores, anchor, gradient = ranker.scores[b], ranker.anchor[b], ranker.gradient[b]
    change = take(space, count)
    longest = changes(b, table, step, 0, change, ranker)
    longest = lane_max(longest, space)
    damping = math.log1p(longest) / longest if longest > DRIFT else 1.0
    loss = 0.0
    for i in range(lane(), count, lanes()):
        score = scores[i] - damping * change[i]
        scores[i] = score
        change[i] = 1 / (1 + math.exp(score))
        loss += softplus(-score)
    loss = lane_sum(loss, space)
    penalty, square = ranker.l2[b] + ranker.l2_of_pair[b] * count, 0.0
    for f in range(lane(), features, lanes()):
        anchor[f] -= damping * step[f]
        moved = anchor[f] - ranker.start[b, f]
        gradient[f] = penalty * moved
        square += moved * moved
    square = lane_sum(square, space)
    pull(b, table, change, 0, gradient, ranker)
    if lane() == 0:
        ranker.objective[b] = loss + penalty / 2 * square
    barrier()
    release(space, before)


@compiled_sums
def changes(b, table, step, first, change, ranker):
    """Write how much a step [F] changes the score of the pairs from `first` on, change [n], and return the largest
    change of this lane's pairs."""
    longest = 0.0
    for i in range(lane(), len(change), lanes()):
        total = 0.0
        for f in range(len(step)):
            total += step[f] * difference(ranker, b, table, first + i, f)
        change[i] = total
        longest = max(longest, abs(total))
    return longest


@compiled_sums
def pull(b, table, push, first, gradient, ranker):
    """Subtract push [n] times the rows of the pairs from `first` on from the gradient [F]: four pairs at once."""
    whole = len(push) // 4 * 4
    for i in range(0, whole, 4):
        pair = first + i
        for f in range(lane(), len(gradient), lanes()):
            one, two = difference(ranker, b, table, pair, f), difference(ranker, b, table, pair + 1, f)
            three, four = difference(ranker, b, table, pair + 2, f), difference(ranker, b, table, pair + 3, f)
            gradient[f] -= (push[i] * one + push[i + 1] * two) + (push[i + 2] * three + push[i + 3] * four)
    for i in range(whole, len(push)):
        for f in range(lane(), len(gradient), lanes()):
            gradient[f] -= push[i] * difference(ranker, b, table, first + i, f)
    barrier()


@compiled
def correct(b, space, table, is_outgrown, ranker):
    """Bring the Hessian up to date for pairs that have drifted and for new ones, and its inverse.

    Where no pair has drifted, nothing is done, unless the Hessian is outgrown.
    """
    count, held = ranker.count[b], ranker.held[b]
    drifted = 0.0
    for i in range(lane(), held, lanes()):
        if abs(ranker.scores[b, i] - ranker.base_scores[b, i]) > DRIFT:
            drifted = 1.0
    if lane_max(drifted, space) == 0 and not is_outgrown:
        return
    before = mark(space)
    features = ranker.theta.shape[1]
    hessian, inverse = ranker.hessian[b], ranker.inverse[b]
    chosen, weights = take_integers(space, count), take(space, count)
    number = find_stale(b, space, chosen, weights, ranker)
    x = take_matrix(space, PART, features)
    weighted = take_matrix(space, PART, features)
    for first in range(0, number, PART):
        part = min(PART, number - first)
        for r in range(part):
            for f in range(lane(), features, lanes()):
                x[r, f] = difference(ranker, b, table, chosen[first + r], f)
                weighted[r, f] = weights[first + r] * x[r, f]
        barrier()
        add_products(weighted[:part], x[:part], 1.0, hessian, False, space)
    lacks = ranker.l2_of_pair[b] * (count - held)  # of l2, on the diagonal
    for f in range(lane(), features, lanes()):
        hessian[f, f] += lacks
    barrier()
    is_done = 0
    if lacks == 0 and held > 0 and number <= min(features // _FEW, PART):
        is_done = add_few(inverse, x[:number], weights, space)
    if not is_done:
        for cell in range(lane(), features * features, lanes()):
            inverse[cell // features, cell % features] = hessian[cell // features, cell % features]
        barrier()
        invert(inverse, space)
    if lane() == 0:
        ranker.held[b] = count
    barrier()
    release(space, before)


@compiled
def find_stale(b, space, chosen, weights, ranker):
    """Write the pairs that are new or have drifted, and by how much their weight in the Hessian grows; return their
    number. Every lane looks at pairs that follow each other, so that they keep their order."""
    before = mark(space)
    count, held = ranker.count[b], ranker.held[b]
    scores, base = ranker.scores[b], ranker.base_scores[b]
    numbers = take_integers(space, lanes() + 1)
    share = (count + lanes() - 1) // lanes()
    first, stop = min(count, lane() * share), min(count, (lane() + 1) * share)
    mine = 0
    for i in range(first, stop):
        mine += i >= held or abs(scores[i] - base[i]) > DRIFT
    numbers[lane()] = mine
    barrier()
    if lane() == 0:
        total = 0
        for other in range(lanes() + 1):
            of_other = numbers[other] if other < lanes() else 0
            numbers[other] = total
            total += of_other
    barrier()
    place = numbers[lane()]
    for i in range(first, stop):
        if i >= held or abs(scores[i] - base[i]) > DRIFT:
            chosen[place], weights[place] = i, curvature(scores[i]) - (curvature(base[i]) if i < held else 0.0)
            base[i] = scores[i]
            place += 1
    number = numbers[lanes()]
    barrier()
    release(space, before)
    return number


@compiled
def curvature(score):
    """Return sigma'(score)."""
    chance = 1 / (1 + math.exp(-score))
    return chance * (1 - chance)


@compiled
def add_few(inverse, rows, weights, space):
    """Bring the inverse [F, F] of a matrix up to date, to which the outer products of rows [c, F] with these weights
    were added, one after the other (Sherman and Morrison); return whether that was exact enough."""
    before = mark(space)
    count, features = rows.shape
    turned = take(space, features)
    for r in range(count):
        few_times(rows[r : r + 1], inverse, turned.reshape((1, features)))
        left = 1 + weights[r] * dot_of_lanes(rows[r], turned, space)
        if not left > _LOST:
            release(space, before)
            return 0
        subtract_square(inverse, turned, weights[r] / left)
    release(space, before)
    return 1


@compiled
def subtract_square(matrix, vector, weight):
    """Subtract weight vector vector^T from a matrix."""
    for f in range(len(vector)):
        factor = weight * vector[f]
        for g in range(lane(), len(vector), lanes()):
            matrix[f, g] -= factor * vector[g]
    barrier()


@compiled
def invert(matrix, space):
    """Invert a symmetric positive definite matrix in place, by sweeps (Goodnight, The American Statistician, 1979).

    A sweep of a few rows K turns the matrix A into one with -A_KK^-1, A_KK^-1 A_Kj, and A_ij - A_iK A_KK^-1 A_Kj; all
    of them give -A^-1. It stays symmetric, so that what is right of the diagonal is enough: half of the operations of
    an elimination, as many as of Cholesky's factor and the inverse from it.
    """
    before = mark(space)
    size = len(matrix)
    across = take_matrix(space, _PANEL, size)
    solved = take_matrix(space, _PANEL, size)
    small = take(space, 2 * _PANEL * _PANEL)
    for first in range(0, size, _PANEL):
        _take_panel(matrix, first, across, small)
        begin = _invert_panel(small)
        few_times(small[begin : begin + _PANEL * _PANEL].reshape((_PANEL, _PANEL)), across, solved)
        add_products(across, solved, -1.0, matrix, True, space)
        for j in range(lane(), size, lanes()):
            for k in range(min(_PANEL, size - first)):
                if j < first:
                    matrix[j, first + k] = solved[k, j]
                elif j >= first + _PANEL:
                    matrix[first + k, j] = solved[k, j]
                elif j >= first + k:
                    matrix[first + k, j] = -small[begin + _PANEL * k + j - first]
        barrier()
    for i in range(lane(), size, lanes()):
        for j in range(i + 1):
            matrix[i, j] = -matrix[j, i]
    barrier()
    for i in range(size):
        for j in range(i + 1 + lane(), size, lanes()):
            matrix[i, j] = matrix[j, i]
    barrier()
    release(space, before)


@compiled
def _take_panel(matrix, first, across, small):
    """Copy rows of a symmetric matrix, given right of its diagonal, from row `first` on: to `small` [16, 16] the part
    on the diagonal, with ones on its diagonal beyond the last row, and to across [16, F] all other columns."""
    size = len(matrix)
    for j in range(lane(), size, lanes()):
        is_part = first <= j < first + _PANEL
        for k in range(_PANEL):
            value = 0.0
            if first + k < size and not is_part:
                value = matrix[j, first + k] if j < first else matrix[first + k, j]
            across[k, j] = value
    for cell in range(lane(), _PANEL * _PANEL, lanes()):
        i, j = min(cell // _PANEL, cell % _PANEL), max(cell // _PANEL, cell % _PANEL)
        if first + j < size:
            small[cell] = matrix[first + i, first + j]
        else:
            small[cell] = 1.0 if i == j else 0.0
    barrier()


@compiled
def _invert_panel(small):
    """Invert the matrix [16, 16] at the beginning of `small`, which has room for two; return where the inverse is."""
    begin, other = 0, _PANEL * _PANEL
    for k in range(_PANEL):
        pivot = 1 / small[begin + _PANEL * k + k]
        for cell in range(lane(), _PANEL * _PANEL, lanes()):
            i, j, value = cell // _PANEL, cell % _PANEL, small[begin + cell]
            if i == k:
                value = pivot if j == k else value * pivot
            elif j == k:
                value = -value * pivot
            else:
                value -= small[begin + _PANEL * i + k] * small[begin + _PANEL * k + j] * pivot
            small[other + cell] = value
        begin, other = other, begin
        barrier()
    return begin
