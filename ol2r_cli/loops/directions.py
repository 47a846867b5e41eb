"""Directions in which a linear ranker looks for better weights, and a step to those that have won: DBGD and what is
derived from it."""

from __future__ import annotations

import math

from ol2r_cli.loops.compile import compiled
from ol2r_cli.loops.dense import dot
from ol2r_cli.loops.gradient_steps import slow_down
from ol2r_cli.loops.lanes import barrier, dealt, lane, lanes
from ol2r_cli.loops.orders import number_of
from ol2r_cli.loops.random_numbers import NORMAL_AT_ONCE, drawn_normal
from ol2r_cli.loops.workspace import mark, release, take


def room_of_directions(drawn: int, features: int) -> int:
    """Return how many numbers of the workspace `draw_directions` takes."""
    return drawn * (features + 1) + 4 + 2 * NORMAL_AT_ONCE


@compiled
def draws_directions(b, space, of, directions):
    """Draw directions [B, M, F] from a stream (`Draw` of loops/single.py)."""
    draw_directions(of.seeds[b], of.stream, of.t, directions[b], space)


@compiled
def draw_directions(seed, stream, t, directions, space):
    """Draw directions [M, F], uniform on the unit sphere."""
    before = mark(space)
    count, features = directions.shape
    rows, lengths = drawn_normal(space, seed, stream, t, count, features), take(space, count)
    for m in range(lane(), count, lanes()):
        lengths[m] = math.sqrt(dot(rows[m], rows[m]))
    barrier()
    for m in range(count):
        for f in range(dealt(m, features), features, lanes()):
            directions[m, f] = rows[m, f] / lengths[m]
    barrier()
    release(space, before)


@compiled
def give_length_1(vector):
    """Divide a vector [F], which is this lane's alone, by its length."""
    length = math.sqrt(dot(vector, vector))
    for f in range(len(vector)):
        vector[f] /= length


@compiled
def move_to_winners(b, space, round, queries, directions, won, ranker):
    """Take a step along the mean of those directions [M, F] that have won, if any has."""
    theta, rate, winners = ranker.moving[b], ranker.rate.value[b, 0], number_of(won)
    for m in range(len(won)):
        if won[m]:
            for f in range(lane(), len(theta), lanes()):
                theta[f] += rate * directions[m, f] / winners
    barrier()  # without winners, too: every lane has read `won` before its memory is given back
    if winners:
        slow_down(b, ranker.rate)
