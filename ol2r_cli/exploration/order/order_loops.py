"""The stage of a round in which an exploration arranges the list that is shown, from the ranker's scores."""

from __future__ import annotations

import math

from ol2r_cli.loops.compile import compiled
from ol2r_cli.loops.lanes import barrier, lane, lanes
from ol2r_cli.loops.orders import by_score, descending, number, take_turns
from ol2r_cli.loops.random_numbers import COIN, DOCUMENT, EXPLORE, drawn
from ol2r_cli.loops.rounds import Sizes
from ol2r_cli.loops.workspace import mark, release, take, take_integer_matrix, take_integers

_PLACED = -1.0  # in place of the weight of a document that has been placed
_SMALL = 1e-200  # sums of weights below this are enlarged


@compiled
def mean_of_members(scores, mean):
    """Write the mean score over members [N, d]."""
    for d in range(lane(), len(mean), lanes()):
        total = 0.0
        for n in range(len(scores)):
            total += scores[n, d]
        mean[d] = total / len(scores)
    barrier()


def room_of_order(sizes: Sizes, documents: int) -> int:
    """Return how many numbers of the workspace `sorts` or `draws` takes."""
    return 3 * documents + 3


def room_of_two_orders(sizes: Sizes, documents: int) -> int:
    """Return how many numbers of the workspace `fills_some_places_at_random` takes."""
    return 4 * documents + 4 * sizes.positions + 9


@compiled
def sorts(b, space, round, queries, exploration):
    """Arrange by score, with equal scores in random order."""
    before = mark(space)
    chance = drawn(space, round.seed, EXPLORE, round.t, round.documents)
    mean = take(space, round.documents)
    mean_of_members(round.scores, mean)
    by_score(mean, chance, round.ranking, space)
    release(space, before)


@compiled
def draws(b, space, round, queries, exploration):
    """Draw from the Plackett-Luce model of the scores: clocks of rate e^score."""
    before = mark(space)
    chance = drawn(space, round.seed, EXPLORE, round.t, round.documents)
    keys = take(space, round.documents)
    mean_of_members(round.scores, keys)
    for d in range(lane(), len(keys), lanes()):
        keys[d] = number(keys[d] - math.log(-math.log(chance[d])))
    barrier()
    descending(keys, round.ranking)
    release(space, before)


@compiled
def fills_some_places_at_random(b, space, round, queries, epsilon):
    """Fill each place from a random permutation where its coin is below epsilon [B], otherwise by score."""
    before = mark(space)
    documents, places = round.documents, len(round.ranking)
    chance = drawn(space, round.seed, EXPLORE, round.t, documents)
    shuffle = drawn(space, round.seed, DOCUMENT, round.t, documents)
    coins = drawn(space, round.seed, COIN, round.t, places)
    mean = take(space, documents)
    queues, turns = take_integer_matrix(space, 2, places), take_integers(space, places)
    mean_of_members(round.scores, mean)
    by_score(mean, chance, queues[0], space)
    descending(shuffle[:documents], queues[1])
    for place in range(lane(), places, lanes()):
        turns[place] = coins[place] < epsilon[b]
    barrier()
    take_turns(queues, turns, round.ranking, space)
    release(space, before)
