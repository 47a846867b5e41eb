"""What a linear ranker makes of one round: scores, gradient steps, and what is kept of its pairs.

learning/ and the rankers have the same as tensors.
"""

from __future__ import annotations

import numpy as np

from ol2r_cli.loops.compile import compiled, compiled_sums
from ol2r_cli.loops.lists import examined


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
