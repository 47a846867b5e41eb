"""The stages of Thompson sampling in the position-based model."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from ol2r_cli.loops.compile import compiled
from ol2r_cli.loops.lanes import barrier, lane, lanes
from ol2r_cli.loops.random_numbers import JUDGE, drawn
from ol2r_cli.loops.workspace import mark, release

_OF_GAMMA = 9  # uniform numbers that a gamma variate takes: four attempts, and one for a shape below 1
OF_DOCUMENT = 2 * _OF_GAMMA


class Beliefs(NamedTuple):
    """What the ranker knows: clicks [B, N] on each document, and the expected number of times that it was examined.

    `examination` [K] is by rank. A document whose feature number `rank_feature` (from 0; -1: none) is r had
    `prior_clicks`[r - 1] clicks of `prior_views`[r - 1] examinations before the first round; the last of them count
    for all ranks below.
    """

    clicks: Any
    examined: Any
    examination: Any
    prior_clicks: Any
    prior_views: Any
    rank_feature: Any


@compiled
def scores_by_thompson(b, space, round, queries, beliefs):
    """Score each document by an attraction drawn from what is known of it."""
    draws_attractions(b, space, round.seed, JUDGE, round.t, queries.table, round.start, round.scores[0], beliefs)


@compiled
def draws_for_lists(b, space, of, table, start, length, beliefs, scores):
    """Do what `scores_by_thompson` does in a single round: scores [B, D]."""
    draws_attractions(b, space, of.seeds[b], of.stream, of.t, table, start[b], scores[b, : length[b]], beliefs)


@compiled
def draws_attractions(b, space, seed, stream, t, table, start, scores, beliefs):
    """Write a number from the Beta distribution of each document's attraction to scores [d]."""
    before = mark(space)
    chance = drawn(space, seed, stream, t, OF_DOCUMENT * len(scores))
    last = len(beliefs.prior_clicks) - 1
    for d in range(lane(), len(scores), lanes()):
        row = start + d
        rank = 0
        if beliefs.rank_feature >= 0:
            rank = min(max(int(table[row, beliefs.rank_feature]) - 1, 0), last)
        clicks, seen = beliefs.clicks[b, row], beliefs.examined[b, row]
        shown = beliefs.prior_clicks[rank] + clicks
        hidden = beliefs.prior_views[rank] - beliefs.prior_clicks[rank] + max(seen - clicks, 0.0)
        first = OF_DOCUMENT * d
        of_clicks = gamma(shown, chance, first)
        of_others = gamma(hidden, chance, first + _OF_GAMMA)
        total = of_clicks + of_others
        scores[d] = of_clicks / total if total > 0 else shown / (shown + hidden)
    barrier()
    release(space, before)


@compiled
def gamma(shape, chance, first):
    """Return a gamma variate by uniform numbers chance[first], ..

    Marsaglia and Tsang, "A simple method for generating gamma variables" (ACM TOMS 2000), of which a proposal is
    accepted with probability above 0.95; the fourth one is taken in any case. Normal numbers are by Box and Muller.
    """
    raised = shape + 1 if shape < 1 else shape
    d = raised - 1.0 / 3
    c = 1 / math.sqrt(9 * d)
    found = d
    for attempt in range(4):
        pair = first + 4 * (attempt // 2)
        length, angle = math.sqrt(-2 * math.log(chance[pair])), 2 * math.pi * chance[pair + 1]
        x = length * (math.cos(angle) if attempt % 2 == 0 else math.sin(angle))
        v = 1 + c * x
        if v <= 0:
            continue
        v = v * v * v
        found = d * v
        if math.log(chance[pair + 2 + attempt % 2]) < 0.5 * x * x + d - d * v + d * math.log(v):
            break
    if shape < 1:
        found *= chance[first + 8] ** (1 / shape)
    return found


@compiled
def learns_by_thompson(b, space, round, queries, beliefs):
    """Count the clicks on the shown documents, and how often they are examined in expectation."""
    for place in range(lane(), len(round.ranking), lanes()):
        row = round.start + round.ranking[place]
        beliefs.clicks[b, row] += round.clicks[place]
        beliefs.examined[b, row] += beliefs.examination[place]
    barrier()
