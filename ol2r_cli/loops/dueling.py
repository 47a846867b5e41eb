"""Bandits that try directions, for one replica: who won a list, steps, null space gradient descent, document space
projection, and COLTR.

ranker/dueling_bandits.py and ranker/counterfactual.py have the same as tensors.
"""

from __future__ import annotations

import numpy as np

from ol2r_cli.loops.compile import compiled, compiled_sums
from ol2r_cli.loops.lists import ascending
from ol2r_cli.loops.updates import dot, linear

TOLERANCE = 1e-6  # features are float32: what is shorter, relative to the longest vector, is their rounding
WORST = 4  # members of a round that NSGD may store: those who earned no more than the fourth least


@compiled
def earned(credit, ranking, clicks):
    """Return the clicks that each of N members is credited with. `credit` [N, D] is by document."""
    total = np.zeros(len(credit))
    for place in range(len(ranking)):
        if clicks[place]:
            for n in range(len(credit)):
                total[n] += credit[n, ranking[place]]
    return total


@compiled
def step(theta, rate, decay, directions, won):
    """Move theta [F] to the mean of those directions [M, F] that `won` [M]."""
    winners = 0
    for each in won:
        winners += each
    if winners:
        for n in range(len(won)):
            if won[n]:
                for f in range(len(theta)):
                    theta[f] += rate[0] * directions[n, f] / winners
        rate[0] -= rate[0] * (1 - decay)


@compiled_sums
def _add(vector, factor, other):
    for f in range(len(vector)):
        vector[f] += factor * other[f]


@compiled
def _remove(vector, basis, count):
    """Remove from a vector [F] its part in the span of the first `count` rows of an orthonormal basis."""
    for r in range(count):
        _add(vector, -dot(vector, basis[r]), basis[r])


@compiled
def orthonormalise(vectors, basis):
    """Write an orthonormal basis of the span of vectors [M, F] to the first rows of `basis`; return their number.

    Vectors may be zero, equal or collinear. Gram-Schmidt twice: the second time removes the rounding of the first.
    """
    longest, count = 0.0, 0
    for m in range(len(vectors)):
        longest = max(longest, np.sqrt(dot(vectors[m], vectors[m])))
    for m in range(len(vectors)):
        if count == len(basis):
            break
        rest = basis[count]
        for f in range(len(rest)):
            rest[f] = vectors[m, f]
        for _ in range(2):
            _remove(rest, basis, count)
        length = np.sqrt(dot(rest, rest))
        if length > TOLERANCE * longest:
            for f in range(len(rest)):
                rest[f] /= length
            count += 1
    return count


@compiled
def null_space(normal, b, losers, table, rows, directions):
    """Write to directions [M, F] what NSGD compares: M of the directions that the rows of `normal` [drawn, F] have in
    the null space of the stored directions that lost most. `normal` is overwritten.

    They are those that differ most in the scores of the mean document, of table[rows]; all in their order if M = drawn.
    `losers`: how many directions are avoided, the stored directions [B, memory, F], what they earned less than member 0
    [B, memory], and the place of the oldest [B].
    """
    avoided, lost, loss, _ = losers
    drawn, features = normal.shape
    vectors, free = np.empty((min(avoided, features - 1), features)), np.ones(loss.shape[1], np.bool_)
    for m in range(len(vectors)):
        worst = -1
        for place in range(len(free)):
            if free[place] and (worst < 0 or loss[b, place] <= loss[b, worst]):  # of equal ones the last
                worst = place
        free[worst] = False
        for f in range(features):
            vectors[m, f] = lost[b, worst, f]
    basis = np.empty_like(vectors)
    count = orthonormalise(vectors, basis)
    mean = np.zeros(features)
    for row in rows:
        _add(mean, 1 / len(rows), table[row])
    difference = np.empty(drawn, np.float32)  # in which rounding errors are ties
    for m in range(drawn):
        for _ in range(2):  # the second time removes the rounding errors of the first
            _remove(normal[m], basis, count)
            length = np.sqrt(dot(normal[m], normal[m]))
            for f in range(features):
                normal[m, f] /= length
        difference[m] = abs(dot(normal[m], mean))
    for n in range(len(directions)):
        chosen = n
        if len(directions) < drawn:
            chosen = 0
            for m in range(1, drawn):
                if difference[m] > difference[chosen]:
                    chosen = m
            difference[chosen] = -1
        for f in range(features):
            directions[n, f] = normal[chosen, f]


@compiled
def store_losers(directions, total, b, losers):
    """Store the directions [M, F] that earned less than member 0 and are among the `WORST` members, in place of the
    oldest. `total` [1 + M] is what members have earned."""
    _, lost, loss, oldest = losers
    most = total[ascending(total)[min(WORST, len(total)) - 1]]
    for n in range(1, len(total)):
        if total[n] < total[0] and total[n] <= most:
            for f in range(lost.shape[2]):
                lost[b, oldest[b], f] = directions[n - 1, f]
            loss[b, oldest[b]] = total[n] - total[0]
            oldest[b] = (oldest[b] + 1) % loss.shape[1]


@compiled
def store_query(t, b, difficult, start, documents, ranking, clicks):
    """Store the query of round t if it is difficult.

    `difficult` is the state of `DifficultQueries`: its window, and of every stored query its ease and round [B, room],
    documents [B, room, D], their number [B, room], and which were clicked [B, room, D].
    """
    window, ease, stored, document, length, clicked = difficult
    easy, most, place = 0.0, -1.0, 0
    for rank in range(1, len(ranking) + 1):
        if clicks[rank - 1]:
            easy += 1 / rank
    easy = np.float64(np.float32(easy))  # in which rounding errors are ties
    for other in range(ease.shape[1]):
        old = np.isfinite(ease[b, other]) and t - stored[b, other] > window
        easiness = np.finfo(np.float64).max if old else ease[b, other]
        if easiness > most:
            most, place = easiness, other
    if 0 < easy < most:
        ease[b, place], stored[b, place], length[b, place] = easy, t, documents
        for d in range(document.shape[2]):
            document[b, place, d] = start + d if d < documents else 0
            clicked[b, place, d] = False
        for rank in range(len(ranking)):
            clicked[b, place, ranking[rank]] = clicks[rank]


@compiled
def best_alone(weights, won, b, difficult, table):
    """Leave of several winners [M] one: that with the largest sum of 1 / rank over the documents clicked in the stored
    queries, the first of equal ones. `weights` [1 + M, F] begin with those of member 0."""
    _, _, _, document, length, clicked = difficult
    member = np.flatnonzero(won)
    if len(member) < 2 or length.shape[1] == 0:
        return
    winners = np.empty((1, len(member), weights.shape[1]), weights.dtype)
    for n in range(len(member)):
        for f in range(weights.shape[1]):
            winners[0, n, f] = weights[1 + member[n], f]
    quality = np.zeros(len(member))
    for place in range(length.shape[1]):
        scores = np.empty((1, len(member), length[b, place]), weights.dtype)
        linear(winners, table, document[b, place, :1], length[b, place : place + 1], scores)
        comparable = scores[0].astype(np.float32)  # in which equal documents tie
        for d in range(length[b, place]):
            if clicked[b, place, d]:
                for n in range(len(member)):
                    rank = 1
                    for other in range(length[b, place]):
                        rank += comparable[n, other] > comparable[n, d]
                    quality[n] += 1 / rank
    best = 0
    for n in range(1, len(member)):
        if np.float32(quality[n]) > np.float32(quality[best]):
            best = n
    for n in range(len(member)):
        won[member[n]] = n == best


@compiled
def projected(directions, won, b, space, table, shown, clicks):
    """Return the part [1, F] of the winners' mean direction in the document space of its round, and add the round's
    documents, of table[shown], to those of earlier rounds.

    `space` is the state of `DocumentSpace`: `below`, `normalise`, and the recent documents [B, earlier].
    """
    below, normalise, recent = space
    features, earlier, end, count = directions.shape[1], recent.shape[1], 0, 0
    inside = np.zeros((1, features))
    for place in range(len(shown)):
        if clicks[place]:
            end = min(len(shown), place + 1 + below)
    rows = np.empty(earlier + end, np.int64)
    for place in range(earlier + end):
        row = recent[b, place] if place < earlier else shown[place - earlier]
        if row >= 0:
            rows[count] = row
            count += 1
    if won.any():
        mean, vectors = np.zeros(features), np.empty((count, features))
        step(mean, np.ones(1), 1.0, directions, won)
        for r in range(count):
            for f in range(features):
                vectors[r, f] = table[rows[r], f]
        basis = np.empty((min(count, features), features))
        for r in range(orthonormalise(vectors, basis)):
            _add(inside[0], dot(mean, basis[r]), basis[r])
        length = np.sqrt(dot(inside[0], inside[0]))
        if normalise and length > 0:
            for f in range(features):
                inside[0, f] /= length
    for place in range(earlier):
        kept = count - earlier + place
        recent[b, place] = rows[kept] if kept >= 0 else -1
    return inside


@compiled
def less_risk(directions, delta, variance_penalty, table, shown, clicks):
    """Return which of the directions [M, F] have less risk than theta itself: `counterfactual_risks`, for a list of the
    documents table[shown].

    A softmax over all documents has the same sum for all of them, which cancels as every common factor of the weights
    does: that of a document is e^(delta u.x).
    """
    places, features, won = len(shown), directions.shape[1], np.zeros(len(directions), np.bool_)
    loss, last = np.zeros(places), 0
    for place in range(places):
        if clicks[place]:
            last = place
    for place in range(last):
        loss[place] = not clicks[place]
    if not loss.any():
        return won
    listed = np.empty((places, features))
    for place in range(places):
        for f in range(features):
            listed[place, f] = table[shown[place], f]
    weight = np.ones(places)
    own = _risk(weight, loss, variance_penalty)
    for n in range(len(directions)):
        for place in range(places):
            weight[place] = delta * dot(directions[n], listed[place])
        most = weight.max()
        for place in range(places):
            weight[place] = np.exp(weight[place] - most)
        won[n] = _risk(weight, loss, variance_penalty) < own
    return won


@compiled
def _risk(weight, loss, variance_penalty):
    """Return the mean of the losses [K] with these weights, plus the penalty of their variance."""
    mean, total, variance, square = 0.0, 0.0, 0.0, 0.0
    for place in range(len(loss)):
        mean += weight[place] * loss[place]
        total += weight[place]
    mean /= total
    for place in range(len(loss)):
        variance += weight[place] ** 2 * (loss[place] - mean) ** 2
        square += weight[place] ** 2
    return mean + variance_penalty * np.sqrt(variance / square / len(loss))
