"""Orders of one list: by score, by Plackett-Luce clocks, by taking turns, by drawn ranks."""

from __future__ import annotations

import math

import numpy as np

from ol2r_cli.loops.compile import compiled
from ol2r_cli.loops.lanes import barrier, lane, lanes
from ol2r_cli.loops.workspace import mark, release, take, take_integers

_CHANCE, _TINY = np.int64(1 << 29), 2.0**-1000  # as in exploration/order.py
PLACED = -1.0  # in place of the weight of a document that has been placed
SMALL = 1e-200  # sums of weights below this are enlarged
INSERTED = 32  # places up to which `best` inserts documents one by one


@compiled
def sortable(score, chance):
    """Return a score whose last 29 of 52 bits are random, so that equal scores are in random order."""
    drawn = np.int64(chance * -_CHANCE)  # 0 or negative
    bits = np.float64(score + _TINY).view(np.int64) | (_CHANCE - 1)
    bits += 1 - _CHANCE - drawn if bits < 0 else drawn
    return np.int64(bits).view(np.float64)


@compiled
def ascending(keys, order):
    """Write the order [d] of the keys [d] from the smallest one up, equal ones as they stand.

    Each key counts those before it, which a processor does many at a time: up to a thousand keys this is as fast as
    sorting.
    """
    for d in range(lane(), len(keys), lanes()):
        key, place = keys[d], 0
        for other in range(d):
            place += keys[other] <= key
        for other in range(d + 1, len(keys)):
            place += keys[other] < key
        order[place] = d
    barrier()


@compiled
def descending(keys, order):
    """Fill order [O] with the documents of the largest of keys [d], the largest first, equal ones as they stand.

    One lane alone inserts documents one by one; several, or for many places, count for each how many are before it.
    """
    if lanes() == 1 and len(order) <= INSERTED:
        insert_descending(keys, order)
        return
    for d in range(lane(), len(keys), lanes()):
        key, place = keys[d], 0
        for other in range(d):
            place += keys[other] >= key
        for other in range(d + 1, len(keys)):
            place += keys[other] > key
        if place < len(order):
            order[place] = d
    barrier()


@compiled
def insert_descending(keys, order):
    """Do what `descending` does in one lane."""
    places = len(order)
    for d in range(len(keys)):
        if d >= places and keys[d] <= keys[order[places - 1]]:
            continue
        place = min(d, places - 1)
        while place > 0 and keys[d] > keys[order[place - 1]]:
            order[place] = order[place - 1]
            place -= 1
        order[place] = d


@compiled
def number(key):
    """Return a key that may be NaN, as where scores are no longer finite, as the smallest of all: lists are drawn until
    the run says so."""
    return key if key == key else -math.inf


@compiled
def by_score(scores, chance, order, space):
    """Order the documents by score [d], with equal scores in random order."""
    before = mark(space)
    keys = take(space, len(scores))
    for d in range(lane(), len(scores), lanes()):
        keys[d] = number(sortable(scores[d], chance[d]))
    barrier()
    descending(keys, order)
    release(space, before)


@compiled
def number_of(marks):
    """Return how many of the marks are set."""
    count = 0
    for is_set in marks:
        count += is_set
    return count


@compiled
def is_among(document, order, places):
    """Return whether a document is at one of the first places of an order."""
    place = 0
    while place < places and order[place] != document:
        place += 1
    return place < places


@compiled
def take_turns(queues, turns, order, space):
    """Fill each place from queues[turns[place]] [N, O], by its first document that has not been placed."""
    before = mark(space)
    ahead = take_integers(space, len(queues))
    for n in range(lane(), len(queues), lanes()):
        ahead[n] = 0
    barrier()
    if lane() == 0:
        for place in range(len(order)):
            turn = turns[place]
            while is_among(queues[turn, ahead[turn]], order, place):
                ahead[turn] += 1
            order[place] = queues[turn, ahead[turn]]
    barrier()
    release(space, before)


@compiled
def team_draft(scores, chance, turn_chance, first, credit, space):
    """Interleave the members' orders by scores [N, d] by team draft: fill first [K], and credit by place [N, K].

    `turn_chance` [cycles * N] orders the members of each cycle, the smallest number first.
    """
    before = mark(space)
    members, shown = len(scores), len(first)
    queues = take_integers(space, members * shown).reshape((members, shown))
    turns, order = take_integers(space, shown), take_integers(space, members)
    for n in range(members):
        for place in range(lane(), shown, lanes()):
            credit[n, place] = 0.0
    queues_by_score(scores, chance, queues, space)
    agreed = _agreed(queues)
    for place in range(lane(), agreed, lanes()):
        turns[place] = 0
    for first_of_cycle in range(agreed, shown, members):
        begin = first_of_cycle - agreed
        ascending(turn_chance[begin : begin + members], order)
        for turn in range(lane(), min(members, shown - first_of_cycle), lanes()):
            turns[first_of_cycle + turn] = order[turn]
        barrier()
    take_turns(queues, turns, first, space)
    for place in range(agreed + lane(), shown, lanes()):
        credit[turns[place], place] = 1.0
    barrier()
    release(space, before)


@compiled
def queues_by_score(scores, chance, queues, space):
    """Order the documents by each member's scores [N, d]: queues [N, K]. A lane inserts those of one member."""
    members, shown = queues.shape
    if shown > INSERTED:
        for n in range(members):
            by_score(scores[n], chance, queues[n], space)
        return
    before = mark(space)
    keys = take(space, members * shown).reshape((members, shown))
    for n in range(lane(), members, lanes()):
        insert_by_score(scores[n], chance, queues[n], keys[n])
    barrier()
    release(space, before)


@compiled
def insert_by_score(scores, chance, order, keys):
    """Do what `by_score` does in one lane, with the keys [O] of the documents in the order and no others."""
    places = len(order)
    for d in range(len(scores)):
        key = number(sortable(scores[d], chance[d]))
        if d >= places and key <= keys[places - 1]:
            continue
        place = min(d, places - 1)
        while place > 0 and key > keys[place - 1]:
            order[place], keys[place] = order[place - 1], keys[place - 1]
            place -= 1
        order[place], keys[place] = d, key


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
def probabilistic(scores, chance, author, document_chance, tau, first, credit, space):
    """Interleave by probabilistic interleaving (exploration/interleaving.py) of scores [N, d]: fill first [K], and
    credit [N, K] by place.

    author and document_chance [K] draw the member of each place, and the document it places.
    """
    before = mark(space)
    members, documents = scores.shape
    likely = take(space, members)
    ranking = take_integers(space, members * documents).reshape((members, documents))
    rank_of = take_integers(space, members * documents).reshape((members, documents))
    left = take(space, members * documents).reshape((members, documents))  # 1 / rank^tau by rank
    for n in range(members):
        by_score(scores[n], chance, ranking[n], space)
        for rank in range(lane(), documents, lanes()):
            rank_of[n, ranking[n, rank]] = rank
            left[n, rank] = (rank + 1.0) ** -tau
    barrier()
    for place in range(len(first)):
        for n in range(lane(), members, lanes()):
            if _sum(left[n]) < SMALL:
                _enlarge(left[n], tau)
        barrier()
        member = np.int64(author[place] * members)
        if lane() == 0:
            first[place] = ranking[member, _drawn_rank(left[member], document_chance[place])]
        barrier()
        document = first[place]
        for n in range(lane(), members, lanes()):
            likely[n] = left[n, rank_of[n, document]] / _sum(left[n])
        barrier()
        total = _sum(likely)
        for n in range(lane(), members, lanes()):
            credit[n, place] = likely[n] / total
            left[n, rank_of[n, document]] = PLACED
        barrier()
    release(space, before)


@compiled
def _enlarge(left, tau):
    """Multiply 1 / rank^tau of what is left [d] by a factor that makes that of the best rank 1."""
    best_rank = 0
    while best_rank < len(left) - 1 and left[best_rank] == PLACED:
        best_rank += 1
    for rank in range(best_rank, len(left)):
        if left[rank] != PLACED:
            left[rank] = ((rank + 1.0) / (best_rank + 1.0)) ** -tau


@compiled
def _drawn_rank(left, chance):
    """Return the rank that is drawn with probability proportional to left [d], which is negative if it is placed."""
    target = chance * _sum(left)
    drawn, reached = 0, 0.0
    for rank in range(len(left)):
        if left[rank] != PLACED and (reached < target or reached == 0):
            drawn, reached = rank, reached + left[rank]
    return drawn


@compiled
def _sum(values):
    """Return the sum of what is not placed."""
    total = 0.0
    for value in values:
        if value != PLACED:
            total += value
    return total
