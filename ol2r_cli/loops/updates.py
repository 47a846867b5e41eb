"""What a linear ranker makes of one round: scores, gradient steps, and what is kept of its pairs.

learning/ and the rankers have the same as tensors.
"""

from __future__ import annotations

import numpy as np

from ol2r_cli.loops.compile import compiled, compiled_sums
from ol2r_cli.loops.lists import examined

_MANY, _PART = 1024, 128  # rows, as in learning/covariance.py


@compiled_sums
def linear(weights, table, start, length, scores):
    """Write weights[b, n] . table[start[b] + d] to scores [B, N, D] for the length[b] documents of every replica.

    What is below the end of a shorter list stays as it is. `table` may be of single precision.
    """
    replicas, members, features = weights.shape
    for b in range(replicas):
        for d in range(length[b]):
            row = table[start[b] + d]
            for n in range(members):
                total = 0.0
                for f in range(features):
                    total += weights[b, n, f] * row[f]
                scores[b, n, d] = total


@compiled_sums
def dot(one, other):
    """Return the sum of products of two vectors [F]."""
    total = 0.0
    for f in range(len(one)):
        total += one[f] * other[f]
    return total


@compiled_sums
def add_rows(theta, table, rows, weights):
    """Add the sum of weights[p] table[rows[p]] to theta [F]."""
    for p in range(len(rows)):
        if weights[p] != 0:
            row = table[rows[p]]
            for f in range(len(theta)):
                theta[f] += weights[p] * row[f]


@compiled
def pdgd(theta, rate, decay, table, start, scores, ranking, clicks):
    """Take PDGD's step (ranker/pdgd.py) for one replica: theta [F] and rate [1] change where a pair was found.

    `scores` [d]; `ranking` and `clicks` [k] of the k documents shown.
    """
    places, end, count = len(ranking), examined(clicks, np.ones_like(clicks)), clicks.sum()
    if count == 0 or count == end:
        return
    left, share, pull = _left(scores, ranking), np.empty((end, end)), np.zeros(places)
    for i in range(end):
        for p in range(end):
            share[i, p] = np.exp(scores[ranking[i]] - left[p])
    for winner in range(end):
        if clicks[winner]:
            for loser in range(end):
                if not clicks[loser]:
                    upper, lower, ratio = min(winner, loser), max(winner, loser), 1.0
                    for p in range(upper + 1, lower + 1):
                        ratio *= share[upper, p] + 1 - share[lower, p]
                    above = 1 / (1 + np.exp(scores[ranking[loser]] - scores[ranking[winner]]))
                    weight = above * (1 - above) / (1 + max(ratio, 0.0))
                    pull[winner] += weight
                    pull[loser] -= weight
    for place in range(places):
        pull[place] *= rate[0]
    add_rows(theta, table, start + ranking, pull)
    rate[0] -= rate[0] * (1 - decay)


@compiled
def _left(scores, ranking):
    """Return, for the places shown, the logarithm of the sum of e^score over what was left at that place."""
    left, placed = np.empty(len(ranking)), np.zeros(len(scores), np.bool_)
    for document in ranking:
        placed[document] = True
    most, total = -np.inf, 0.0
    for d in range(len(scores)):
        if not placed[d] and scores[d] > most:
            most = scores[d]
    for d in range(len(scores)):
        if not placed[d]:
            total += np.exp(scores[d] - most)
    below = most + np.log(total) if total > 0 else -np.inf
    for place in range(len(ranking) - 1, -1, -1):
        score = scores[ranking[place]]
        most = max(score, below)
        below = most + np.log(np.exp(score - most) + np.exp(below - most))
        left[place] = below
    return left


@compiled
def ranknet(theta, rate, decay, table, start, scores, winner, loser, valid):
    """Take one replica's step down the pairwise logistic loss of a round's pairs [M] (`SGDRankNet`)."""
    pull, rows = np.empty(2 * len(winner)), np.empty(2 * len(winner), np.int64)
    count = 0
    for pair in range(len(winner)):
        if valid[pair]:
            margin = scores[winner[pair]] - scores[loser[pair]]
            pull[count] = rate[0] / (1 + np.exp(margin))
            pull[count + 1] = -pull[count]
            rows[count], rows[count + 1] = start + winner[pair], start + loser[pair]
            count += 2
    if count:
        add_rows(theta, table, rows[:count], pull[:count])
        rate[0] -= rate[0] * (1 - decay)


@compiled
def differences(table, start, winner, loser, valid, rows):
    """Write the winner's features less the loser's to rows [B, M, F], zeros for a pair that is not valid."""
    for b in range(len(start)):
        for pair in range(valid.shape[1]):
            if valid[b, pair]:
                above, below = table[start[b] + winner[b, pair]], table[start[b] + loser[b, pair]]
                for f in range(rows.shape[2]):
                    rows[b, pair, f] = rows.dtype.type(above[f]) - rows.dtype.type(below[f])
            else:
                for f in range(rows.shape[2]):
                    rows[b, pair, f] = 0


@compiled
def append(document, winner, loser, valid, added, count, pairs, rows):
    """Append the valid pairs to pairs [B, capacity, 2] as document numbers, and their differences, added [B, M, F], to
    rows [B, capacity, F]; add their number to count [B]."""
    for b in range(len(count)):
        for pair in range(valid.shape[1]):
            if valid[b, pair]:
                pairs[b, count[b], 0] = document[b, winner[b, pair]]
                pairs[b, count[b], 1] = document[b, loser[b, pair]]
                for f in range(rows.shape[2]):
                    rows[b, count[b], f] = added[b, pair, f]
                count[b] += 1


@compiled
def add_outer_products(matrix, inverse, rows, valid):
    """Add rows^T rows of the valid rows [B, M, F] to matrix, and bring its inverse up to date: [B, F, F] each.

    As in learning/covariance.py, many rows are added in parts: their products with each other would fill the memory.
    """
    for b in range(len(matrix)):
        chosen, count = np.empty(valid.shape[1], np.int64), 0
        for pair in range(valid.shape[1]):
            chosen[count] = pair
            count += valid[b, pair]
        at_once = count if count <= _MANY else _PART
        for first in range(0, count, max(1, at_once)):
            _add_rows_at_once(matrix[b], inverse[b], rows[b], chosen[first : min(first + at_once, count)])


@compiled_sums
def _add_rows_at_once(matrix, inverse, rows, chosen):
    """Add the outer products of the chosen rows [c] to matrix and to what inverse is the inverse of, [F, F] each.

    Woodbury's identity: W^T W is subtracted from the inverse, with L W = rows A^-1 and L L^T = I + rows A^-1 rows^T.
    """
    features, count = len(matrix), len(chosen)
    projected, small = np.zeros((count, features), rows.dtype), np.zeros((count, count), rows.dtype)
    for f in range(features):
        for r in range(count):
            factor = rows[chosen[r], f]
            if factor != 0:
                for g in range(features):
                    projected[r, g] += factor * inverse[f, g]
                    matrix[f, g] += factor * rows[chosen[r], g]
    for r in range(count):
        for c in range(r + 1):
            total = 0.0
            for f in range(features):
                total += projected[r, f] * rows[chosen[c], f]
            small[r, c] = total + (r == c)
    for r in range(count):  # the triangle L in place, and W in place of what is projected
        for c in range(r):
            for k in range(c):
                small[r, c] -= small[r, k] * small[c, k]
            small[r, c] /= small[c, c]
            small[r, r] -= small[r, c] * small[r, c]
            for f in range(features):
                projected[r, f] -= small[r, c] * projected[c, f]
        small[r, r] = np.sqrt(small[r, r])
        for f in range(features):
            projected[r, f] /= small[r, r]
    for f in range(features):
        for r in range(count):
            factor = projected[r, f]
            for g in range(features):
                inverse[f, g] -= factor * projected[r, g]


@compiled_sums
def newton_step(added, valid, l2, mean, count, start, anchor, gradient, objective, inverse, scores, step):
    """Add a round's pairs at the anchor of `AnchoredNewton`, and write the step [B, F]; return q [B] of every step.

    `added` [B, M, F], of which `valid` [B, M] are pairs; count[b] includes them. `mean` is whether the penalty, of the
    distance from `start` [B, F], grows with the pairs.
    """
    features = anchor.shape[1]
    q = np.empty(len(anchor))
    for b in range(len(anchor)):
        new = 0
        for pair in range(valid.shape[1]):
            new += valid[b, pair]
        place = count[b] - new
        for pair in range(valid.shape[1]):
            if valid[b, pair]:
                score = 0.0
                for f in range(features):
                    score += added[b, pair, f] * anchor[b, f]
                scores[b, place] = score
                place += 1
                slope = 1 / (1 + np.exp(score))
                for f in range(features):
                    gradient[b, f] -= slope * added[b, pair, f]
                objective[b] += np.log1p(np.exp(-score)) if score > -30 else -score
        if mean:
            for f in range(features):
                gradient[b, f] += 2 * l2 * new * (anchor[b, f] - start[b, f])
        total = 0.0
        for f in range(features):
            moved = 0.0
            for g in range(features):
                moved += inverse[b, f, g] * gradient[b, g]
            step[b, f] = -moved
            total += moved * gradient[b, f]
        q[b] = total
    return q


@compiled
def is_poor(q, objective, features):
    """Return whether the step from the anchor may miss the guarantee of `AnchoredNewton`.

    The gap left by a step is of higher order in q, the more so the more evidence there is per parameter: q may exceed
    the tolerated gap 100-fold then, but not at all while pairs are few or separable (calibrated; see
    docs/algorithms/pairrank.md).
    """
    evidence = objective / (3 * features)
    return q > min(max(20 * evidence * evidence, 1.0), 100.0) * (1e-3 + 1e-5 * objective)


@compiled_sums
def step_length(scores, change, weights, slope, bend, flat):
    """Return a > 0 where an objective, as a function of the length a of a step, has a slope of at most `flat`.

    A step changes the scores [n] of pairs with these weights by -change [n] per unit, in learning/perturbed_optima.py.
    This is Newton's method in one dimension, kept between the lengths known to be too short and too long.
    """
    length, short, long = 1.0, 0.0, np.inf
    for _ in range(60):
        rise, curvature = slope + length * bend, bend
        for i in range(len(scores)):
            push = 1 / (1 + np.exp(scores[i] - length * change[i]))
            rise += weights[i] * push * change[i]
            curvature += weights[i] * push * (1 - push) * change[i] * change[i]
        if abs(rise) <= flat:
            break
        if rise < 0:
            short = length
        else:
            long = length
        length -= rise / curvature
        if not short < length < long:
            length = 2 * short if long == np.inf else (short + long) / 2
    return length
