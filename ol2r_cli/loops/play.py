"""Whole rounds in one call: the loop of simulation.py for linear rankers.

Every stage is the loop that the roles call for a single round, so the numbers are the same. What is saved is Python's
part of a round, which for such rankers is most of it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ol2r_cli.loops import lists, updates
from ol2r_cli.loops.compile import compiled
from ol2r_cli.loops.random_numbers import uniform_of_rounds as uniform

# Numbers that stand for roles: the list of an exploration, the user, the step of a ranker, and its pairs.
BY_SCORE, PLACKETT_LUCE, EPSILON_GREEDY = range(3)
CASCADE, INDEPENDENT, USER_BROWSING = range(3)
PDGD, RANKNET = range(2)
BY_THETA = PDGD, RANKNET  # rankers of whose state nothing but theta shows in their lists
PAIRS = {"none": 0, "all": 1, "matching": 2, "adjacent": 3}
_NONE, _ALL, _MATCHING, _ADJACENT = range(4)


class Strategy(NamedTuple):
    """An exploration: its number, epsilon of epsilon-greedy, and how many rounds may be played in one call."""

    kind: int
    parameter: float = 0.0
    rounds: int = 1 << 62


class Learner(NamedTuple):
    """A ranker: its number, its pairs, and its state, which changes: theta [B, F] and rate [B, 1].

    `kept` is what it keeps of earlier rounds.
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

    `play` plays `rounds` rounds from number `first` (from 0) on, one replica after the other, and returns how many. It
    receives plain tuples, whose classes would otherwise be part of the machine code on disk:

    - `queries`: the documents [N, F], their labels [I N] (that of document d for intent i is at i N + d), their groups
      [N] or nothing, and first row and length [Q] of every query;
    - `intents` [rounds, B] of the users, from 0;
    - `numbers`: the seeds [B], and the number of each stream (tensor/streams.py);
    - parameter of `Strategy`; theta, what moves (theta itself, or a copy, for rounds that are learned
      from at once), rate and decay of `Learner`, and what it has `kept`;
    - `user`: probabilities by grade [G] of a click, not used if clicks are independent, and by place: [2, K, G] of
      leaving, [1, K, G] of a click, or [1, K, K] of examination;
    - `record`, which is written: query, number of valid pairs and sum of all scores [R, B]; grade, group (or nothing)
      and click of the shown places [R, B, K].
    """

    def play(first, rounds, queries, intents, numbers, parameter, user, learner, kept, record):
        table, labels, groups, starts, lengths = queries
        seeds, query_stream, explore, document, coin, click_stream, pair_stream = numbers
        by_grade, by_place = user
        thetas, moving, rates, decay = learner
        queried, valid_pairs, totals, grade, group, clicked = record
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
        return rounds

    return compiled(play)


@compiled
def _in_fours(count):
    """Return the next multiple of 4: so many numbers are drawn at once."""
    return -(-count // 4) * 4
