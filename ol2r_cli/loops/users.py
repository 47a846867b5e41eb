"""Simulated users: the clicks on one list. click/models.py has the models, with their papers."""

from __future__ import annotations

from typing import Any, NamedTuple

from ol2r_cli.loops.compile import compiled, part_of_caller
from ol2r_cli.loops.lanes import barrier, lane
from ol2r_cli.loops.random_numbers import CLICK, in_fours, uniform
from ol2r_cli.loops.workspace import mark, release, take


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
def reads_from_the_top(b, space, round, user):
    """Write the clicks of a user who reads from the top and may leave after every document."""
    before = mark(space)
    chance = take(space, in_fours(2 * len(round.clicks)))
    uniform(round.seed, CLICK, round.t, chance)
    by_grade, leaving = of_replica(user.by_grade, b), of_replica(user.by_place, b)
    cascade(round.grades, chance, by_grade, leaving, round.clicks)
    release(space, before)


@compiled
def clicks_independently(b, space, round, user):
    """Write the clicks of a user who clicks on each place, whatever is above it."""
    before = mark(space)
    chance = take(space, in_fours(len(round.clicks)))
    uniform(round.seed, CLICK, round.t, chance)
    independent(round.grades, chance, of_replica(user.by_place, b)[0], round.clicks)
    release(space, before)


@compiled
def browses(b, space, round, user):
    """Write the clicks of a user of the user browsing model."""
    before = mark(space)
    chance = take(space, in_fours(len(round.clicks)))
    uniform(round.seed, CLICK, round.t, chance)
    by_grade, examined = of_replica(user.by_grade, b), of_replica(user.by_place, b)[0]
    user_browsing(round.grades, chance, by_grade, examined, round.clicks)
    release(space, before)


@compiled
def cascade(grades, chance, click_probability, leaving, clicks):
    """Write the clicks [K] of a user who reads from the top and may leave after every document.

    `grades` [K] are those of the documents; chance [2 K] has two numbers for every place. leaving [2, K, G] is first
    for documents that were not clicked, then for those that were.
    """
    if lane() == 0:
        left = False
        for place in range(len(clicks)):
            grade = grades[place]
            if left:
                clicks[place] = 0
                continue
            clicked = int(chance[2 * place] < click_probability[grade])
            clicks[place] = clicked
            left = chance[2 * place + 1] < leaving[clicked, place, grade]
    barrier()


@compiled
def independent(grades, chance, probability, clicks):
    """Write the clicks [K] of a user who clicks on each place with probability [K, G], whatever is above it."""
    if lane() == 0:
        for place in range(len(clicks)):
            clicks[place] = chance[place] < probability[place, grades[place]]
    barrier()


@compiled
def user_browsing(grades, chance, click_probability, examined, clicks):
    """Write the clicks [K] of the user browsing model.

    examined [K, K] has P(examined) by place and by distance from the last click above, both from 1. Without such a
    click the distance is that from the top of the list, as if place 0 were clicked.
    """
    if lane() == 0:
        last = -1
        for place in range(len(clicks)):
            probability = click_probability[grades[place]] * examined[place, place - last - 1]
            clicks[place] = chance[place] < probability
            if clicks[place]:
                last = place
    barrier()
