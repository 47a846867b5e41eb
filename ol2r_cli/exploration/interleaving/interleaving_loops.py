"""The stages in which the orders of members are interleaved: team draft, and by rank."""

from __future__ import annotations

import numpy as np

from ol2r_cli.loops.compile import compiled
from ol2r_cli.loops.lanes import barrier, lane, lanes
from ol2r_cli.loops.orders import INSERTED, ascending, by_score, queues_by_score, take_turns
from ol2r_cli.loops.random_numbers import AUTHOR, DOCUMENT, EXPLORE, TURNS, drawn
from ol2r_cli.loops.rounds import Sizes
from ol2r_cli.loops.workspace import mark, release, take, take_integer_matrix, take_integers, take_matrix

_PLACED = -1.0  # in place of the weight of a document that has been placed
_SMALL = 1e-200  # sums of weights below this are enlarged


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
def interleaves_in_turns(b, space, round, queries, exploration):
    """Interleave the members' orders by team draft: in each cycle, the members take turns in a random order."""
    before = mark(space)
    members, shown = len(round.scores), len(round.ranking)
    chance = drawn(space, round.seed, EXPLORE, round.t, round.documents)
    turn_chance = drawn(space, round.seed, TURNS, round.t, shown + members - 1)
    queues = take_integer_matrix(space, members, shown)
    turns, order = take_integers(space, shown), take_integers(space, members)
    queues_by_score(round.scores, chance, queues, space)
    agreed = _agreed(queues)
    for place in range(lane(), agreed, lanes()):
        turns[place] = 0
    for first in range(agreed, shown, members):
        ascending(turn_chance[first - agreed : first - agreed + members], order)
        for turn in range(lane(), min(members, shown - first), lanes()):
            turns[first + turn] = order[turn]
        barrier()
    take_turns(queues, turns, round.ranking, space)
    for place in range(lane(), shown, lanes()):
        for n in range(members):
            round.credit[n, place] = 0.0
        if place >= agreed:
            round.credit[turns[place], place] = 1.0
    barrier()
    release(space, before)


@compiled
def _agreed(queues):
    """Return the length of the longest prefix that all queues [N, K] share."""
    agreed = queues.shape[1]
    for n in range(1, len(queues)):
        same = 0
        while same < agreed and queues[n, same] == queues[0, same]:
            same += 1
        agreed = same
    return agreed


@compiled
def interleaves_by_rank(b, space, round, queries, tau):
    """Interleave by probabilistic interleaving (exploration/interleaving/), for tau [B]: drawn members draw documents
    by 1 / rank^tau."""
    before = mark(space)
    (members, documents), places, exponent = round.scores.shape, len(round.ranking), -tau[b]
    chance = drawn(space, round.seed, EXPLORE, round.t, documents)
    author = drawn(space, round.seed, AUTHOR, round.t, places)
    document_chance = drawn(space, round.seed, DOCUMENT, round.t, places)
    likely = take(space, members)
    ranking = take_integer_matrix(space, members, documents)
    rank_of = take_integer_matrix(space, members, documents)
    left = take_matrix(space, members, documents)  # 1 / rank^tau by rank
    for n in range(members):
        by_score(round.scores[n], chance, ranking[n], space)
        for rank in range(lane(), documents, lanes()):
            rank_of[n, ranking[n, rank]] = rank
            left[n, rank] = (rank + 1.0) ** exponent
    barrier()
    for place in range(places):
        for n in range(lane(), members, lanes()):
            if _sum(left[n]) < _SMALL:
                _enlarge(left[n], exponent)
        barrier()
        member = np.int64(author[place] * members)
        if lane() == 0:
            round.ranking[place] = ranking[member, _drawn_rank(left[member], document_chance[place])]
        barrier()
        document = round.ranking[place]
        for n in range(lane(), members, lanes()):
            likely[n] = left[n, rank_of[n, document]] / _sum(left[n])
        barrier()
        total = _sum(likely)
        for n in range(lane(), members, lanes()):
            round.credit[n, place] = likely[n] / total
            left[n, rank_of[n, document]] = _PLACED
        barrier()
    release(space, before)


@compiled
def _enlarge(left, exponent):
    """Multiply rank^exponent of what is left [d] by a factor that makes that of the best rank 1."""
    best_rank = 0
    while best_rank < len(left) - 1 and left[best_rank] == _PLACED:
        best_rank += 1
    for rank in range(best_rank, len(left)):
        if left[rank] != _PLACED:
            left[rank] = ((rank + 1.0) / (best_rank + 1.0)) ** exponent


@compiled
def _drawn_rank(left, chance):
    """Return the rank that is drawn with probability proportional to left [d], which is negative if it is placed."""
    target = chance * _sum(left)
    drawn, reached = 0, 0.0
    for rank in range(len(left)):
        if left[rank] != _PLACED and (reached < target or reached == 0):
            drawn, reached = rank, reached + left[rank]
    return drawn


@compiled
def _sum(values):
    """Return the sum of what is not placed."""
    total = 0.0
    for value in values:
        if value != _PLACED:
            total += value
    return total
