"""Null space gradient descent: the stages of `NSGD` (ranker/dueling_bandits/)."""

from __future__ import annotations

import math
import sys
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ol2r_cli.loops.compile import compiled, compiled_sums, made_by
from ol2r_cli.loops.dense import dot
from ol2r_cli.loops.directions import give_length_1
from ol2r_cli.loops.gradient_steps import linear
from ol2r_cli.loops.lanes import barrier, dealt, lane, lanes
from ol2r_cli.loops.orders import ascending, number_of
from ol2r_cli.loops.random_numbers import JUDGE, NORMAL_AT_ONCE, drawn_normal
from ol2r_cli.loops.workspace import mark, release, take, take_integers, take_matrix
from ol2r_cli.ranker.dueling_bandits.duel_loops import compare, room_of_duels, score_members
from ol2r_cli.ranker.dueling_bandits.span_loops import add, orthonormalise

WORST = 4  # members of a round that may be stored: those who earned no more than the fourth least
_LARGEST = sys.float_info.max


class Losers(NamedTuple):
    """The last directions [B, memory, F] that lost, what they earned less than theta, `loss` [B, memory], and the place
    of the oldest [B]; `avoided` is how many of them new directions are orthogonal to."""

    avoided: int
    directions: Any
    loss: Any
    oldest: Any


class Difficult(NamedTuple):
    """The state of `DifficultQueries`: its window [B], and of every stored query its ease and round [B, room],
    documents [B, room, D], their number [B, room], and which were clicked [B, room, D]."""

    window: Any
    ease: Any
    stored: Any
    document: Any
    length: Any
    clicked: Any


class NullSpaceState(NamedTuple):
    """What `DuelState` has, how many directions are `drawn`, losers and difficult queries."""

    theta: Any
    moving: Any
    rate: Any
    delta: Any
    directions: Any
    weights: Any
    space: Any
    drawn: int
    losers: Losers
    difficult: Difficult


def room_of_null_space(state: NullSpaceState, rows: int) -> int:
    """Return how many numbers of the workspace the stages take; `rows` as in `room_of_duels`."""
    _, candidates, features = state.directions.shape
    drawn, avoided, memory = state.drawn, state.losers.avoided, state.losers.loss.shape[1]
    documents = state.difficult.document.shape[2]
    drawing = (drawn + 2 * avoided + 1) * features + 4 + 2 * NORMAL_AT_ONCE + 2 * drawn + memory + avoided + 64
    comparing = 5 * (candidates + 1) + candidates * documents
    return max(drawing, comparing + room_of_duels(0, candidates, features, rows))


@compiled
def scores_of_null_space(b, space, round, queries, ranker):
    """Choose directions of the null space, and score the documents by theta and by what is away from it in each."""
    draw_in_null_space(b, space, round.seed, JUDGE, round.t, queries.table, round.start, round.documents, ranker)
    score_members(b, round, queries, ranker)


@compiled
def draws_in_null_space(b, space, of, table, start, length, ranker):
    """Choose directions for the queries [B], which draw from a stream (`Draw` of loops/single.py)."""
    draw_in_null_space(b, space, of.seeds[b], of.stream, of.t, table, start[b], length[b], ranker)


@compiled
def draw_in_null_space(b, space, seed, stream, t, table, start, documents, ranker):
    """Write what NSGD compares: M of the directions that so many `drawn` ones have in the null space of the stored
    directions that lost most. They are those that differ most in the scores of the query's mean document; all in their
    order if all are kept."""
    before = mark(space)
    drawn, losers, directions = ranker.drawn, ranker.losers, ranker.directions[b]
    features = directions.shape[1]
    avoided = min(losers.avoided, features - 1)
    basis, mean = take_matrix(space, avoided, features), take(space, features)
    difference, chosen = take(space, drawn), take_integers(space, len(directions))
    normal = drawn_normal(space, seed, stream, t, drawn, features)
    count = basis_of_worst(b, losers, basis, space)
    mean_document(table, start, documents, mean)
    for m in range(lane(), drawn, lanes()):
        for _ in range(2):  # the second time removes the rounding errors of the first
            leave_null_space(normal[m], basis, count)
        difference[m] = np.float32(abs(dot(normal[m], mean)))  # in which rounding errors are ties
    barrier()
    choose(difference, chosen)
    for n in range(len(directions)):
        for f in range(dealt(n, features), features, lanes()):
            directions[n, f] = normal[chosen[n], f]
    barrier()
    release(space, before)


@compiled
def basis_of_worst(b, losers, basis, space):
    """Write an orthonormal basis [r, F] of the stored directions that lost most, of equal ones the last; return r."""
    before = mark(space)
    loss, avoided = losers.loss[b], len(basis)
    free, worst = take_integers(space, len(loss)), take_integers(space, avoided)
    vectors = take(space, avoided * basis.shape[1]).reshape(basis.shape)
    for place in range(lane(), len(loss), lanes()):
        free[place] = 1
    barrier()
    if lane() == 0:
        for m in range(avoided):
            last = -1
            for place in range(len(free)):
                if free[place] and (last < 0 or loss[place] <= loss[last]):
                    last = place
            free[last], worst[m] = 0, last
    barrier()
    for m in range(avoided):
        for f in range(lane(), basis.shape[1], lanes()):
            vectors[m, f] = losers.directions[b, worst[m], f]
    count = orthonormalise(vectors, basis, space)
    release(space, before)
    return count


@compiled
def mean_document(table, start, documents, mean):
    """Write the mean features [F] of the query's documents."""
    for f in range(lane(), len(mean), lanes()):
        mean[f] = 0.0
    for d in range(documents):
        add(mean, 1 / documents, table[start + d])
    barrier()


@compiled_sums
def leave_null_space(direction, basis, count):
    """Leave of a direction [F], which is this lane's alone, what is orthogonal to the first rows of the basis, with
    length 1."""
    for r in range(count):
        factor = dot(direction, basis[r])
        for f in range(len(direction)):
            direction[f] -= factor * basis[r, f]
    give_length_1(direction)


@compiled
def choose(difference, chosen):
    """Write which directions [M] have the largest of these differences [drawn], the first of equal ones; all in their
    order if there are no more."""
    if lane() == 0:
        for n in range(len(chosen)):
            largest = n
            if len(chosen) < len(difference):
                largest = 0
                for m in range(1, len(difference)):
                    if difference[m] > difference[largest]:
                        largest = m
                difference[largest] = -1.0
            chosen[n] = largest
    barrier()


@cache
def learns_by_null_space(move: Any) -> Any:
    """Return the stage that moves theta to that winner which ranks difficult queries best, or to the mean of all, by
    one of the loops of `learns_by_duels`, and stores who lost."""

    @made_by("learns_by_null_space", move)
    def learn_by_null_space(b, space, round, queries, ranker):
        before = mark(space)
        directions = ranker.directions[b]
        earned, won = take(space, 1 + len(directions)), take_integers(space, len(directions))
        compare(round, earned, won)
        store_query(b, round, ranker.difficult)
        leave_the_best(b, space, queries.table, won, ranker)
        move(b, space, round, queries, directions, won, ranker)
        store_losers(b, space, earned, ranker)
        release(space, before)

    return learn_by_null_space


@compiled
def store_losers(b, space, earned, ranker):
    """Store the directions that earned less than theta and are among the `WORST` members, in place of the oldest.
    `earned` [1 + M] is what members have earned."""
    before = mark(space)
    lost, loss, order = ranker.losers.directions[b], ranker.losers.loss[b], take_integers(space, len(earned))
    ascending(earned, order)
    most, place = earned[order[min(WORST, len(earned)) - 1]], ranker.losers.oldest[b]
    for n in range(1, len(earned)):
        if earned[n] < earned[0] and earned[n] <= most:
            for f in range(lane(), lost.shape[1], lanes()):
                lost[place, f] = ranker.directions[b, n - 1, f]
            if lane() == 0:
                loss[place] = earned[n] - earned[0]
            place = (place + 1) % len(loss)
    barrier()
    if lane() == 0:
        ranker.losers.oldest[b] = place
    barrier()
    release(space, before)


@compiled
def store_query(b, round, difficult):
    """Store the query of this round if it is difficult."""
    ease, stored = difficult.ease[b], difficult.stored[b]
    easy, most, place = 0.0, -1.0, 0
    for rank in range(1, len(round.clicks) + 1):
        if round.clicks[rank - 1]:
            easy += 1 / rank
    easy = np.float64(np.float32(easy))  # in which rounding errors are ties
    for other in range(len(ease)):
        is_old = math.isfinite(ease[other]) and round.t - stored[other] > difficult.window[b]
        easiness = _LARGEST if is_old else ease[other]
        if easiness > most:
            most, place = easiness, other
    if not 0 < easy < most:
        return
    document, clicked = difficult.document[b, place], difficult.clicked[b, place]
    barrier()  # all lanes have read
    if lane() == 0:
        ease[place], stored[place], difficult.length[b, place] = easy, round.t, round.documents
    for d in range(lane(), len(document), lanes()):
        document[d] = round.start + d if d < round.documents else 0
        clicked[d] = False
    barrier()
    for rank in range(lane(), len(round.ranking), lanes()):
        clicked[round.ranking[rank]] = round.clicks[rank] != 0
    barrier()


@compiled
def leave_the_best(b, space, table, won, ranker):
    """Leave of several winners [M] one: that with the largest sum of 1 / rank over the documents clicked in the stored
    queries, the first of equal ones."""
    difficult, winners = ranker.difficult, number_of(won)
    stored = difficult.length.shape[1]
    if winners < 2 or stored == 0:
        return
    before = mark(space)
    member, quality = take_integers(space, winners), take(space, winners)
    if lane() == 0:
        count = 0
        for m in range(len(won)):
            if won[m]:
                member[count] = m
                count += 1
    barrier()
    for n in range(lane(), winners, lanes()):
        quality[n] = 0.0
    for place in range(stored):
        add_quality(b, space, table, place, member, ranker, quality)
    best = 0
    for n in range(1, winners):
        if np.float32(quality[n]) > np.float32(quality[best]):
            best = n
    for n in range(lane(), winners, lanes()):
        won[member[n]] = n == best
    barrier()
    release(space, before)


@compiled
def add_quality(b, space, table, place, member, ranker, quality):
    """Add to quality [w] of these members the sum of 1 / rank over the documents clicked in a stored query."""
    before = mark(space)
    documents, clicked = ranker.difficult.length[b, place], ranker.difficult.clicked[b, place]
    start = ranker.difficult.document[b, place, 0]
    scores = take_matrix(space, len(member), documents)
    for n in range(len(member)):
        linear(ranker.weights[b, 1 + member[n]], table, start, scores[n])
        for d in range(lane(), documents, lanes()):
            scores[n, d] = np.float32(scores[n, d])  # in which equal documents tie
    barrier()
    for n in range(lane(), len(member), lanes()):
        for d in range(documents):
            if clicked[d]:
                rank = 1
                for other in range(documents):
                    rank += scores[n, other] > scores[n, d]
                quality[n] += 1 / rank
    barrier()
    release(space, before)
