"""What rankers launch in a single round: the stage `learn` of rounds that are played together, for every replica."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from ol2r_cli.loops.compile import compiled, made_by
from ol2r_cli.loops.gradient_steps import linear
from ol2r_cli.loops.lanes import barrier, lane, lanes
from ol2r_cli.loops.rounds import Queries, Round
from ol2r_cli.loops.single import copy, number_of
from ol2r_cli.loops.workspace import take, take_integers


class Feedback(NamedTuple):
    """One round of B replicas, padded to the longest list: its number t from 0, the seeds [B], the document table
    [N, F], first row and length [B] of each query, scores [B, N, D], credit [B, N, D] (or [B, 0, 0]), ranking, shown
    places and clicks [B, K], and winners, losers and which of these pairs are valid [B, M]."""

    t: int
    seeds: Any
    table: Any
    start: Any
    length: Any
    scores: Any
    credit: Any
    ranking: Any
    shown: Any
    clicks: Any
    winner: Any
    loser: Any
    valid: Any


@cache
def of_single_round(learn: Any) -> Any:
    """Return the loop that makes of `Feedback` the round of each replica, and lets a ranker learn from it."""

    @made_by("of_single_round", learn)
    def learn_from_round(b, space, feedback, ranker):
        documents, places = feedback.length[b], number_of(feedback.shown[b])
        members, credited = feedback.scores.shape[1], feedback.credit.shape[1]
        scores = take(space, members * documents).reshape((members, documents))
        credit = take(space, credited * places).reshape((credited, places))
        ranking, clicks = take_integers(space, places), take_integers(space, places)
        winners, losers = take_integers(space, feedback.valid.shape[1]), take_integers(space, feedback.valid.shape[1])
        grades, found = take_integers(space, 0), take_integers(space, 1)  # a ranker does not see grades
        copy(feedback.scores[b], scores)
        for place in range(lane(), places, lanes()):
            ranking[place], clicks[place] = feedback.ranking[b, place], feedback.clicks[b, place]
            for n in range(credited):
                credit[n, place] = feedback.credit[b, n, feedback.ranking[b, place]]
        gather_pairs(feedback.winner[b], feedback.loser[b], feedback.valid[b], winners, losers, found)
        arranged = scores, credit, ranking, grades, clicks
        start, pairs = feedback.start[b], (winners, losers, found)
        round = Round(feedback.t, 0, feedback.seeds[b], start, documents, *arranged, *pairs)
        queries = Queries(feedback.table, grades, grades, feedback.start, feedback.length)
        learn(b, space, round, queries, ranker)

    return learn_from_round


@compiled
def gather_pairs(winner, loser, valid, winners, losers, found):
    """Write the valid ones of the pairs [M], one after the other, and their number found [1]."""
    if lane() == 0:
        count = 0
        for pair in range(len(valid)):
            if valid[pair]:
                winners[count], losers[count] = winner[pair], loser[pair]
                count += 1
        found[0] = count
    barrier()


@compiled
def score_documents(b, space, weights, table, start, length, scores):
    """Write theta.x to scores [B, N, D] for the weights [B, N, F] of all members, and the documents of each query."""
    for member in range(weights.shape[1]):
        linear(weights[b, member], table, start[b], scores[b, member, : length[b]])


@compiled
def subtract_losers(b, space, table, start, winner, loser, valid, rows):
    """Write the winner's features less the loser's to rows [B, M, F], zeros for a pair that is not valid."""
    for pair in range(valid.shape[1]):
        above, below = table[start[b] + winner[b, pair]], table[start[b] + loser[b, pair]]
        for f in range(lane(), rows.shape[2], lanes()):
            rows[b, pair, f] = 0
            if valid[b, pair]:
                rows[b, pair, f] = rows.dtype.type(above[f]) - rows.dtype.type(below[f])
    barrier()
