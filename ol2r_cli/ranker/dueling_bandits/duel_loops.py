"""Dueling bandits: the stages of DBGD and MGD, for a linear model (ranker/dueling_bandits/)."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from ol2r_cli.loops.compile import compiled, made_by
from ol2r_cli.loops.directions import draw_directions, room_of_directions
from ol2r_cli.loops.gradient_steps import linear_of_members, slow_down
from ol2r_cli.loops.lanes import barrier, lane, lanes
from ol2r_cli.loops.orders import number_of
from ol2r_cli.loops.random_numbers import JUDGE
from ol2r_cli.loops.workspace import mark, release, take, take_integers
from ol2r_cli.ranker.dueling_bandits.span_loops import project, room_of_projection


class DuelState(NamedTuple):
    """A linear ranker that compares members: theta, moving and rate as in `GradientState`, and delta [B], the
    distance of the others from theta. Of the present round: directions [B, M, F] of length 1, and the weights
    [B, 1 + M, F] of all members, of which the first are theta. `space` is a `DocumentSpaceState`; nothing if steps are
    not projected."""

    theta: Any
    moving: Any
    rate: Any
    delta: Any
    directions: Any
    weights: Any
    space: Any


def room_of_duels(drawn: int, candidates: int, features: int, rows: int) -> int:
    """Return how many numbers of the workspace the stages take that draw so many directions, of which candidates try
    some, and project steps onto the span of so many documents; 0 if they do not."""
    return max(room_of_directions(drawn, features), 2 * candidates + 1 + features + room_of_projection(rows, features))


@compiled
def scores_of_members(b, space, round, queries, ranker):
    """Draw directions, and score the documents by theta and by what is away from it in every direction."""
    draw_directions(round.seed, JUDGE, round.t, ranker.directions[b], space)
    score_members(b, round, queries, ranker)


@compiled
def score_members(b, round, queries, ranker):
    """Write the weights and the scores of all members."""
    theta, directions, weights, delta = ranker.theta[b], ranker.directions[b], ranker.weights[b], ranker.delta[b]
    features = len(theta)
    for f in range(lane(), features, lanes()):
        weights[0, f] = theta[f]
    for m in range(len(directions)):
        for f in range(lane(), features, lanes()):
            weights[1 + m, f] = theta[f] + delta * directions[m, f]
    barrier()
    linear_of_members(weights, queries.table, round.start, round.scores)


@cache
def learns_by_duels(move: Any) -> Any:
    """Return the stage that moves theta to the directions whose members have earned more clicks than theta, by the loop
    `move_to_winners` (loops/directions.py) or `move_in_document_space`."""

    @made_by("learns_by_duels", move)
    def learn_by_duels(b, space, round, queries, ranker):
        before = mark(space)
        directions = ranker.directions[b]
        earned, won = take(space, 1 + len(directions)), take_integers(space, len(directions))
        compare(round, earned, won)
        move(b, space, round, queries, directions, won, ranker)
        release(space, before)

    return learn_by_duels


@compiled
def compare(round, earned, won):
    """Write the clicks [1 + M] that each member is credited with, and which [M] have more than the first of them."""
    for n in range(lane(), len(earned), lanes()):
        earned[n] = 0.0
        for place in range(len(round.ranking)):
            if round.clicks[place]:
                earned[n] += round.credit[n, place]
    barrier()
    for m in range(lane(), len(won), lanes()):
        won[m] = earned[1 + m] > earned[0]
    barrier()


@compiled
def move_in_document_space(b, space, round, queries, directions, won, ranker):
    """Take a step along what the mean of the winners [M, F] has in the document space, if there are any."""
    before = mark(space)
    theta, rate = ranker.moving[b], ranker.rate.value[b, 0]
    winners, inside = number_of(won), take(space, len(theta))
    for f in range(lane(), len(theta), lanes()):
        inside[f] = 0.0
        for m in range(len(won)):
            if won[m]:
                inside[f] += directions[m, f] / winners
    project(b, space, round, queries.table, ranker.space, inside)
    if winners:
        for f in range(lane(), len(theta), lanes()):
            theta[f] += rate * inside[f]
        barrier()
        slow_down(b, ranker.rate)
    release(space, before)
