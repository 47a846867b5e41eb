"""What roles launch in a single round: stages of rounds that are played together (loops/rounds.py), and a few loops of
their own, for every replica, on the tensors that roles receive.

Lists are padded to the longest of the round: `mask` [B, D] says which documents are real, `shown` [B, K] which places
are, and `lengths` [B] how many documents; real ones come first.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from ol2r_cli.loops.compile import compiled, made_by
from ol2r_cli.loops.gradient_steps import linear
from ol2r_cli.loops.lanes import barrier, lane, lanes
from ol2r_cli.loops.orders import by_score, number_of
from ol2r_cli.loops.random_numbers import drawn, number_at, uniform
from ol2r_cli.loops.rounds import Queries, Round
from ol2r_cli.loops.workspace import mark, release, take_integers, take_matrix


class Draw(NamedTuple):
    """The random numbers of one stream in one round: the seeds [B], the number of the stream, and that of the round."""

    seeds: Any
    stream: int
    t: int


@compiled
def draw_rounds(b, space, seeds, stream, first, numbers):
    """Fill `numbers` [R, B, n], n a multiple of 4, with those of rounds first, first + 1, .."""
    for row in range(len(numbers)):
        uniform(seeds[b], stream, first + row, numbers[row, b])


@compiled
def draw_at(b, space, seeds, stream, t, index, numbers):
    """Write to `numbers` [B, n] those of one round at the indices [B, n], without the others."""
    for i in range(lane(), index.shape[1], lanes()):
        numbers[b, i] = number_at(seeds[b], stream, t, index[b, i])
    barrier()


@compiled
def sort(b, space, of, scores, mask, order):
    """Order the documents by scores [B, D], with equal scores in random order: `order` [B, O]."""
    before = mark(space)
    documents = number_of(mask[b])
    chance = drawn(space, of.seeds[b], of.stream, of.t, documents)
    by_score(scores[b, :documents], chance, order[b, : min(order.shape[1], documents)], space)
    pad(order[b], documents)
    release(space, before)


@cache
def lists_of(arrange: Any) -> Any:
    """Return the loop that lets the stage of an exploration arrange the first `places` of lists with scores [B, N, D].

    It writes order [B, O], in which the other documents follow by the scores of member 0, and where members have credit
    [B, N, D], which is zero, that of the documents.
    """

    @made_by("lists_of", arrange)
    def arrange_lists(b, space, of, places, scores, mask, exploration, order, credit):
        documents = number_of(mask[b])
        members, credited, shown = scores.shape[1], credit.shape[1], min(places, documents)
        of_members = take_matrix(space, members, documents)
        by_place = take_matrix(space, credited, shown)
        first = order[b, :shown]
        copy(scores[b], of_members)
        arrange(b, space, Round(of.t, 0, of.seeds[b], 0, documents, of_members, by_place, first), None, exploration)
        for n in range(credited):
            for place in range(lane(), shown, lanes()):
                credit[b, n, first[place]] = by_place[n, place]
        if shown < min(documents, order.shape[1]):
            complete(b, space, of, of_members[0], shown, order[b])
        pad(order[b], documents)

    return arrange_lists


@compiled
def copy(values, to):
    """Copy what the arrays [N, X] and [N, Y] have in common."""
    for row in range(len(to)):
        for column in range(lane(), min(values.shape[1], to.shape[1]), lanes()):
            to[row, column] = values[row, column]
    barrier()


@compiled
def complete(b, space, of, scores, shown, order):
    """Write to order [O], behind the documents that are shown, the others by score, equal ones at random."""
    before = mark(space)
    documents = len(scores)
    chance = drawn(space, of.seeds[b], of.stream, of.t, documents)
    descending, placed = take_integers(space, documents), take_integers(space, documents)
    by_score(scores, chance, descending, space)
    for d in range(lane(), documents, lanes()):
        placed[d] = 0
    barrier()
    if lane() == 0:
        for place in range(shown):
            placed[order[place]] = 1
        place = shown
        for d in descending:
            if not placed[d] and place < len(order):
                order[place] = d
                place += 1
    barrier()
    release(space, before)


@compiled
def pad(order, documents):
    """Put padding, the numbers from `documents` on, behind the documents."""
    for place in range(documents + lane(), len(order), lanes()):
        order[place] = place
    barrier()


@cache
def clicks_of(click: Any) -> Any:
    """Return the loop that lets the stage of a user click on lists with these grades [B, K]: clicks [B, K]."""

    @made_by("clicks_of", click)
    def click_on_lists(b, space, of, grades, shown, user, clicks):
        places = number_of(shown[b])
        listed = None, None, None, grades[b, :places], clicks[b, :places]  # without scores, credit and ranking
        round = Round(of.t, 0, of.seeds[b], 0, 0, *listed)
        click(b, space, round, of.stream, user)
        for place in range(places + lane(), clicks.shape[1], lanes()):
            clicks[b, place] = False
        barrier()

    return click_on_lists


@compiled
def append_pairs(b, space, document, winner, loser, valid, differences, count, pairs, rows):
    """Append the valid [B, M] pairs of candidates, whose numbers are `document` [B, D], to pairs [B, C, 2], and their
    differences [B, M, F] to rows [B, C, F], if C is not 0; count [B] is how many there are."""
    place = count[b]
    for pair in range(valid.shape[1]):
        if valid[b, pair]:
            if lane() == 0:
                pairs[b, place, 0] = document[b, winner[b, pair]]
                pairs[b, place, 1] = document[b, loser[b, pair]]
            if rows.shape[1] > 0:
                for f in range(lane(), rows.shape[2], lanes()):
                    rows[b, place, f] = differences[b, pair, f]
            place += 1
    barrier()
    if lane() == 0:
        count[b] = place
    barrier()


@cache
def pairs_of(infer: Any) -> Any:
    """Return the loop that lets a stage infer the pairs of lists: winners and losers [B, M], and their number [B]."""

    @made_by("pairs_of", infer)
    def infer_pairs(b, space, of, ranking, clicks, shown, winners, losers, found):
        places = number_of(shown[b])
        listed = None, None, ranking[b, :places], None, clicks[b, :places]  # without scores, credit and grades
        round = Round(of.t, 0, of.seeds[b], 0, 0, *listed, winners[b], losers[b], found[b : b + 1])
        infer(b, space, round)

    return infer_pairs


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
def steps_of(learn: Any) -> Any:
    """Return the loop that makes of `Feedback` the round of each replica, and lets a ranker learn from it."""

    @made_by("steps_of", learn)
    def learn_from_round(b, space, feedback, ranker):
        documents, places = feedback.length[b], number_of(feedback.shown[b])
        members, credited = feedback.scores.shape[1], feedback.credit.shape[1]
        scores = take_matrix(space, members, documents)
        credit = take_matrix(space, credited, places)
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
        queries = Queries(feedback.table, grades, grades, feedback.start, feedback.length, grades)
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
