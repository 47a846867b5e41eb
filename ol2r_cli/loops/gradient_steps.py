"""Rankers that take one gradient step a round: the scores of a linear model, PDGD, and RankNet."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from ol2r_cli.loops.compile import compiled, compiled_sums
from ol2r_cli.loops.lanes import barrier, lane, lane_max, lane_sum, lanes
from ol2r_cli.loops.pairs import examined
from ol2r_cli.loops.workspace import mark, release, take, take_integers, take_matrix


class LearningRate(NamedTuple):
    """The length of a step, `value` [B, 1]: it is multiplied by `decay` [B] after every step, down to `least` [B]."""

    value: Any
    decay: Any
    least: Any


class GradientState(NamedTuple):
    """A linear ranker that takes steps: theta [B, F], `moving` [B, F] (theta itself, or a copy that learns from rounds
    which are to change theta together), and its `LearningRate`."""

    theta: Any
    moving: Any
    rate: Any


@compiled
def scores_by_theta(b, space, round, queries, ranker):
    """Score the documents by theta."""
    linear(ranker.theta[b], queries.table, round.start, round.scores[0])


@compiled_sums
def linear(theta, table, start, scores):
    """Write theta . table[start + d] to scores [d]. `table` may be of single precision."""
    for d in range(lane(), len(scores), lanes()):
        row, total = table[start + d], 0.0
        for f in range(len(theta)):
            total += theta[f] * row[f]
        scores[d] = total
    barrier()


@compiled
def learns_by_pdgd(b, space, round, queries, ranker):
    """Take PDGD's step (ranker/pdgd.py), if the clicks say anything."""
    end = compared(round.clicks)
    if end == 0:
        return
    before = mark(space)
    scores, ranking = round.scores[0], round.ranking
    places = len(ranking)
    pull = take(space, places)
    debiased(scores, ranking, round.clicks, end, pull, space)
    rows = take_integers(space, places)
    for place in range(lane(), places, lanes()):
        rows[place] = round.start + ranking[place]
        pull[place] *= ranker.rate.value[b, 0]
    barrier()
    add_rows(ranker.moving[b], queries.table, rows, pull)
    slow_down(b, ranker.rate)
    release(space, before)


@compiled
def pulls_by_pdgd(b, space, round, queries, pull):
    """Write how much PDGD pulls the document at each place, pull [B, K], which is zero: for networks."""
    end = compared(round.clicks)
    if end > 0:
        debiased(round.scores[0], round.ranking, round.clicks, end, pull[b, : len(round.ranking)], space)


@compiled
def compared(clicks):
    """Return how many places PDGD compares: the examined ones, or none where all or none of these were clicked."""
    end, clicked = examined(clicks), 0
    for place in range(end):
        clicked += clicks[place]
    return end if clicked < end else 0


@compiled
def debiased(scores, ranking, clicks, end, pull, space):
    """Write how much PDGD pulls each shown document, pull [k], by the pairs of the first `end` places: the gradient of
    P(winner above loser) times rho, the weight that removes the bias of a pair (CIKM 2018, equations 5 to 8)."""
    before = mark(space)
    left, share = take(space, len(ranking)), take_matrix(space, end, end)
    weights = take_matrix(space, end, end)
    left_at_each_place(scores, ranking, left, space)
    for cell in range(lane(), end * end, lanes()):
        i, p = cell // end, cell % end
        share[i, p] = math.exp(scores[ranking[i]] - left[p])
    barrier()
    for cell in range(lane(), end * end, lanes()):
        winner, loser = cell // end, cell % end
        if clicks[winner] and not clicks[loser]:
            weights[winner, loser] = debiased_weight(scores, ranking, winner, loser, share)
    for place in range(lane(), len(ranking), lanes()):
        pull[place] = 0.0
    barrier()
    for place in range(lane(), end, lanes()):
        for other in range(end):
            if clicks[place] and not clicks[other]:
                pull[place] += weights[place, other]
            elif clicks[other] and not clicks[place]:
                pull[place] -= weights[other, place]
    barrier()
    release(space, before)


@compiled
def debiased_weight(scores, ranking, winner, loser, share):
    """Return the weight of a pair of places; share[i, p] is e^score of the document at place i over what was left at
    place p."""
    upper, lower, ratio = min(winner, loser), max(winner, loser), 1.0
    for p in range(upper + 1, lower + 1):
        ratio *= share[upper, p] + 1 - share[lower, p]
    above = 1 / (1 + math.exp(scores[ranking[loser]] - scores[ranking[winner]]))
    return above * (1 - above) / (1 + max(ratio, 0.0))


@compiled
def left_at_each_place(scores, ranking, left, space):
    """Write, for the places shown, the logarithm of the sum of e^score over what was left at that place."""
    before = mark(space)
    placed = take_integers(space, len(scores))
    for d in range(lane(), len(scores), lanes()):
        placed[d] = 0
    barrier()
    for place in range(lane(), len(ranking), lanes()):
        placed[ranking[place]] = 1
    barrier()
    most = -math.inf
    for d in range(lane(), len(scores), lanes()):
        if not placed[d] and scores[d] > most:
            most = scores[d]
    most = lane_max(most, space)
    total = 0.0
    for d in range(lane(), len(scores), lanes()):
        if not placed[d]:
            total += math.exp(scores[d] - most)
    total = lane_sum(total, space)
    if lane() == 0:
        below = most + math.log(total) if total > 0 else -math.inf
        for place in range(len(ranking) - 1, -1, -1):
            score = scores[ranking[place]]
            most = max(score, below)
            below = most + math.log(math.exp(score - most) + math.exp(below - most))
            left[place] = below
    barrier()
    release(space, before)


@compiled
def learns_by_ranknet(b, space, round, queries, ranker):
    """Take a step down the pairwise logistic loss of the round's pairs (`SGDRankNet`), if there are any."""
    pairs = round.found[0]
    if pairs == 0:
        return
    before = mark(space)
    pull, rows = take(space, 2 * pairs), take_integers(space, 2 * pairs)
    for pair in range(lane(), pairs, lanes()):
        winner, loser = round.winners[pair], round.losers[pair]
        margin = round.scores[0, winner] - round.scores[0, loser]
        pull[2 * pair] = ranker.rate.value[b, 0] / (1 + math.exp(margin))
        pull[2 * pair + 1] = -pull[2 * pair]
        rows[2 * pair], rows[2 * pair + 1] = round.start + winner, round.start + loser
    barrier()
    add_rows(ranker.moving[b], queries.table, rows, pull)
    slow_down(b, ranker.rate)
    release(space, before)


@compiled_sums
def add_rows(theta, table, rows, weights):
    """Add the sum of weights[p] table[rows[p]] to theta [F]."""
    for p in range(len(rows)):
        if weights[p] != 0:
            row = table[rows[p]]
            for f in range(lane(), len(theta), lanes()):
                theta[f] += weights[p] * row[f]
    barrier()


@compiled
def slow_down(b, rate):
    """Let a learning rate decay, after a step."""
    if lane() == 0:
        value = rate.value[b, 0]
        rate.value[b, 0] = max(value - value * (1 - rate.decay[b]), rate.least[b])
    barrier()
