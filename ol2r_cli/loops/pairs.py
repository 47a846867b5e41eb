"""From clicks to preferences, place by place. learning/preferences.py has them as tensors."""

from __future__ import annotations

import numpy as np

from ol2r_cli.loops.compile import compiled


@compiled
def examined(clicks, shown):
    """Return how many places are examined: down to the first one after the last click; 0 without a click."""
    for place in range(len(clicks) - 1, -1, -1):
        if clicks[place]:
            return place + 2 if place + 1 < len(clicks) and shown[place + 1] else place + 1
    return 0


@compiled
def every_pair(ranking, clicks, shown, winner, loser, valid):
    """Write every clicked document against every examined one without a click: winner, loser, valid [B, M]."""
    for b in range(len(clicks)):
        pair, end = 0, examined(clicks[b], shown[b])
        for above in range(end):
            if clicks[b, above]:
                for below in range(end):
                    if not clicks[b, below]:
                        winner[b, pair], loser[b, pair], valid[b, pair] = ranking[b, above], ranking[b, below], True
                        pair += 1
        _leave_out(winner[b], loser[b], valid[b], pair)


@compiled
def matching(ranking, clicks, shown, chance, winner, loser, valid):
    """Write winners and losers matched one to one at random: both in the order of chance [B, K]."""
    for b in range(len(clicks)):
        end = examined(clicks[b], shown[b])
        order = np.argsort(chance[b, :end])
        winners = losers = 0
        _leave_out(winner[b], loser[b], valid[b], 0)
        for place in order:
            if clicks[b, place]:
                if winners < winner.shape[1]:
                    winner[b, winners] = ranking[b, place]
                winners += 1
            else:
                if losers < loser.shape[1]:
                    loser[b, losers] = ranking[b, place]
                losers += 1
        valid[b, : min(winners, losers)] = True


@compiled
def adjacent(ranking, clicks, shown, winner, loser, valid):
    """Write the places (1, 2), (3, 4), .. of which exactly one was clicked."""
    for b in range(len(clicks)):
        end = examined(clicks[b], shown[b])
        for pair in range(winner.shape[1]):
            upper, lower = ranking[b, 2 * pair], ranking[b, 2 * pair + 1]
            valid[b, pair] = 2 * pair + 1 < end and clicks[b, 2 * pair] != clicks[b, 2 * pair + 1]
            swapped = valid[b, pair] and clicks[b, 2 * pair + 1]
            winner[b, pair], loser[b, pair] = (lower, upper) if swapped else (upper, lower)


@compiled
def _leave_out(winner, loser, valid, pairs):
    """Let the pairs from number `pairs` on be none."""
    winner[pairs:], loser[pairs:], valid[pairs:] = 0, 0, False
