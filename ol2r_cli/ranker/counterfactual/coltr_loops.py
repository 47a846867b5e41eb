"""COLTR: its stages, for a linear model (`COLTR` in ranker/counterfactual/)."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from ol2r_cli.loops.compile import compiled
from ol2r_cli.loops.dense import dot
from ol2r_cli.loops.directions import give_length_1, move_to_winners
from ol2r_cli.loops.gradient_steps import linear
from ol2r_cli.loops.lanes import barrier, lane, lanes
from ol2r_cli.loops.random_numbers import LEARN, NORMAL_AT_ONCE, drawn_normal
from ol2r_cli.loops.workspace import mark, release, take, take_integers, take_matrix


class RiskState(NamedTuple):
    """A linear ranker that evaluates candidates on the clicks of one list: theta, moving and rate as in
    `GradientState`, the distance `delta` [B] of candidates from theta, the penalty [B] of the
    variance, the temperature [B] of lists, and the number of candidates."""

    theta: Any
    moving: Any
    rate: Any
    delta: Any
    penalty: Any
    temperature: Any
    candidates: int


def room_of_risks(candidates: int, features: int, positions: int) -> int:
    """Return how many numbers of the workspace the stages take."""
    return (candidates + positions) * (features + 1) + candidates * positions + positions + 4 + 2 * NORMAL_AT_ONCE


@compiled
def scores_by_temperature(b, space, round, queries, ranker):
    """Score the documents by theta, over the temperature."""
    scores = round.scores[0]
    linear(ranker.theta[b], queries.table, round.start, scores)
    for d in range(lane(), round.documents, lanes()):
        scores[d] /= ranker.temperature[b]
    barrier()


@compiled
def learns_by_risk(b, space, round, queries, ranker):
    """Move to the mean of the directions with less risk than theta. Where no document was passed over for one below,
    every risk is 0."""
    if passed_over(round.clicks) == 0:
        return
    before = mark(space)
    candidates, features = ranker.candidates, ranker.theta.shape[1]
    directions = drawn_normal(space, round.seed, LEARN, round.t, candidates, features)
    won = take_integers(space, candidates)
    less_risk(round, queries.table, directions, ranker.delta[b], ranker.penalty[b], won, space)
    move_to_winners(b, space, round, queries, directions, won, ranker)
    release(space, before)


@compiled
def passed_over(clicks):
    """Return how many clicks are just below a place without one."""
    count = 0
    for place in range(1, len(clicks)):
        count += clicks[place] > clicks[place - 1]
    return count


@compiled
def less_risk(round, table, directions, delta, penalty, won, space):
    """Give directions [M, F] the length 1, and write which of them have less risk than theta: `counterfactual_risks`.

    A softmax over all documents has the same sum for all of them, which cancels as every common factor of the weights
    does: that of a document is e^(delta u.x).
    """
    before = mark(space)
    candidates, features = directions.shape
    places, last = len(round.ranking), 0
    loss, equal = take(space, places), take(space, places)
    listed = take_matrix(space, places, features)
    weights = take_matrix(space, candidates, places)
    for place in range(places):
        if round.clicks[place]:
            last = place
        for f in range(lane(), features, lanes()):
            listed[place, f] = table[round.start + round.ranking[place], f]
    for place in range(lane(), places, lanes()):
        loss[place], equal[place] = place < last and not round.clicks[place], 1.0
    barrier()
    own = risk(equal, loss, penalty)
    for m in range(lane(), candidates, lanes()):
        weight, direction = weights[m], directions[m]
        give_length_1(direction)
        for place in range(places):
            weight[place] = delta * dot(direction, listed[place])
        give_largest_1(weight)
        won[m] = risk(weight, loss, penalty) < own
    barrier()
    release(space, before)


@compiled
def give_largest_1(weight):
    """Replace logarithms of weights [K] by weights of which the largest is 1."""
    most = -math.inf
    for place in range(len(weight)):
        most = max(most, weight[place])
    for place in range(len(weight)):
        weight[place] = math.exp(weight[place] - most)


@compiled
def risk(weight, loss, penalty):
    """Return the mean of the losses [K] with these weights, plus the penalty of their variance."""
    mean, total, variance, square = 0.0, 0.0, 0.0, 0.0
    for place in range(len(loss)):
        mean += weight[place] * loss[place]
        total += weight[place]
    mean /= total
    for place in range(len(loss)):
        variance += weight[place] ** 2 * (loss[place] - mean) ** 2
        square += weight[place] ** 2
    return mean + penalty * math.sqrt(variance / square / len(loss))
