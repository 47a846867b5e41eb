"""The rounds of one replica, stage by stage, as `Simulation.play_round` plays one with roles."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from ol2r_cli.loops.compile import compiled, made_by
from ol2r_cli.loops.lanes import barrier, lane, lane_sum, lanes
from ol2r_cli.loops.launch import launch
from ol2r_cli.loops.pairs import adjacent_pairs, all_pairs, matched_pairs, no_pairs
from ol2r_cli.loops.random_numbers import CLICK, QUERY, drawn
from ol2r_cli.loops.workspace import mark, release, take_integers, take_matrix


class Queries(NamedTuple):
    """The training queries: the documents' features [N, F], labels [I N] (that of document n for intent i is at
    i N + n), and groups [N] or [0]; first row and length [Q] of every query, and `upto` [Q], the share of rounds in
    which it or an earlier one is asked, or [0] where all are asked alike."""

    table: Any
    labels: Any
    groups: Any
    starts: Any
    lengths: Any
    upto: Any


class Sizes(NamedTuple):
    """How much room a round needs: places shown, members of the ranker, and pairs."""

    positions: int
    members: int
    pairs: int


class Record(NamedTuple):
    """What is kept of R rounds: query, number of pairs and sum of all scores [R, B]; grade, group (or nothing) and
    click of the shown places [R, B, K]."""

    query: Any
    pairs: Any
    total: Any
    grades: Any
    groups: Any
    clicks: Any


class Round(NamedTuple):
    """One round of one replica. A shown place has a document, its grade and its click; a pair has two documents.

    Documents are numbered from 0 within their query, whose first row is `start`. `scores` [M, d] and `credit` [M, k]
    are of M members, by document and by place; `ranking`, `grades` and `clicks` [k] of the k places shown, and the
    first `found` [1] of `winners` and `losers` are pairs. `row` is the row of the round in what is recorded, `t` its
    number from 0. A stage that is launched alone (loops/single.py) receives only what it needs.
    """

    t: Any
    row: Any
    seed: Any
    start: Any
    documents: Any
    scores: Any
    credit: Any
    ranking: Any
    grades: Any = None
    clicks: Any = None
    winners: Any = None
    losers: Any = None
    found: Any = None


class RankerStages(NamedTuple):
    """The stages of a ranker, `score` and `learn`, and their state; `room` is how many numbers of the workspace they
    take besides scores. At most `rounds` rounds are played until the ranker is asked again. `by_theta` is whether
    nothing but theta shows in its lists."""

    score: Any
    learn: Any
    state: Any
    members: int = 1
    room: int = 0
    rounds: int = 1 << 62
    by_theta: bool = False


class ExplorationStages(NamedTuple):
    """The stages of an exploration, `arrange` and `remember`, and the rest as in `RankerStages`; `room` is a function
    of `Sizes` and the longest list."""

    arrange: Any
    state: Any
    remember: Any
    room: Callable[[Sizes, int], int]
    rounds: int = 1 << 62


class UserStages(NamedTuple):
    """The stage of a user and its state."""

    click: Any
    state: Any


OF_SUMS = 32  # numbers that a GPU takes where lanes add up
INFER = {"none": no_pairs, "all": all_pairs, "matching": matched_pairs, "adjacent": adjacent_pairs}


def room_of_a_round(sizes: Sizes, documents: int, ranker: int, exploration: int = 0) -> int:
    """Return how many numbers of the workspace a round takes; ranker and exploration say how many their stages take.

    The room decides whether the workspace of a replica is fast memory of a GPU;
    tests/loops/test_rooms.py compares it with what rounds take.
    """
    positions, members, pairs = sizes
    credited = members if members > 1 else 0
    kept = members * documents + (credited + 3) * positions + 2 * pairs + 5
    by_clicks = documents + 2 * positions * positions + 3 * positions  # PDGD; other steps, users and pairs take less
    return kept + max(by_clicks, 4 * pairs, ranker, exploration) + 2 * OF_SUMS


class RoundsLaunch(NamedTuple):
    """A launch of `rounds` rounds from number `first`: the loop of its stages, the numbers of the workspace that it
    takes, and what the loop receives. `reasons` are the blocks and certain pairs that the exploration
    records, if they are wanted."""

    loop: Any
    room: int
    first: int
    rounds: int
    sizes: Sizes
    queries: Queries
    intents: Tensor
    seeds: Tensor
    user: Any
    exploration: Any
    ranker: Any
    record: Record
    reasons: tuple[Tensor, ...]

    def key(self) -> Hashable:
        """Return what launches have in common that are played as one: stages, sizes, rounds, and queries."""
        state = _leaves((self.exploration, self.ranker))
        sizes = [value for value in state if not isinstance(value, Tensor)]
        shapes = [value.shape[1:] for value in state if isinstance(value, Tensor)]
        queries = self.queries
        where = [array.data_ptr() for array in (queries.table, queries.starts, queries.labels, queries.upto)]
        return self.loop, self.first, self.rounds, self.sizes, tuple(sizes), tuple(shapes), tuple(where)

    def play(self) -> None:
        """Play the rounds of this run alone."""
        exploration = self.exploration
        if self.reasons:
            exploration = exploration._replace(blocks=self.reasons[0], certain=self.reasons[1])
        roles = self.user, exploration, self.ranker
        shared = self.first, self.rounds, self.sizes, self.queries
        launch(self.loop, len(self.seeds), self.room, *shared, self.intents, self.seeds, *roles, self.record)


def _leaves(value: Any) -> list[Any]:
    """Return the values of nested tuples, one after the other."""
    if isinstance(value, tuple):
        return [leaf for part in value for leaf in _leaves(part)]
    return [value]


@compiled
def asked(queries, chance):
    """Return the query that is asked, by a random number between 0 and 1."""
    if len(queries.upto) == 0:
        return np.int64(chance * len(queries.starts))
    first, last = np.int64(0), np.int64(len(queries.starts) - 1)
    while first < last:
        middle = (first + last) // 2
        if queries.upto[middle] > chance:
            last = middle
        else:
            first = middle + 1
    return first


@cache
def rounds_of(score: Any, arrange: Any, click: Any, infer: Any, learn: Any, remember: Any) -> Any:
    """Return the loop that plays rounds of these stages: of a ranker, an exploration, a user, pairs, and learning."""

    @made_by("rounds_of", score, arrange, click, infer, learn, remember)
    def play_rounds(b, space, first, rounds, sizes, queries, intents, seeds, user, exploration, ranker, record):
        positions, members, pairs = sizes
        start_of_round = mark(space)
        for row in range(rounds):
            release(space, start_of_round)
            t, seed = first + row, seeds[b]
            query = asked(queries, drawn(space, seed, QUERY, t, 1)[0])
            start, documents = queries.starts[query], queries.lengths[query]
            places = min(positions, documents)
            scores = take_matrix(space, members, documents)
            credited = members if members > 1 else 0
            credit = take_matrix(space, credited, places)
            ranking, grades = take_integers(space, places), take_integers(space, places)
            clicks = take_integers(space, places)
            winners, losers = take_integers(space, pairs), take_integers(space, pairs)
            found = take_integers(space, 1)
            arranged = scores, credit, ranking, grades, clicks
            round = Round(t, row, seed, start, documents, *arranged, winners, losers, found)
            score(b, space, round, queries, ranker)
            arrange(b, space, round, queries, exploration)
            judge(round, queries, intents[row, b])
            click(b, space, round, CLICK, user)
            infer(b, space, round)
            learn(b, space, round, queries, ranker)
            remember(b, space, round, queries, exploration)
            keep(b, space, round, query, queries, record)

    return play_rounds


@compiled
def judge(round, queries, intent):
    """Write the grades of the shown documents for this intent, from 0."""
    first = intent * len(queries.table) + round.start
    for place in range(lane(), len(round.ranking), lanes()):
        round.grades[place] = queries.labels[first + round.ranking[place]]
    round.found[0] = 0
    barrier()


@compiled
def nothing_to_remember(b, space, round, queries, exploration):
    """Leave an exploration as it is that keeps nothing of earlier rounds."""


@compiled
def keep(b, space, round, query, queries, record):
    """Write the round to the record."""
    row = round.row
    for place in range(lane(), len(round.ranking), lanes()):
        record.grades[row, b, place] = round.grades[place]
        record.clicks[row, b, place] = round.clicks[place] != 0
        if len(queries.groups):
            record.groups[row, b, place] = queries.groups[round.start + round.ranking[place]]
    total = 0.0
    for member in range(len(round.scores)):
        for d in range(lane(), round.documents, lanes()):
            total += round.scores[member, d]
    total = lane_sum(total, space)
    if lane() == 0:
        record.query[row, b], record.pairs[row, b], record.total[row, b] = query, round.found[0], total
    barrier()
