"""Orders of one list: by keys, by score, by taking turns."""

from __future__ import annotations

import math

import numpy as np

from ol2r_cli.loops.compile import compiled
from ol2r_cli.loops.lanes import barrier, lane, lanes
from ol2r_cli.loops.workspace import mark, release, take, take_integers, take_matrix

_CHANCE, _TINY = np.int64(1 << 29), 2.0**-1000  # as in exploration/order/
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
def queues_by_score(scores, chance, queues, space):
    """Order the documents by each member's scores [N, d]: queues [N, K]. A lane inserts those of one member."""
    members, shown = queues.shape
    if shown > INSERTED:
        for n in range(members):
            by_score(scores[n], chance, queues[n], space)
        return
    before = mark(space)
    keys = take_matrix(space, members, shown)
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
