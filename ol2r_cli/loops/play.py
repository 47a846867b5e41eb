"""Whole rounds in one call: the loop of simulation.py for linear rankers.

Every stage is the loop that the roles call for a single round, so the numbers are the same. What is saved is Python's
part of a round, which for such rankers is most of it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ol2r_cli.loops import certain_pairs, lists, updates
from ol2r_cli.loops.compile import compiled
from ol2r_cli.loops.random_numbers import uniform

# Numbers that stand for roles: the list of an exploration, the user, the step of a ranker, and its pairs.
BY_SCORE, PLACKETT_LUCE, EPSILON_GREEDY, INTERVALS, TEAM_DRAFT, PROBABILISTIC = range(6)
CASCADE, INDEPENDENT, USER_BROWSING = range(3)
PDGD, RANKNET, DUELING, PAIRWISE = range(4)
PAIRS = {"none": 0, "all": 1, "matching": 2, "adjacent": 3}
_NONE, _ALL, _MATCHING, _ADJACENT = range(4)


class Queries(NamedTuple):
    """The documents, and the queries of a split: query q has length[q] rows from start[q] on."""

    features: Any  # [N, F]
    label: Any  # [I N]: that of document d for intent i is at i N + d
    group: Any  # [N], empty if there are no groups
    start: Any  # [Q]
    length: Any  # [Q]


class Numbers(NamedTuple):
    """Where random numbers come from: the seeds [B], and the number of each stream (tensor/streams.py)."""

    seeds: Any
    query: int
    explore: int
    document: int  # of the exploration, as the three below
    coin: int
    turns: int
    author: int
    click: int
    pairs: int


_NOTHING: Any = np.empty((0, 0))
_NO_SQUARES: Any = np.empty((0, 0, 0))
_NO_NUMBERS: Any = np.empty(0)
_NO_COUNTS: Any = np.empty(0, np.int64)


class Intervals(NamedTuple):
    """Confidence intervals (exploration/confidence.py): the form of M^-1, alpha^2, M and M^-1 [B, F, F]."""

    form: int = 0
    scale: float = 0.0
    transitive: bool = False
    conservative: bool = False
    places: int = 0
    matrix: Any = _NO_SQUARES
    inverse: Any = _NO_SQUARES


class Strategy(NamedTuple):
    """An exploration: its number, epsilon of epsilon-greedy or tau of probabilistic interleaving, how many rounds may
    be played in one call, and its intervals."""

    kind: int
    parameter: float = 0.0
    rounds: int = 1 << 62
    intervals: Intervals = Intervals()


class User(NamedTuple):
    """A click model: its number, and probabilities by grade [G] and by place, in the form of its loop in clicks.py."""

    kind: int
    by_grade: Any  # of a click; not used if clicks are independent
    by_place: Any  # [2, K, G] of leaving, [1, K, G] of a click, or [1, K, K] of examination


class Newton(NamedTuple):
    """The state of a pairwise ranker: that of `AnchoredNewton` and of its `PairHistory`.

    `attend` [B] becomes 1 where the step from the anchor is not good enough, 2 where the Hessian has been outgrown.
    """

    l2: float = 0.0
    mean: bool = False
    growth: float = 0.0
    count: Any = _NO_COUNTS
    logged: Any = np.empty((0, 0, 0), np.int32)
    rows: Any = _NO_SQUARES
    anchor: Any = _NOTHING
    gradient: Any = _NOTHING
    objective: Any = _NO_NUMBERS
    inverse: Any = _NO_SQUARES
    scores: Any = _NOTHING
    held: Any = _NO_COUNTS
    step: Any = _NOTHING
    attend: Any = _NO_COUNTS


class Learner(NamedTuple):
    """A ranker: its number, its pairs, and its state, which changes: theta [B, F] and rate [B, 1]."""

    kind: int
    pairs: int
    theta: Any
    rate: Any
    decay: float
    delta: float = 0.0  # of dueling bandits, as the number of their directions
    candidates: int = 0
    newton: Newton = Newton()


class Record(NamedTuple):
    """What is recorded of R rounds: [R, B], and of their shown places [R, B, K]."""

    query: Any
    pairs: Any  # number of valid pairs
    total: Any  # of all scores
    grade: Any
    group: Any  # empty if there are no groups
    click: Any
    block: Any  # of every place of the proposed order [R, B, D], empty if not measured
    certain: Any  # certain pairs by place [R, B, c, c]


@cache
def playing(listing: int, kind_of_user: int, kind: int, kind_of_pairs: int) -> Callable[..., int]:
    """Return what plays rounds with this exploration, user, ranker and pairs. It alone is compiled, not the others.

    `play` plays `rounds` rounds from number `first` (from 0) on, one replica after the other. It returns how many were
    played: fewer if a pairwise ranker has to be attended to. The records above come as plain tuples, without what is
    given here: their classes would be part of the machine code on disk. `intents` [rounds, B] are those of the users,
    from 0. `directions` [rounds, B, candidates, F] are those of dueling bandits, otherwise empty.
    """

    def play(first, rounds, queries, intents, numbers, parameter, intervals, user, learner, newton, directions, record):
        table, labels, groups, starts, lengths = queries
        seeds, query_stream, explore, document, coin, turns, author, click_stream, pair_stream = numbers
        form, scale, transitive, conservative, depth, matrix, inverse = intervals
        by_grade, by_place = user
        thetas, rates, decay, delta, candidates = learner
        queried, valid_pairs, totals, grade, group, clicked, blocks, certain = record
        features, positions = table.shape[1], clicked.shape[2]
        members, dtype = 1 + candidates, thetas.dtype
        weights = np.empty((1, members, features), dtype)
        for row in range(rounds):
            t = first + row
            for b in range(len(seeds)):
                seed, theta, rate = seeds[b : b + 1], thetas[b : b + 1], rates[b : b + 1]
                query = np.int64(uniform(seed, query_stream, t, 1, 4)[0, 0, 0] * len(starts))
                start, length = starts[query : query + 1], lengths[query : query + 1]
                documents = length[0]
                places = min(positions, documents)

                weights[0, 0] = theta[0]
                for n in range(candidates):
                    for f in range(features):
                        weights[0, 1 + n, f] = theta[0, f] + delta * directions[row, b, n, f]
                scores = np.zeros((1, members, documents), dtype)
                updates.linear(weights, table, start, length, scores)

                width = _in_fours(documents)
                ranking = np.empty((1, places), np.int64)
                credit = np.zeros((1, members, documents if listing >= TEAM_DRAFT else 0))
                chance = uniform(seed, explore, t, 1, width)[0]
                if listing == BY_SCORE:
                    lists.by_score(scores[:, 0], chance, length, ranking)
                elif listing == PLACKETT_LUCE:
                    lists.plackett_luce(scores[:, 0], chance, length, ranking)
                elif listing == EPSILON_GREEDY:
                    shuffle = uniform(seed, document, t, 1, width)[0]
                    coins = uniform(seed, coin, t, 1, _in_fours(places))[0] < parameter
                    lists.epsilon_greedy(scores[:, 0], chance, shuffle, coins, length, ranking)
                elif listing == INTERVALS:
                    most = min(certain.shape[2], documents)
                    reasons = np.zeros((most, most), np.bool_)
                    order, block = certain_pairs.by_intervals(
                        table,
                        start[0],
                        scores[0, 0],
                        chance[0],
                        form,
                        scale,
                        matrix[b],
                        inverse[b],
                        transitive,
                        conservative,
                        depth,
                        reasons,
                    )
                    ranking[0] = order[:places]
                    if len(blocks):
                        for place in range(documents):
                            blocks[row, b, place] = block[order[place]]
                        certain[row, b, :most, :most] = reasons
                elif listing == PROBABILISTIC:
                    members_drawn = uniform(seed, author, t, 1, _in_fours(places))[0]
                    drawn = uniform(seed, document, t, 1, _in_fours(places))[0]
                    lists.probabilistic(scores, chance, members_drawn, drawn, parameter, length, ranking, credit)
                else:
                    turn_chance = uniform(seed, turns, t, 1, _in_fours(-(-places // members) * members))[0]
                    lists.team_draft(scores, chance, turn_chance, length, ranking, credit)

                grades, shown = np.empty((1, places), np.int64), np.ones((1, places), np.bool_)
                clicks = np.empty((1, places), np.bool_)
                judged = intents[row, b] * len(table) + start[0]
                for place in range(places):
                    grades[0, place] = labels[judged + ranking[0, place]]
                drawn_for_clicks = 2 * places if kind_of_user == CASCADE else places
                chance = uniform(seed, click_stream, t, 1, _in_fours(drawn_for_clicks))[0]
                if kind_of_user == CASCADE:
                    lists.cascade(grades, shown, chance, by_grade, by_place, clicks)
                elif kind_of_user == INDEPENDENT:
                    lists.independent(grades, shown, chance, by_place[0], clicks)
                else:
                    lists.user_browsing(grades, shown, chance, by_grade, by_place[0], clicks)

                winner, loser, valid = _pairs(seed, t, pair_stream, kind_of_pairs, ranking, clicks, shown)
                if kind == PDGD:
                    updates.pdgd(theta, rate, decay, table, start, length, scores, ranking, shown, clicks)
                elif kind == RANKNET:
                    updates.ranknet(theta, rate, decay, table, start, scores, winner, loser, valid)
                elif kind == DUELING:
                    updates.dueling(theta, rate, decay, directions[row, b : b + 1], credit, ranking, clicks)

                added = np.empty((1, winner.shape[1], features), dtype)
                if kind == PAIRWISE or listing == INTERVALS:
                    updates.differences(table, start, winner, loser, valid, added)
                if kind == PAIRWISE:
                    _refit(b, theta, start[0] + np.arange(documents), winner, loser, valid, added, newton)
                if listing == INTERVALS:
                    updates.add_outer_products(matrix[b : b + 1], inverse[b : b + 1], added, valid)

                queried[row, b], valid_pairs[row, b] = query, valid.sum()
                totals[row, b] = 0.0
                for n in range(members):
                    for d in range(documents):
                        totals[row, b] += scores[0, n, d]
                for place in range(places):
                    grade[row, b, place] = grades[0, place]
                    clicked[row, b, place] = clicks[0, place]
                    if len(groups):
                        group[row, b, place] = groups[start[0] + ranking[0, place]]
            if kind == PAIRWISE and newton[-1].any():
                return row + 1
        return rounds

    return compiled(play)


@compiled
def _refit(b, theta, document, winner, loser, valid, added, newton):
    """Add the pairs [1, M] of documents with these numbers [d] to replica b of a pairwise ranker, and move theta [1, F]
    to the optimum, unless the ranker has to be attended to."""
    l2, mean, growth, count, logged, rows, anchor, gradient, objective, inverse, scores, held, step, attend = newton
    one = slice(b, b + 1)
    updates.append(document.reshape(1, -1), winner, loser, valid, count[one], logged[one])
    updates.append_rows(added, valid, count[one], rows[one])
    state = anchor[one], gradient[one], objective[one], inverse[one], scores[one]
    q = updates.newton_step(added, valid, l2, mean, count[one], *state, step[one])
    if count[b] > growth * held[b]:
        attend[b] = 2
    elif updates.is_poor(q[0], objective[b], theta.shape[1]):
        attend[b] = 1
    else:
        theta[0] = anchor[b] + step[b]


@compiled
def _in_fours(count):
    """Return the next multiple of 4: so many numbers are drawn at once."""
    return -(-count // 4) * 4


@compiled
def _pairs(seed, t, stream, kind, ranking, clicks, shown):
    """Return winner, loser and valid [1, M] of one of `PAIRS`."""
    places = ranking.shape[1]
    most = 0 if kind == _NONE else max(1, places * places // 4) if kind == _ALL else places // 2
    winner, loser = np.empty((1, most), np.int64), np.empty((1, most), np.int64)
    valid = np.empty((1, most), np.bool_)
    if kind == _ALL:
        lists.every_pair(ranking, clicks, shown, winner, loser, valid)
    elif kind == _MATCHING:
        chance = uniform(seed, stream, t, 1, _in_fours(places))[0]
        lists.matching(ranking, clicks, shown, chance, winner, loser, valid)
    elif kind == _ADJACENT:
        lists.adjacent(ranking, clicks, shown, winner, loser, valid)
    return winner, loser, valid
