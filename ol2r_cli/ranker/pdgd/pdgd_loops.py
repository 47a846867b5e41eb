"""The stages of PDGD, for a linear model, and its pull on documents, for networks."""

from __future__ import annotations

import math

from ol2r_cli.loops.compile import compiled
from ol2r_cli.loops.gradient_steps import add_rows, slow_down
from ol2r_cli.loops.lanes import barrier, lane, lane_max, lane_sum, lanes
from ol2r_cli.loops.pairs import examined
from ol2r_cli.loops.workspace import mark, release, take, take_integers, take_matrix


@compiled
def learns_by_pdgd(b, space, round, queries, ranker):
    """Take PDGD's step (ranker/pdgd/), if the clicks say anything."""
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
