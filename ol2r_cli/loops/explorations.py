"""The stage of a round in which an exploration arranges the list that is shown, from the ranker's scores."""

from __future__ import annotations

import math

from ol2r_cli.loops.compile import compiled
from ol2r_cli.loops.lanes import barrier, lane, lanes
from ol2r_cli.loops.orders import INSERTED, by_score, descending, number, probabilistic, take_turns, team_draft
from ol2r_cli.loops.random_numbers import AUTHOR, COIN, DOCUMENT, EXPLORE, TURNS, in_fours, uniform
from ol2r_cli.loops.rounds import Sizes
from ol2r_cli.loops.workspace import mark, release, take, take_integers


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


def room_of_turns(sizes: Sizes, documents: int) -> int:
    """Return how many numbers of the workspace `interleaves_in_turns` takes."""
    positions, members, _ = sizes
    sorting = documents if positions > INSERTED else members * positions
    return documents + (members + 2) * positions + sorting + 3 * members + 5


def room_of_ranks(sizes: Sizes, documents: int) -> int:
    """Return how many numbers of the workspace `interleaves_by_rank` takes."""
    positions, members, _ = sizes
    return (3 * members + 2) * documents + 2 * positions + members + 9


@compiled
def sorts(b, space, round, queries, exploration):
    """Arrange by score, with equal scores in random order."""
    before = mark(space)
    chance, mean = take(space, in_fours(round.documents)), take(space, round.documents)
    uniform(round.seed, EXPLORE, round.t, chance)
    mean_of_members(round.scores, mean)
    by_score(mean, chance, round.ranking, space)
    release(space, before)


@compiled
def draws(b, space, round, queries, exploration):
    """Draw from the Plackett-Luce model of the scores: clocks of rate e^score."""
    before = mark(space)
    chance, keys = take(space, in_fours(round.documents)), take(space, round.documents)
    uniform(round.seed, EXPLORE, round.t, chance)
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
    chance, shuffle = take(space, in_fours(documents)), take(space, in_fours(documents))
    coins, mean = take(space, in_fours(places)), take(space, documents)
    queues, turns = take_integers(space, 2 * places).reshape((2, places)), take_integers(space, places)
    uniform(round.seed, EXPLORE, round.t, chance)
    uniform(round.seed, DOCUMENT, round.t, shuffle)
    uniform(round.seed, COIN, round.t, coins)
    mean_of_members(round.scores, mean)
    by_score(mean, chance, queues[0], space)
    descending(shuffle[:documents], queues[1])
    for place in range(lane(), places, lanes()):
        turns[place] = coins[place] < epsilon[b]
    barrier()
    take_turns(queues, turns, round.ranking, space)
    release(space, before)


@compiled
def interleaves_in_turns(b, space, round, queries, exploration):
    """Let the members take turns."""
    before = mark(space)
    members, places = len(round.scores), len(round.ranking)
    chance = take(space, in_fours(round.documents))
    turns = take(space, in_fours((places + members - 1) // members * members))
    uniform(round.seed, EXPLORE, round.t, chance)
    uniform(round.seed, TURNS, round.t, turns)
    team_draft(round.scores, chance, turns, round.ranking, round.credit, space)
    release(space, before)


@compiled
def interleaves_by_rank(b, space, round, queries, tau):
    """Let members that are drawn draw documents by 1 / rank^tau, for tau [B]."""
    before = mark(space)
    places = in_fours(len(round.ranking))
    chance, author, document = take(space, in_fours(round.documents)), take(space, places), take(space, places)
    uniform(round.seed, EXPLORE, round.t, chance)
    uniform(round.seed, AUTHOR, round.t, author)
    uniform(round.seed, DOCUMENT, round.t, document)
    probabilistic(round.scores, chance, author, document, tau[b], round.ranking, round.credit, space)
    release(space, before)
