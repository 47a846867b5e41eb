"""PePairRank: the optima of a pairwise ranker's objective under label noise that is drawn anew in every round.

ranker/pairrank/optima.py says what the noise is, which steps lead to the optima, and what they guarantee.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from ol2r_cli.loops.compile import compiled, compiled_sums
from ol2r_cli.loops.dense import add_products, difference, dot_of_lanes, few_times
from ol2r_cli.loops.gradient_steps import linear_of_members
from ol2r_cli.loops.lanes import barrier, lane, lane_max, lane_sum, lanes
from ol2r_cli.loops.random_numbers import ALL_PAIRS, FACTORED, NEW_PAIRS, NORMAL_AT_ONCE, drawn_normal
from ol2r_cli.loops.workspace import mark, release, take, take_matrix
from ol2r_cli.ranker.pairrank.newton_loops import PART, changes, invert, learns_from_all_pairs, newton_step, pull

AT_ONCE = 256  # pairs that a pass over all of them looks at twice
STREAMS = FACTORED, NEW_PAIRS, ALL_PAIRS  # of a ranker that learns

DEPENDENT = 1e-12  # of the length of a column, below which what is left of it is rounding

PASSES = 4  # with the anchor's Hessian
CONTRACTION = 0.3  # of the squared Newton decrement per pass, at least; else members go on by themselves
MARGIN = 0.02  # of the tolerated gap: next to separable pairs curvature fades, and the decrement says too little
DIRECT, DETOUR = 40, 300  # steps of one member: from the anchor, and for each of the larger l2
NEARBY = 0.1  # of the root of the number of pairs, the gap for a larger l2

FAR = 4.0  # change of a score after which a Hessian says little about the curvature
PATIENCE = 8  # steps before the Hessian is computed again
CLOSE = 0.05  # of the gap, where it stops: members that stop short of their optima would be too much alike
FLAT = 0.1  # a step is long enough where the slope along it has fallen to this share
LENGTHS = 60  # of a step that are tried, at most


class PerturbedState(NamedTuple):
    """Members that are fitted to all pairs so far, each with its own noise, for B replicas.

    theta [B, N, F] are the members; `fit` is the `PairwiseState` of the fit without noise. `factor` [B, F, F] is R with
    R^T R = X^T X of the first `factored` [B] pairs; `variance` [B] is that of the noise of a label. Where old pairs are
    forgotten, those from `first` [B] on count, each its `weights` [B, C], or 1 if C is 0, and together `mass` [B].
    """

    theta: Any
    fit: Any
    factor: Any
    factored: Any
    variance: Any
    first: Any
    mass: Any
    weights: Any


def room_of_members(members: int, capacity: int, features: int, new: int, drawn: int) -> int:
    """Return how many numbers of the workspace the members take, of `capacity` pairs, `new` of them not factored at
    most, where so many have noise of their own."""
    of_noise = 2 * members * (features + 2) + members * drawn + 2 * NORMAL_AT_ONCE
    together = 3 * members * features + 2 * members + members * AT_ONCE
    alone = 4 * capacity + 2 * features * features + (2 * PART + 40) * features
    return of_noise + together + max(alone, (new + 1) * (features + 1)) + members * features + 4096


@compiled
def scores_by_members(b, space, round, queries, ranker):
    """Score the documents by every member."""
    linear_of_members(ranker.theta[b], queries.table, round.start, round.scores)


@compiled
def learns_by_members(b, space, round, queries, ranker):
    """Add the pairs of the round to those of all rounds, and move the members to their optima under new noise."""
    learns_from_all_pairs(b, space, round, queries, ranker.fit)
    move_members(b, space, round.seed, round.t, STREAMS, queries.table, ranker)


@compiled
def moves_members(b, space, of_factored, of_new, of_all, table, ranker):
    """Move the members to their optima under the noise of these draws."""
    streams = of_factored.stream, of_new.stream, of_all.stream
    move_members(b, space, of_factored.seeds[b], of_factored.t, streams, table, ranker)


@compiled
def move_members(b, space, seed, t, streams, table, ranker):
    """Draw the noise of a round and move the members to the optima under it; to the start, where no pair counts."""
    before = mark(space)
    members, features = ranker.theta.shape[1], ranker.theta.shape[2]
    count, first = ranker.fit.count[b], ranker.first[b]
    noise = take_matrix(space, members, features)
    theta = take_matrix(space, members, features)
    draw_noise(b, space, seed, t, streams, table, noise, ranker)
    factor_new_pairs(b, space, table, ranker)
    if count > first:
        find_optima(b, space, table, noise, theta, ranker)
    for n in range(members):
        for f in range(lane(), features, lanes()):
            ranker.theta[b, n, f] = theta[n, f] if count > first else ranker.fit.start[b, f]
    barrier()
    release(space, before)


@compiled
def has_own_noise(b, ranker):
    """Return whether every pair has noise of its own, because pairs that have left a window are in the factor."""
    return ranker.first[b] > 0 and ranker.weights.shape[1] == 0


@compiled
def weight_of(b, i, ranker):
    """Return what a pair counts."""
    return ranker.weights[b, i] if ranker.weights.shape[1] > 0 else 1.0


@compiled
def draw_noise(b, space, seed, t, streams, table, noise, ranker):
    """Write to noise [N, F] what the labels' noise adds to the gradient of every member: R^T of normal numbers, and
    a normal number for each pair that is not in R, times its row."""
    before = mark(space)
    members, features = noise.shape
    of_factored, of_new, of_all = streams
    begin, stream = ranker.factored[b], of_new
    if has_own_noise(b, ranker):
        begin, stream = ranker.first[b], of_all
        for n in range(members):
            for f in range(lane(), features, lanes()):
                noise[n, f] = 0.0
        barrier()
    else:
        known = drawn_normal(space, seed, of_factored, t, members, features)
        few_times(known, ranker.factor[b], noise)
    new = ranker.fit.count[b] - begin
    if new > 0:
        drawn = drawn_normal(space, seed, stream, t, new, members)
        add_noise(b, space, table, drawn, begin, noise, ranker)
    for n in range(members):
        for f in range(lane(), features, lanes()):
            noise[n, f] *= math.sqrt(ranker.variance[b])
    barrier()
    release(space, before)


@compiled
def add_noise(b, space, table, drawn, begin, noise, ranker):
    """Add the rows of the pairs from `begin` on to noise [N, F], each times what it counts and a number for each
    member: `drawn` [n, N]."""
    before = mark(space)
    members, count = len(noise), ranker.fit.count[b]
    room = take(space, members * AT_ONCE)
    for start in range(begin, count, AT_ONCE):
        size = min(AT_ONCE, count - start)
        push = room[: members * size].reshape((members, size))
        for cell in range(lane(), members * size, lanes()):
            n, i = cell % members, cell // members
            push[n, i] = -weight_of(b, start + i, ranker) * drawn[start - begin + i, n]
        barrier()
        pull_members(b, table, push, start, noise, ranker.fit)
    release(space, before)


@compiled
def factor_new_pairs(b, space, table, ranker):
    """Add the new pairs to the factor, where they are more than the features."""
    begin, count, features = ranker.factored[b], ranker.fit.count[b], ranker.theta.shape[2]
    if count - begin <= features or has_own_noise(b, ranker):
        return
    before = mark(space)
    rows = take_matrix(space, count - begin, features)
    for r in range(count - begin):
        for f in range(lane(), features, lanes()):
            rows[r, f] = weight_of(b, begin + r, ranker) * difference(ranker.fit, b, table, begin + r, f)
    barrier()
    add_to_triangle(ranker.factor[b], rows, space)
    if lane() == 0:
        ranker.factored[b] = count
    barrier()
    release(space, before)


@compiled
def add_to_triangle(triangle, rows, space):
    """Make of an upper triangle [F, F] that of the QR decomposition of itself with rows [c, F] below; rows are lost.

    By Householder's reflections, with the signs of LAPACK: none where a column is zero below the diagonal, otherwise an
    element of the diagonal gets the sign that it does not have. What is left of a column that depends on those before
    is rounding. It counts as zero: a reflection by it would turn the rows in a direction that rounding has chosen,
    another one on every processor.
    """
    before = mark(space)
    count, features = rows.shape
    column, shift = take(space, count), take(space, features)
    for k in range(features):
        head, square, above = triangle[k, k], 0.0, 0.0
        for r in range(lane(), count, lanes()):
            column[r] = rows[r, k]
            square += rows[r, k] * rows[r, k]
        square = lane_sum(square, space)
        for f in range(lane(), k + 1, lanes()):
            above += triangle[f, k] * triangle[f, k]
        above = lane_sum(above, space)
        if square > DEPENDENT * DEPENDENT * above:
            length = -math.copysign(math.sqrt(head * head + square), head)
            reflect(triangle[k], rows, column, k, length, head, shift)
    release(space, before)


@compiled_sums
def reflect(top, rows, column, k, length, head, shift):
    """Reflect column k of `top` [F] and rows [c, F] onto its first element, which becomes `length`, and all columns
    right of it in the same way. `shift` [F] is room."""
    count, features = rows.shape
    scale, share = 1 / (head - length), (length - head) / length
    for f in range(k + 1 + lane(), features, lanes()):
        shift[f] = top[f]
    whole = count // 4 * 4
    for r in range(0, whole, 4):
        one, two = scale * column[r], scale * column[r + 1]
        three, four = scale * column[r + 2], scale * column[r + 3]
        for f in range(k + 1 + lane(), features, lanes()):
            upper = one * rows[r, f] + two * rows[r + 1, f]
            shift[f] += upper + (three * rows[r + 2, f] + four * rows[r + 3, f])
    for r in range(whole, count):
        for f in range(k + 1 + lane(), features, lanes()):
            shift[f] += scale * column[r] * rows[r, f]
    for f in range(k + 1 + lane(), features, lanes()):
        shift[f] *= share
        top[f] -= shift[f]
    for r in range(count):
        factor = scale * column[r]
        for f in range(k + 1 + lane(), features, lanes()):
            rows[r, f] -= factor * shift[f]
    if lane() == 0:
        top[k] = length
    barrier()


@compiled
def find_optima(b, space, table, noise, theta, ranker):
    """Move the members theta [N, F] to the optima under this noise [N, F]: all together by steps with the anchor's
    Hessian; where these do not contract, each by itself. The noise becomes the tilt of the objective."""
    before = mark(space)
    fit = ranker.fit
    l2 = fit.l2[b] + fit.l2_of_pair[b] * ranker.mass[b]
    gap = 1e-3 + 1e-5 * fit.objective[b]
    members, features = noise.shape
    residual = take_matrix(space, members, features)
    for n in range(members):
        for f in range(lane(), features, lanes()):
            theta[n, f] = fit.anchor[b, f]
            residual[n, f] = fit.gradient[b, f] - noise[n, f]
            noise[n, f] += l2 * fit.start[b, f]
    barrier()
    if not move_together(b, space, table, theta, residual, noise, l2, gap, ranker):
        for n in range(members):
            move_alone(b, space, table, theta[n], noise[n], l2, gap, ranker)
    release(space, before)


@compiled
def move_together(b, space, table, theta, residual, tilt, l2, gap, ranker):
    """Take steps with the anchor's Hessian from the anchor, theta [N, F], where the gradients are `residual` [N, F];
    return whether all members have come near enough to their optima."""
    before = mark(space)
    members, features = theta.shape
    step = take_matrix(space, members, features)
    decrements = take_matrix(space, 2, members)
    for attempt in range(PASSES):
        few_times(residual, ranker.fit.inverse[b], step)
        last, now = decrements[1 - attempt % 2], decrements[attempt % 2]
        is_slow, is_near = 0, 1
        for n in range(members):
            decrement = dot_of_lanes(step[n], residual[n], space)
            if attempt > 0 and decrement > CONTRACTION * last[n]:
                is_slow = 1
            if attempt == 0 or not decrement * decrement <= MARGIN * gap * last[n]:
                is_near = 0
            if lane() == 0:
                now[n] = decrement
        if is_slow:
            break
        for n in range(members):
            for f in range(lane(), features, lanes()):
                theta[n, f] -= step[n, f]
        barrier()
        if is_near:  # the next decrement is smaller still
            release(space, before)
            return 1
        if attempt + 1 < PASSES:
            find_gradients(b, space, table, theta, tilt, l2, residual, ranker)
    release(space, before)
    return 0


@compiled
def find_gradients(b, space, table, theta, tilt, l2, gradients, ranker):
    """Write the gradients [N, F] at theta [N, F]: one pass over all pairs for all members."""
    before = mark(space)
    members, first, count = len(theta), ranker.first[b], ranker.fit.count[b]
    for n in range(members):
        for f in range(lane(), theta.shape[1], lanes()):
            gradients[n, f] = l2 * theta[n, f] - tilt[n, f]
    room = take(space, members * AT_ONCE)
    for start in range(first, count, AT_ONCE):
        size = min(AT_ONCE, count - start)
        push = room[: members * size].reshape((members, size))
        score_pairs(b, table, theta, push, start, ranker.fit)
        for cell in range(lane(), members * size, lanes()):
            n, i = cell // size, cell % size
            push[n, i] = weight_of(b, start + i, ranker) * push_at(push[n, i])
        barrier()
        pull_members(b, table, push, start, gradients, ranker.fit)
    release(space, before)


@compiled_sums
def score_pairs(b, table, theta, scores, start, history):
    """Write the scores [N, n] of the pairs from `start` on, two members at once; the last of an odd number twice."""
    members, features = theta.shape
    for i in range(lane(), scores.shape[1], lanes()):
        for n in range(0, members, 2):
            other = min(n + 1, members - 1)
            one, two = 0.0, 0.0
            for f in range(features):
                value = difference(history, b, table, start + i, f)
                one += theta[n, f] * value
                two += theta[other, f] * value
            scores[n, i], scores[other, i] = one, two
    barrier()


@compiled
def push_at(score):
    """Return 1 - sigma(score), by which a pair pulls theta along its row."""
    return 1 / (1 + math.exp(min(score, 700.0)))


@compiled_sums
def pull_members(b, table, push, start, gradients, history):
    """Subtract push [N, n] times the rows of the pairs from `start` on from gradients [N, F], two members at once as in
    `score_pairs`."""
    members, size = push.shape
    whole = size // 4 * 4
    for i in range(0, whole, 4):
        pair = start + i
        for n in range(0, members, 2):
            other = min(n + 1, members - 1)
            for f in range(lane(), gradients.shape[1], lanes()):
                one, two = difference(history, b, table, pair, f), difference(history, b, table, pair + 1, f)
                three, four = difference(history, b, table, pair + 2, f), difference(history, b, table, pair + 3, f)
                upper = (push[n, i] * one + push[n, i + 1] * two) + (push[n, i + 2] * three + push[n, i + 3] * four)
                lower = push[other, i] * one + push[other, i + 1] * two
                lower += push[other, i + 2] * three + push[other, i + 3] * four
                above, below = gradients[n, f] - upper, gradients[other, f] - lower
                gradients[n, f], gradients[other, f] = above, below
    for i in range(whole, size):
        for n in range(members):
            for f in range(lane(), gradients.shape[1], lanes()):
                gradients[n, f] -= push[n, i] * difference(history, b, table, start + i, f)
    barrier()


@compiled
def move_alone(b, space, table, theta, tilt, l2, gap, ranker):
    """Move one member theta [F] to its optimum: from the anchor, if this takes few steps, else along larger l2, each
    optimum the start of the next."""
    powers = powers_of_ten_to_one(l2)
    for attempt in range(powers + 2):
        is_direct, power = attempt == 0, max(powers + 1 - attempt, 0)
        if attempt < 2:
            for f in range(lane(), len(theta), lanes()):
                theta[f] = ranker.fit.anchor[b, f] if is_direct else 0.0
            barrier()
        close, larger = gap, l2
        if not is_direct and power > 0:
            close, larger = NEARBY * math.sqrt(ranker.fit.count[b] - ranker.first[b]), times_power_of_ten(l2, power)
        steps = DIRECT if is_direct else DETOUR
        if minimise(b, space, table, theta, tilt, larger, close, steps, is_direct, ranker) and is_direct:
            return


@compiled
def powers_of_ten_to_one(l2):
    """Return how often l2 has to be multiplied by 10 to be 1 or more."""
    power = 0
    while l2 < 1:
        l2 *= 10
        power += 1
    return power


@compiled
def times_power_of_ten(l2, power):
    """Return l2 times a power of ten."""
    for _ in range(power):
        l2 *= 10
    return l2


@compiled
def minimise(b, space, table, theta, tilt, l2, gap, steps, is_at_anchor, ranker):
    """Minimise f(theta) = sum_i w_i log(1 + exp(-x_i.theta)) + l2/2 |theta|^2 - tilt.theta in at most `steps` steps
    from theta [F], where the Hessian is about that of the fit if `is_at_anchor`. Return whether f is within `gap` of
    its minimum.

    BFGS (Nocedal and Wright, Numerical Optimization, 2006, equation 6.17) corrects the inverse by the change of the
    gradient in every step. Its decrement g.H^-1 g, by which it stops, can be far too small where it has not been yet:
    next to separable pairs curvature fades on the way. But if no score has changed by more than r since a Hessian H_0
    was computed, the weight sigma'(s) of no pair has fallen by more than a factor e^r, so g.H^-1 g <= e^r g.H_0^-1 g.
    The method stops by this bound, and computes the Hessian again where r is large or many steps have not sufficed.
    """
    before = mark(space)
    features, number = len(theta), ranker.fit.count[b] - ranker.first[b]
    inverse = take_matrix(space, features, features)
    guide = take_matrix(space, features, features)  # the inverse with the corrections
    scores, known = take(space, number), take(space, number)
    gradient, step, turned = take(space, features), take(space, features), take(space, features)
    changes(b, table, theta, ranker.first[b], scores, ranker.fit)
    barrier()
    copy_matrix(ranker.fit.inverse[b], inverse)
    keep_guess(inverse, scores, guide, known)
    find_gradient(b, space, table, theta, scores, tilt, l2, gradient, ranker)
    is_stale, is_there, waited = not is_at_anchor, 0, 0
    for _ in range(steps):
        if is_stale:
            invert_hessian(b, space, table, scores, l2, inverse, ranker)
            keep_guess(inverse, scores, guide, known)
            is_stale, waited = False, 0
        decrement = newton_step(guide, gradient, step, space)
        is_near = decrement <= CLOSE * gap
        if is_near or waited == PATIENCE:
            drift = largest_difference(scores, known, space)
            if is_near and math.exp(min(drift, 99.0)) * newton_step(inverse, gradient, turned, space) <= CLOSE * gap:
                is_there = 1
                break
            if not is_near or drift > FAR:
                is_stale = True
                continue
        waited += 1
        take_step(b, space, table, theta, scores, tilt, l2, decrement, gradient, step, guide, ranker)
    release(space, before)
    return is_there


@compiled
def largest_difference(one, other, space):
    """Return the largest difference of two vectors."""
    largest = 0.0
    for i in range(lane(), len(one), lanes()):
        largest = max(largest, abs(one[i] - other[i]))
    return lane_max(largest, space)


@compiled
def copy_matrix(matrix, other):
    """Copy a matrix [F, F]."""
    for f in range(len(matrix)):
        for g in range(lane(), len(matrix), lanes()):
            other[f, g] = matrix[f, g]
    barrier()


@compiled
def keep_guess(inverse, scores, guide, known):
    """Begin again with this inverse Hessian, and keep the scores where it is from."""
    copy_matrix(inverse, guide)
    for i in range(lane(), len(scores), lanes()):
        known[i] = scores[i]
    barrier()


@compiled
def take_step(b, space, table, theta, scores, tilt, l2, decrement, gradient, step, guide, ranker):
    """Move theta along - `step` [F], which becomes what it moves by, and the scores; find the gradient there, and
    correct the guide by its change."""
    before = mark(space)
    features = len(theta)
    change, turn, turned = take(space, len(scores)), take(space, features), take(space, features)
    changes(b, table, step, ranker.first[b], change, ranker.fit)
    slope = dot_of_lanes(tilt, step, space) - l2 * dot_of_lanes(theta, step, space)
    bend = l2 * dot_of_lanes(step, step, space)
    length = step_length(b, space, scores, change, slope, bend, FLAT * decrement, ranker)
    for f in range(lane(), features, lanes()):
        step[f] *= -length
        theta[f] += step[f]
        turn[f] = gradient[f]
    for i in range(lane(), len(scores), lanes()):
        scores[i] -= length * change[i]
    barrier()
    find_gradient(b, space, table, theta, scores, tilt, l2, gradient, ranker)
    for f in range(lane(), features, lanes()):
        turn[f] = gradient[f] - turn[f]
    barrier()
    correct_guide(guide, step, turn, turned, space)
    release(space, before)


@compiled
def correct_guide(guide, step, turn, turned, space):
    """Let the guide [F, F] map the change of the gradient, `turn` [F], to the step; `turned` [F] is room."""
    along = dot_of_lanes(step, turn, space)
    if along > 0:  # else by rounding
        size = newton_step(guide, turn, turned, space)
        share = (1 + size / along) / (2 * along)
        for f in range(lane(), len(step), lanes()):
            turned[f] = step[f] * share - turned[f] / along
        barrier()
        for f in range(len(step)):
            one, other = step[f], turned[f]
            for g in range(lane(), len(step), lanes()):
                guide[f, g] += one * turned[g] + other * step[g]
        barrier()


@compiled
def find_gradient(b, space, table, theta, scores, tilt, l2, gradient, ranker):
    """Write the gradient at theta [F], where the pairs have these scores."""
    before = mark(space)
    push, first = take(space, len(scores)), ranker.first[b]
    for f in range(lane(), len(theta), lanes()):
        gradient[f] = l2 * theta[f] - tilt[f]
    for i in range(lane(), len(scores), lanes()):
        push[i] = weight_of(b, first + i, ranker) * push_at(scores[i])
    barrier()
    pull(b, table, push, first, gradient, ranker.fit)
    release(space, before)


@compiled
def step_length(b, space, scores, change, slope, bend, flat, ranker):
    """Return a > 0 where an objective, as a function of the length a of a step, has a slope of at most `flat`.

    A step changes the scores [n] of the pairs by -change [n] per unit. This is Newton's method in one dimension, kept
    between the lengths known to be too short and too long.
    """
    length, short, long = 1.0, 0.0, math.inf
    first = ranker.first[b]
    for _ in range(LENGTHS):
        rise, bent = 0.0, 0.0
        for i in range(lane(), len(scores), lanes()):
            push, weight = push_at(scores[i] - length * change[i]), weight_of(b, first + i, ranker)
            rise += weight * push * change[i]
            bent += weight * push * (1 - push) * change[i] * change[i]
        rise, bent = slope + length * bend + lane_sum(rise, space), bend + lane_sum(bent, space)
        if abs(rise) <= flat:
            break
        if rise < 0:
            short = length
        else:
            long = length
        length -= rise / bent
        if not short < length < long:
            length = 2 * short if long == math.inf else (short + long) / 2
    return length


@compiled
def invert_hessian(b, space, table, scores, l2, inverse, ranker):
    """Write the inverse of sum_i w_i sigma'(s_i) x_i x_i^T + l2 I to inverse [F, F]."""
    before = mark(space)
    features, first, count = len(inverse), ranker.first[b], ranker.fit.count[b]
    for f in range(features):
        for g in range(lane(), features, lanes()):
            inverse[f, g] = l2 if f == g else 0.0
    barrier()
    x = take_matrix(space, PART, features)
    weighted = take_matrix(space, PART, features)
    for start in range(first, count, PART):
        size = min(PART, count - start)
        for r in range(size):
            pair = start + r
            push = push_at(scores[pair - first])
            weight = weight_of(b, pair, ranker) * push * (1 - push)
            for f in range(lane(), features, lanes()):
                x[r, f] = difference(ranker.fit, b, table, pair, f)
                weighted[r, f] = weight * x[r, f]
        barrier()
        add_products(weighted[:size], x[:size], 1.0, inverse, True, space)
    invert(inverse, space)
    release(space, before)
