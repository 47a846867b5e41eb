"""Expectations over lists of a Plackett-Luce policy and their gradients, from sampled lists, and what the
intervention-aware ranker remembers of a round. `SampledLists` in ranker/counterfactual.py has the same as tensors.

A list has the documents in the order of clock / e^score; the clocks are independent exponentials of rate 1. Scores are
taken as at most `RANGE` below the largest one: probabilities below e^-600 are 0 in effect.
"""

from __future__ import annotations

import numpy as np

from ol2r_cli.loops import updates
from ol2r_cli.loops.compile import compiled

RANGE = 600.0


@compiled
def shares(scores):
    """Return e^score of documents [D] up to a common factor."""
    most, share = -np.inf, np.empty(len(scores))
    for score in scores:
        most = max(most, score)
    for d in range(len(scores)):
        share[d] = np.exp(max(scores[d] - most, -RANGE))
    return share


@compiled
def _first(share, clock, order, total):
    """Write to order [K] the first documents of the list with these clocks [>= D], and to total [K] the sum of the
    shares that are left at each place. Return for each document whether it is in `order`."""
    count, time, listed = 0, np.empty(len(order)), np.zeros(len(share), np.bool_)
    for d in range(len(share)):
        ring = clock[d] / share[d]
        if count == len(order) and ring >= time[count - 1]:
            continue
        count += count < len(order)
        place = count - 1
        while place > 0 and time[place - 1] > ring:
            time[place], order[place] = time[place - 1], order[place - 1]
            place -= 1
        time[place], order[place] = ring, d
    for d in order:
        listed[d] = True
    left = 0.0
    for d in range(len(share)):
        if not listed[d]:
            left += share[d]
    for place in range(len(order) - 1, -1, -1):
        left += share[order[place]]
        total[place] = left
    return listed


@compiled
def expected(share, clocks, values):
    """Return E[sum_k 1(d at place k) values_k] [D, C] for documents with these shares [D], as the mean over lists with
    these clocks [S, >= D] of the sum over places k of P(d at k, given the documents above) values_k, of [K, C]."""
    places, columns = min(len(values), len(share)), values.shape[1]
    mean = np.zeros((len(share), columns))
    order, total, whole = np.empty(places, np.int64), np.empty(places), np.empty(columns)
    for clock in clocks:
        listed = _first(share, clock, order, total)
        whole[:] = 0.0
        for place in range(places):
            for c in range(columns):
                whole[c] += values[place, c] / total[place]
                mean[order[place], c] += share[order[place]] * whole[c]
        for d in range(len(share)):
            if not listed[d]:
                for c in range(columns):
                    mean[d, c] += share[d] * whole[c]
    return mean / len(clocks)


@compiled
def gradient(share, clocks, reward, weight):
    """Return the gradient [D] of E[sum_k weight_k reward of the document at k] in the scores of documents with these
    shares [D] (PL-Rank-2, Oosterhuis, SIGIR 2021), as the mean over lists with these clocks [S, >= D]."""
    places = min(len(weight), len(share))
    slope = np.zeros(len(share))
    order, total, left = np.empty(places, np.int64), np.empty(places), np.empty(places + 1)
    for clock in clocks:
        listed = _first(share, clock, order, total)
        left[places] = 0.0
        for place in range(places - 1, -1, -1):  # the reward from each place on
            left[place] = left[place + 1] + weight[place] * reward[order[place]]
        shown, lost = 0.0, 0.0
        for place in range(places):
            shown += weight[place] / total[place]
            lost += left[place] / total[place]
            d = order[place]
            slope[d] += left[place + 1] + share[d] * (shown * reward[d] - lost)
        for d in range(len(share)):
            if not listed[d]:
                slope[d] += share[d] * (shown * reward[d] - lost)
    return slope / len(clocks)


@compiled
def optimise(theta, memory, curves, least, rate, entries, clocks, table):
    """Move theta [B, F] up the estimated reward of the remembered rounds, `memory` as in `remember`.

    Every step has the queries of some of them, entries [B, steps, X], and common clocks [B, steps, S, D]. `curves`
    [B, C, 2] make alpha_bar and beta_bar of the expected values, [B, K, 2] has alpha and beta by place; alpha_bar
    counts as `least` or more per round. A step is `rate` times the mean gradient.
    """
    expectations, by_place = curves
    _, _, sums, starts, lengths, _ = memory
    for b in range(len(theta)):
        weight = by_place[b, :, 0] + by_place[b, :, 1]
        for step in range(entries.shape[1]):
            slope = np.zeros(theta.shape[1])
            for entry in entries[b, step]:
                start, documents = starts[b, entry], lengths[b, entry]
                first, length = np.full(1, start, np.int64), np.full(1, documents, np.int64)
                scores, reward = np.zeros((1, 1, documents)), np.empty(documents)
                updates.linear(theta[b].reshape(1, 1, -1), table, first, length, scores)
                for d in range(documents):
                    clicks, served, alpha, beta = sums[b, start + d, 0], sums[b, start + d, 1], 0.0, 0.0
                    for c in range(expectations.shape[1]):
                        alpha += sums[b, start + d, 2 + c] * expectations[b, c, 0]
                        beta += sums[b, start + d, 2 + c] * expectations[b, c, 1]
                    reward[d] = (clicks - beta) / max(alpha, served * least)
                pull = gradient(shares(scores[0, 0]), clocks[b, step], reward, weight)
                updates.add_rows(slope, table, start + np.arange(documents), pull)
            for f in range(theta.shape[1]):
                theta[b, f] += rate * slope[f] / entries.shape[2]


@compiled
def remember(b, memory, scores, chance, start, ranking, clicks):
    """Add a round to `memory`, the state of `EstimatedRewards`: the values by place [K, C] and the number S of lists of
    alpha_bar; per document row clicks, rounds and expected values, sums [B, N, 2 + C]; and first row and length of the
    query of every round, [B, rounds], and their number [B]. `chance` [>= S D] are uniform numbers."""
    values, lists, sums, starts, lengths, count = memory
    clocks = np.empty((lists, len(scores)))
    for d in range(len(scores)):
        for s in range(lists):
            clocks[s, d] = -np.log(chance[d * lists + s])
    mean = expected(shares(scores), clocks, values)
    for d in range(len(scores)):
        sums[b, start + d, 1] += 1
        for c in range(values.shape[1]):
            sums[b, start + d, 2 + c] += mean[d, c]
    for place in range(len(ranking)):
        sums[b, start + ranking[place], 0] += clicks[place]
    starts[b, count[b]], lengths[b, count[b]] = start, len(scores)
    count[b] += 1
