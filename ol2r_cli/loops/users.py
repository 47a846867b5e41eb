"""Simulated users: the clicks on one list. click/models.py has the models, with their papers."""

from __future__ import annotations

from typing import Any, NamedTuple

from ol2r_cli.loops.compile import compiled, part_of_caller
from ol2r_cli.loops.lanes import barrier, lane
from ol2r_cli.loops.random_numbers import drawn
from ol2r_cli.loops.workspace import mark, release


class User(NamedTuple):
    """The probabilities of the users of B replicas; with one row instead of B, all replicas have the same.

    `by_grade` [B, G] are those of a click, given that a document is examined. `by_place` are, of users who read a list
    from the top, those of leaving [B, 2, K, G], first after documents that were not clicked, then after those that
    were; of independent clicks, those of a click [B, 1, K, G]; of the user browsing model, those of examination
    [B, 1, K, K] by place and by distance from the last click above.
    """

    by_grade: Any
    by_place: Any


@part_of_caller
def of_replica(values, b):
    """Return the values of replica b, of [B, ..], or [1, ..] where all have the same."""
    return values[min(b, len(values) - 1)]


@compiled
def reads_from_the_top(b, space, round, stream, user):
    """Write the clicks of a user who reads from the top and may leave after every document."""
    before = mark(space)
    chance = drawn(space, round.seed, stream, round.t, 2 * len(round.clicks))
    by_grade, leaving = of_replica(user.by_grade, b), of_replica(user.by_place, b)
    if lane() == 0:
        left = False
        for place in range(len(round.clicks)):
            grade = round.grades[place]
            if left:
                round.clicks[place] = 0
                continue
            clicked = int(chance[2 * place] < by_grade[grade])
            round.clicks[place] = clicked
            left = chance[2 * place + 1] < leaving[clicked, place, grade]
    barrier()
    release(space, before)


@compiled
def clicks_independently(b, space, round, stream, user):
    """Write the clicks of a user who clicks on each place, whatever is above it."""
    before = mark(space)
    chance = drawn(space, round.seed, stream, round.t, len(round.clicks))
    by_place = of_replica(user.by_place, b)[0]
    if lane() == 0:
        for place in range(len(round.clicks)):
            round.clicks[place] = chance[place] < by_place[place, round.grades[place]]
    barrier()
    release(space, before)


@compiled
def browses(b, space, round, stream, user):
    """Write the clicks of a user of the user browsing model: without a click above, the distance is that from the top,
    as if place 0 were clicked."""
    before = mark(space)
    chance = drawn(space, round.seed, stream, round.t, len(round.clicks))
    by_grade, examination = of_replica(user.by_grade, b), of_replica(user.by_place, b)[0]
    if lane() == 0:
        last = -1
        for place in range(len(round.clicks)):
            probability = by_grade[round.grades[place]] * examination[place, place - last - 1]
            round.clicks[place] = chance[place] < probability
            if round.clicks[place]:
                last = place
    barrier()
    release(space, before)
