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
from ol2r_cli.loops.compile import compiled, part_of_caller
from ol2r_cli.loops.random_numbers import uniform_of_rounds as uniform

# Numbers that stand for roles: the list of an exploration, the user, the step of a ranker, and its pairs.
BY_SCORE, PLACKETT_LUCE, EPSILON_GREEDY, INTERVALS = range(4)
CASCADE, INDEPENDENT, USER_BROWSING = range(3)
PDGD, RANKNET, PAIRWISE = range(3)
BY_THETA = PDGD, RANKNET  # rankers of whose state nothing but theta shows in their lists
PAIRS = {"none": 0, "all": 1, "matching": 2, "adjacent": 3}
_NONE, _ALL, _MATCHING, _ADJACENT = range(4)


class Strategy(NamedTuple):
    """An exploration: its number, epsilon of epsilon-greedy, how many rounds may be played in one call, and of
    confidence intervals (exploration/confidence.py) the form of M^-1, alpha^2, whether pairs are closed, whether
    shuffles are conservative, the places that are used, M and M^-1 [B, F, F]."""

    kind: int
    parameter: float = 0.0
    rounds: int = 1 << 62
    intervals: tuple[Any, ...] = ()


class Learner(NamedTuple):
    """A ranker: its number, its pairs, and its state, which changes: theta [B, F] and rate [B, 1].

    `kept` is what it keeps of earlier rounds. For a pairwise ranker it is that of `AnchoredNewton` and of its
    `PairHistory`, as `_refit` names it; its last part, `attend` [B], becomes 1 where the step from the anchor is not
    good enough, 2 where the Hessian has been outgrown.
    """

    kind: int
    pairs: int
    theta: Any
    rate: Any
    decay: float
    kept: tuple[Any, ...] = ()
    rounds: int = 1 << 62  # until the ranker has to be attended to


@cache
def playing(listing: int, kind_of_user: int, kind: int, kind_of_pairs: int) -> Callable[..., int]:
    """Return what plays rounds with this exploration, user, ranker and pairs. It alone is compiled, not the
    others.

    `play` plays `rounds` rounds from number `first` (from 0) on, one replica after the other. It returns how many were
    played: fewer if a pairwise ranker has to be attended to. It receives plain tuples, whose classes would otherwise be
    part of the machine code on disk:

    - `queries`: the documents [N, F], their labels [I N] (that of document d for intent i is at i N + d), their groups
      [N] or nothing, and first row and length [Q] of every query;
    - `intents` [rounds, B] of the users, from 0;
    - `numbers`: the seeds [B], and the number of each stream (tensor/streams.py);
    - parameter and intervals of `Strategy`; theta, what moves (theta itself, or a copy, for rounds that are learned
      from at once), rate and decay of `Learner`, and what it has `kept`;
    - `user`: probabilities by grade [G] of a click, not used if clicks are independent, and by place: [2, K, G] of
      leaving, [1, K, G] of a click, or [1, K, K] of examination;
    - `record`, which is written: query, number of valid pairs and sum of all scores [R, B]; grade, group (or nothing)
      and click of the shown places [R, B, K]; block of every place of the proposed order [R, B, D] (or nothing); and
      the certain pairs by place [R, B, c, c].
    """

    def play(first, rounds, queries, intents, numbers, parameter, intervals, user, learner, kept, record):
        table, labels, groups, starts, lengths = queries
        seeds, query_stream, explore, document, coin, click_stream, pair_stream = numbers
        by_grade, by_place = user
        (thetas, moving, rates, decay), state = learner, kept
        queried, valid_pairs, totals, grade, group, clicked, blocks, certain = record
        features, positions = table.shape[1], clicked.shape[2]
        dtype = thetas.dtype
        for row in range(rounds):
            t = first + row
            for b in range(len(seeds)):
                seed, theta, moved, rate = seeds[b : b + 1], thetas[b : b + 1], moving[b], rates[b : b + 1]
                query = np.int64(uniform(seed, query_stream, t, 1, _in_fours(1))[0, 0, 0] * len(starts))
                start, length = starts[query : query + 1], lengths[query : query + 1]
                documents = length[0]
                in_table = np.empty((1, documents), np.int64)
                for d in range(documents):
                    in_table[0, d] = start[0] + d
                places = min(positions, documents)
                if kind_of_pairs == _NONE:
                    most_pairs = 0
                else:
                    most_pairs = max(1, places * places // 4) if kind_of_pairs == _ALL else places // 2

                scores = np.empty((1, 1, documents), dtype)
                updates.linear(theta.reshape((1, 1, features)), table, start, length, scores)

                width = _in_fours(documents)
                ranking = np.empty(places, np.int64)
                chance = uniform(seed, explore, t, 1, width)[0, 0]
                if listing == BY_SCORE:
                    lists.by_score(scores[0, 0], chance, ranking)
                elif listing == PLACKETT_LUCE:
                    lists.plackett_luce(scores[0, 0], chance, ranking)
                elif listing == EPSILON_GREEDY:
                    shuffle = uniform(seed, document, t, 1, width)[0, 0]
                    coins = uniform(seed, coin, t, 1, _in_fours(places))[0, 0] < parameter
                    lists.epsilon_greedy(scores[0, 0], chance, shuffle, coins, ranking)
                else:
                    most = min(certain.shape[2], documents)
                    reasons = np.zeros((most, most), np.bool_)
                    order, block = certain_pairs.by_intervals(
                        table, start[0], scores[0, 0], chance, intervals, b, reasons
                    )
                    for place in range(places):
                        ranking[place] = order[place]
                    if len(blocks):
                        for place in range(documents):
                            blocks[row, b, place] = block[order[place]]
                        for above in range(most):
                            for below in range(most):
                                certain[row, b, above, below] = reasons[above, below]

                grades = np.empty((1, places), np.int64)
                shown, clicks = np.empty((1, places), np.bool_), np.empty((1, places), np.bool_)
                judged = intents[row, b] * len(table) + start[0]
                for place in range(places):
                    grades[0, place], shown[0, place] = labels[judged + ranking[place]], True
                drawn_for_clicks = 2 * places if kind_of_user == CASCADE else places
                chance = uniform(seed, click_stream, t, 1, _in_fours(drawn_for_clicks))[0]
                if kind_of_user == CASCADE:
                    lists.cascade(grades, shown, chance, by_grade, by_place, clicks)
                elif kind_of_user == INDEPENDENT:
                    lists.independent(grades, shown, chance, by_place[0], clicks)
                else:
                    lists.user_browsing(grades, shown, chance, by_grade, by_place[0], clicks)

                winner, loser = np.empty((1, most_pairs), np.int64), np.empty((1, most_pairs), np.int64)
                valid, shown_list = np.empty((1, most_pairs), np.bool_), ranking.reshape(1, -1)
                if kind_of_pairs == _ALL:
                    lists.every_pair(shown_list, clicks, shown, winner, loser, valid)
                elif kind_of_pairs == _MATCHING:
                    chance = uniform(seed, pair_stream, t, 1, _in_fours(places))[0]
                    lists.matching(shown_list, clicks, shown, chance, winner, loser, valid)
                elif kind_of_pairs == _ADJACENT:
                    lists.adjacent(shown_list, clicks, shown, winner, loser, valid)
                if kind == PDGD:
                    updates.pdgd(moved, rate[0], decay, table, start[0], scores[0, 0], ranking, clicks[0])
                elif kind == RANKNET:
                    pairs = winner[0], loser[0], valid[0]
                    updates.ranknet(moved, rate[0], decay, table, start[0], scores[0, 0], *pairs)

                added = np.empty((1, winner.shape[1], features), dtype)
                if kind == PAIRWISE or listing == INTERVALS:
                    updates.differences(table, start, winner, loser, valid, added)
                if kind == PAIRWISE:
                    _refit(b, theta, in_table, winner, loser, valid, added, state)
                if listing == INTERVALS:
                    updates.add_outer_products(intervals[5][b : b + 1], intervals[6][b : b + 1], added, valid)

                queried[row, b], valid_pairs[row, b] = query, 0
                for pair in range(most_pairs):
                    valid_pairs[row, b] += valid[0, pair]
                totals[row, b] = 0.0
                for d in range(documents):
                    totals[row, b] += scores[0, 0, d]
                for place in range(places):
                    grade[row, b, place] = grades[0, place]
                    clicked[row, b, place] = clicks[0, place]
                    if len(groups):
                        group[row, b, place] = groups[start[0] + ranking[place]]
            if kind == PAIRWISE:
                for attend in state[-1]:
                    if attend:
                        return row + 1
        return rounds

    return compiled(play)


@part_of_caller
def _refit(b, theta, document, winner, loser, valid, added, newton):
    """Add the pairs [1, M] of documents with these numbers [1, d] to replica b of a pairwise ranker, and move theta
    [1, F] to the optimum, unless the ranker has to be attended to."""
    l2, mean, growth, count, logged, rows, start, anchor = newton[:8]
    gradient, objective, inverse, scores, held, step, attend = newton[8:]
    one = slice(b, b + 1)
    updates.append(document, winner, loser, valid, added, count[one], logged[one], rows[one])
    state = start[one], anchor[one], gradient[one], objective[one], inverse[one], scores[one]
    q = updates.newton_step(added, valid, l2, mean, count[one], *state, step[one])
    if count[b] > growth * held[b]:
        attend[b] = 2
    elif updates.is_poor(q[0], objective[b], theta.shape[1]):
        attend[b] = 1
    else:
        for f in range(theta.shape[1]):
            theta[0, f] = anchor[b, f] + step[b, f]


@compiled
def _in_fours(count):
    """Return the next multiple of 4: so many numbers are drawn at once."""
    return -(-count // 4) * 4
