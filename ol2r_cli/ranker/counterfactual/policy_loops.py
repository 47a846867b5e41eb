"""The intervention-aware ranker (ranker/counterfactual/), for a linear model: what it remembers of a round, and its
steps. They need expectations over lists of a Plackett-Luce policy and their gradients, from sampled lists, as
`SampledLists` explains them.

A list has the documents in the order of clock / e^score; the clocks are independent exponentials of rate 1. Scores are
taken as at most `RANGE` below the largest one: probabilities below e^-600 are 0 in effect.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ol2r_cli.loops.compile import compiled
from ol2r_cli.loops.gradient_steps import add_rows, linear
from ol2r_cli.loops.lanes import barrier, lane, lane_max, lane_sum, lanes
from ol2r_cli.loops.orders import descending
from ol2r_cli.loops.random_numbers import POLICY, drawn
from ol2r_cli.loops.workspace import mark, release, take, take_integers, take_matrix

RANGE = 600.0


class PolicyState(NamedTuple):
    """The policy theta [B, F], and what it remembers: the values by place [B, K, C] whose expectations count, from so
    many `lists`; per row of the table clicks, rounds and expected values, sums [B, N, 2 + C]; and first row and length
    of the query of every round, [B, rounds], and their number [B]."""

    theta: Any
    values: Any
    lists: int
    sums: Any
    starts: Any
    lengths: Any
    count: Any


class Curves(NamedTuple):
    """`expectations` [B, C, 2] make alpha_bar and beta_bar of the expected values, which count as `least` [B] or more
    per round; `by_place` [B, K, 2] are alpha and beta."""

    expectations: Any
    by_place: Any
    least: Any


class Draws(NamedTuple):
    """What the steps draw: the remembered rounds whose queries count, entries [B, steps, X], and the clocks of their
    lists [B, steps, S, D], which they share."""

    entries: Any
    clocks: Any


class Sampled(NamedTuple):
    """The first places of a list: its documents, order [k], the sum of the shares that are left at each place,
    total [k], and the shares of the other documents, rest [d], 0 for those that are listed."""

    order: Any
    total: Any
    rest: Any


def room_of_policy(state: PolicyState, documents: int) -> int:
    """Return how many numbers of the workspace a round takes, or the steps."""
    _, places, columns = state.values.shape
    features = state.theta.shape[1]
    list_of_one = 4 * documents + 4 * places + 32
    remembering = documents * (2 * state.lists + columns + 1) + columns + 4
    return list_of_one + max(remembering, 5 * documents + features + 2 * places + 4)


@compiled
def remembers_the_policy(b, space, round, queries, ranker):
    """Add to the sums of the query's documents what the clicks say, and what was expected of the policy."""
    before = mark(space)
    documents, lists, values, sums = round.documents, ranker.lists, ranker.values[b], ranker.sums[b]
    columns = values.shape[1]
    share, mean = take(space, documents), take_matrix(space, documents, columns)
    chance = drawn(space, round.seed, POLICY, round.t, documents * lists)
    sooner = take_matrix(space, lists, documents)
    shares(round.scores[0], share, space)
    for d in range(lane(), documents, lanes()):
        for s in range(lists):
            sooner[s, d] = math.log(chance[d * lists + s]) / share[d]
    barrier()
    expected(share, sooner, values, mean, space)
    for d in range(lane(), documents, lanes()):
        sums[round.start + d, 1] += 1
        for c in range(columns):
            sums[round.start + d, 2 + c] += mean[d, c]
    barrier()
    for place in range(lane(), len(round.ranking), lanes()):
        sums[round.start + round.ranking[place], 0] += round.clicks[place]
    if lane() == 0:
        count = ranker.count[b]
        ranker.starts[b, count], ranker.lengths[b, count] = round.start, documents
        ranker.count[b] = count + 1
    barrier()
    release(space, before)


@compiled
def shares(scores, share, space):
    """Write e^score of documents [d], up to a common factor."""
    most = -math.inf
    for d in range(lane(), len(scores), lanes()):
        most = max(most, scores[d])
    most = lane_max(most, space)
    for d in range(lane(), len(scores), lanes()):
        share[d] = math.exp(max(scores[d] - most, -RANGE))
    barrier()


@compiled
def sample(share, sooner, sampled, space):
    """Find the first places of the list in which documents with these shares [d] come in the order of `sooner` [d],
    from the largest down: -clock / share."""
    order, total, rest = sampled
    for d in range(lane(), len(share), lanes()):
        rest[d] = share[d]
    descending(sooner, order)
    for place in range(lane(), len(order), lanes()):
        rest[order[place]] = 0.0
    barrier()
    left = 0.0
    for d in range(lane(), len(share), lanes()):
        left += rest[d]
    left = lane_sum(left, space)
    if lane() == 0:
        for place in range(len(order) - 1, -1, -1):
            left += share[order[place]]
            total[place] = left
    barrier()


@compiled
def expected(share, sooner, values, mean, space):
    """Write E[sum_k 1(d at place k) values_k], mean [d, C], for documents with these shares [d], as the mean over lists
    in the order of `sooner` [S, d] of the sum over places k of P(d at k, given the documents above) values_k [K, C]."""
    before = mark(space)
    (lists, documents), columns, places = sooner.shape, values.shape[1], min(len(values), len(share))
    sampled = Sampled(take_integers(space, places), take(space, places), take(space, documents))
    whole = take(space, columns)
    for d in range(lane(), documents, lanes()):
        for c in range(columns):
            mean[d, c] = 0.0
    barrier()
    for s in range(lists):
        sample(share, sooner[s], sampled, space)
        if lane() == 0:
            for c in range(columns):
                whole[c] = 0.0
            for place in range(places):
                d = sampled.order[place]
                for c in range(columns):
                    whole[c] += values[place, c] / sampled.total[place]
                    mean[d, c] += share[d] * whole[c]
        barrier()
        for d in range(lane(), documents, lanes()):
            for c in range(columns):
                mean[d, c] += sampled.rest[d] * whole[c]
        barrier()
    for d in range(lane(), documents, lanes()):
        for c in range(columns):
            mean[d, c] /= lists
    barrier()
    release(space, before)


@compiled
def gradient(share, clocks, reward, weight, slope, space):
    """Write the gradient [d] of E[sum_k weight_k reward of the document at k] in the scores of documents with these
    shares [d] (PL-Rank-2, Oosterhuis, SIGIR 2021), as the mean over lists with these clocks [S, >= d]."""
    before = mark(space)
    places, documents = min(len(weight), len(share)), len(share)
    sampled = Sampled(take_integers(space, places), take(space, places), take(space, documents))
    left, unlisted, sooner = take(space, places + 1), take(space, 2), take(space, documents)
    for d in range(lane(), documents, lanes()):
        slope[d] = 0.0
    barrier()
    for s in range(len(clocks)):
        for d in range(lane(), documents, lanes()):
            sooner[d] = -clocks[s, d] / share[d]
        barrier()
        sample(share, sooner, sampled, space)
        if lane() == 0:
            pull_listed(share, reward, weight, sampled, left, unlisted, slope)
        barrier()
        for d in range(lane(), documents, lanes()):
            slope[d] += sampled.rest[d] * (unlisted[0] * reward[d] - unlisted[1])
        barrier()
    for d in range(lane(), documents, lanes()):
        slope[d] /= len(clocks)
    barrier()
    release(space, before)


@compiled
def pull_listed(share, reward, weight, sampled, left, unlisted, slope):
    """Add to the slope of the documents of a list, and write what that of the others is a function of. `left` [k + 1]
    is room for the reward from each place on."""
    places = len(sampled.order)
    left[places] = 0.0
    for place in range(places - 1, -1, -1):
        left[place] = left[place + 1] + weight[place] * reward[sampled.order[place]]
    shown, lost = 0.0, 0.0
    for place in range(places):
        d = sampled.order[place]
        shown += weight[place] / sampled.total[place]
        lost += left[place] / sampled.total[place]
        slope[d] += left[place + 1] + share[d] * (shown * reward[d] - lost)
    unlisted[0], unlisted[1] = shown, lost


@compiled
def optimise(b, space, ranker, table, curves, rate, draws):
    """Move theta up the estimated reward of the remembered rounds. A step is `rate` [B] times the mean gradient."""
    before = mark(space)
    theta, entries, by_place = ranker.theta[b], draws.entries[b], curves.by_place[b]
    weight, slope = take(space, len(by_place)), take(space, len(theta))
    for place in range(lane(), len(weight), lanes()):
        weight[place] = by_place[place, 0] + by_place[place, 1]
    for step in range(len(entries)):
        for f in range(lane(), len(theta), lanes()):
            slope[f] = 0.0
        barrier()
        for x in range(entries.shape[1]):
            add_gradient(b, space, entries[step, x], draws.clocks[b, step], ranker, table, curves, weight, slope)
        for f in range(lane(), len(theta), lanes()):
            theta[f] += rate[b] * slope[f] / entries.shape[1]
        barrier()
    release(space, before)


@compiled
def add_gradient(b, space, entry, clocks, ranker, table, curves, weight, slope):
    """Add to the slope [F] that of the estimated reward of the query of a remembered round."""
    before = mark(space)
    start, documents = np.int64(ranker.starts[b, entry]), np.int64(ranker.lengths[b, entry])
    expectations, least, sums = curves.expectations[b], curves.least[b], ranker.sums[b]
    scores, share, reward = take(space, documents), take(space, documents), take(space, documents)
    pull, rows = take(space, documents), take_integers(space, documents)
    linear(ranker.theta[b], table, start, scores)
    shares(scores, share, space)
    for d in range(lane(), documents, lanes()):
        rows[d] = start + d
        alpha, beta = 0.0, 0.0
        for c in range(len(expectations)):
            alpha += sums[start + d, 2 + c] * expectations[c, 0]
            beta += sums[start + d, 2 + c] * expectations[c, 1]
        reward[d] = (sums[start + d, 0] - beta) / max(alpha, sums[start + d, 1] * least)
    barrier()
    gradient(share, clocks, reward, weight, pull, space)
    add_rows(slope, table, rows, pull)
    release(space, before)
