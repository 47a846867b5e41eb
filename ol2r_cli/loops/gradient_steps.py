"""Rankers that take one gradient step a round: the scores of a linear model, PDGD, and RankNet."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from ol2r_cli.loops.compile import compiled, compiled_sums
from ol2r_cli.loops.lanes import barrier, dealt, lane, lanes
from ol2r_cli.loops.workspace import mark, release, take, take_integers


class LearningRate(NamedTuple):
    """The length of a step, `value` [B, 1]: it is multiplied by `decay` [B] after every step, down to `least` [B]."""

    value: Any
    decay: Any
    least: Any


class GradientState(NamedTuple):
    """A linear ranker that takes steps: theta [B, F], `moving` [B, F] (theta itself, or a copy that learns from rounds
    which are to change theta together), and its `LearningRate`."""

    theta: Any
    moving: Any
    rate: Any


@compiled
def scores_by_theta(b, space, round, queries, ranker):
    """Score the documents by theta."""
    linear(ranker.theta[b], queries.table, round.start, round.scores[0])


@compiled_sums
def linear(theta, table, start, scores):
    """Write theta . table[start + d] to scores [d]. `table` may be of single precision."""
    for d in range(lane(), len(scores), lanes()):
        row, total = table[start + d], 0.0
        for f in range(len(theta)):
            total += theta[f] * row[f]
        scores[d] = total
    barrier()


@compiled_sums
def linear_of_members(weights, table, start, scores):
    """Write weights[n] . table[start + d] to scores [N, d]."""
    members, documents = scores.shape
    for n in range(members):
        for d in range(dealt(n, documents), documents, lanes()):
            row, total = table[start + d], 0.0
            for f in range(weights.shape[1]):
                total += weights[n, f] * row[f]
            scores[n, d] = total
    barrier()


@compiled
def learns_by_ranknet(b, space, round, queries, ranker):
    """Take a step down the pairwise logistic loss of the round's pairs (`SGDRankNet`), if there are any."""
    pairs = round.found[0]
    if pairs == 0:
        return
    before = mark(space)
    pull, rows = take(space, 2 * pairs), take_integers(space, 2 * pairs)
    for pair in range(lane(), pairs, lanes()):
        winner, loser = round.winners[pair], round.losers[pair]
        margin = round.scores[0, winner] - round.scores[0, loser]
        pull[2 * pair] = ranker.rate.value[b, 0] / (1 + math.exp(margin))
        pull[2 * pair + 1] = -pull[2 * pair]
        rows[2 * pair], rows[2 * pair + 1] = round.start + winner, round.start + loser
    barrier()
    add_rows(ranker.moving[b], queries.table, rows, pull)
    slow_down(b, ranker.rate)
    release(space, before)


@compiled_sums
def add_rows(theta, table, rows, weights):
    """Add the sum of weights[p] table[rows[p]] to theta [F]."""
    for p in range(len(rows)):
        if weights[p] != 0:
            row = table[rows[p]]
            for f in range(lane(), len(theta), lanes()):
                theta[f] += weights[p] * row[f]
    barrier()


@compiled
def slow_down(b, rate):
    """Let a learning rate decay, after a step."""
    if lane() == 0:
        value = rate.value[b, 0]
        rate.value[b, 0] = max(value - value * (1 - rate.decay[b]), rate.least[b])
    barrier()
