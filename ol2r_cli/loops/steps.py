"""A gradient step of a linear ranker after one round, pair by pair. The rankers have them as tensors."""

from __future__ import annotations

import numpy as np

from ol2r_cli.loops.compile import compiled
from ol2r_cli.loops.pairs import examined
from ol2r_cli.loops.scores import add_rows


@compiled
def pdgd(theta, rate, decay, table, start, length, scores, ranking, shown, clicks):
    """Take PDGD's step (ranker/pdgd.py): theta [B, F] and rate [B, 1] change where a pair was found.

    `scores` [B, 1, D]; `ranking`, `shown` and `clicks` [B, K].
    """
    positions = ranking.shape[1]
    left, share = np.empty(positions), np.empty((positions, positions))
    pull, rows = np.empty(positions), np.empty(positions, dtype=np.int64)
    for b in range(len(theta)):
        places = min(positions, length[b])
        end = examined(clicks[b], shown[b])
        count = 0
        for place in range(end):
            count += clicks[b, place]
        if count == 0 or count == end:
            continue
        _left(scores[b, 0], length[b], ranking[b], places, left)
        for i in range(end):
            for p in range(end):
                share[i, p] = np.exp(scores[b, 0, ranking[b, i]] - left[p])
        pull[:] = 0
        for winner in range(end):
            if clicks[b, winner]:
                for loser in range(end):
                    if not clicks[b, loser]:
                        upper, lower, ratio = min(winner, loser), max(winner, loser), 1.0
                        for p in range(upper + 1, lower + 1):
                            ratio *= share[upper, p] + 1 - share[lower, p]
                        margin = scores[b, 0, ranking[b, winner]] - scores[b, 0, ranking[b, loser]]
                        above = 1 / (1 + np.exp(-margin))
                        weight = above * (1 - above) / (1 + max(ratio, 0.0))
                        pull[winner] += weight
                        pull[loser] -= weight
        for place in range(places):
            rows[place] = start[b] + ranking[b, place]
            pull[place] *= rate[b, 0]
        add_rows(theta[b], table, rows[:places], pull[:places])
        rate[b, 0] -= rate[b, 0] * (1 - decay)


@compiled
def _left(scores, length, ranking, places, left):
    """Fill left[p], for the places shown, with the logarithm of the sum of e^score over what was left at place p."""
    placed = np.zeros(length, dtype=np.bool_)
    for place in range(places):
        placed[ranking[place]] = True
    most, total = -np.inf, 0.0
    for d in range(length):
        if not placed[d] and scores[d] > most:
            most = scores[d]
    for d in range(length):
        if not placed[d]:
            total += np.exp(scores[d] - most)
    below = most + np.log(total) if total > 0 else -np.inf
    for place in range(places - 1, -1, -1):
        score = scores[ranking[place]]
        most = max(score, below)
        below = most + np.log(np.exp(score - most) + np.exp(below - most))
        left[place] = below


@compiled
def ranknet(theta, rate, decay, table, start, scores, winner, loser, valid):
    """Take a step down the pairwise logistic loss of the pairs [B, M] of one round (ranker/sgd_ranknet.py)."""
    pull, rows = np.empty(2 * winner.shape[1]), np.empty(2 * winner.shape[1], dtype=np.int64)
    for b in range(len(theta)):
        count = 0
        for pair in range(winner.shape[1]):
            if valid[b, pair]:
                margin = scores[b, 0, winner[b, pair]] - scores[b, 0, loser[b, pair]]
                pull[count] = rate[b, 0] / (1 + np.exp(margin))
                pull[count + 1] = -pull[count]
                rows[count], rows[count + 1] = start[b] + winner[b, pair], start[b] + loser[b, pair]
                count += 2
        if count:
            add_rows(theta[b], table, rows[:count], pull[:count])
            rate[b, 0] -= rate[b, 0] * (1 - decay)


@compiled
def dueling(theta, rate, decay, directions, credit, ranking, clicks):
    """Move theta [B, F] to the mean of the directions [B, M, F] whose credited clicks exceed those of member 0.

    `credit` [B, 1 + M, D] is by document (ranker/dueling_bandits.py).
    """
    replicas, members, _ = credit.shape
    earned = np.empty(members)
    for b in range(replicas):
        earned[:] = 0
        for place in range(ranking.shape[1]):
            if clicks[b, place]:
                for n in range(members):
                    earned[n] += credit[b, n, ranking[b, place]]
        won = 0
        for n in range(1, members):
            won += earned[n] > earned[0]
        if won:
            for n in range(1, members):
                if earned[n] > earned[0]:
                    for f in range(theta.shape[1]):
                        theta[b, f] += rate[b, 0] * directions[b, n - 1, f] / won
            rate[b, 0] -= rate[b, 0] * (1 - decay)
