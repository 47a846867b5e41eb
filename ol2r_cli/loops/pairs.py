"""From the clicks on one list to its pairs (PairRank, WWW 2021, section 3.2.1): clicked documents beat examined ones
without a click. learning/preferences.py explains the choices."""

from __future__ import annotations

from ol2r_cli.loops.compile import compiled
from ol2r_cli.loops.lanes import barrier, lane
from ol2r_cli.loops.orders import ascending
from ol2r_cli.loops.random_numbers import PAIRS, drawn
from ol2r_cli.loops.workspace import mark, release, take_integers


@compiled
def examined(clicks):
    """Return how many places are examined: down to the first one after the last click; 0 without a click."""
    for place in range(len(clicks) - 1, -1, -1):
        if clicks[place]:
            return min(place + 2, len(clicks))
    return 0


@compiled
def no_pairs(b, space, round):
    """Find no pairs, for rankers that do not learn from them."""


@compiled
def all_pairs(b, space, round):
    """Find every clicked document against every examined one without a click."""
    if lane() == 0:
        pair, end = 0, examined(round.clicks)
        for above in range(end):
            if round.clicks[above]:
                for below in range(end):
                    if not round.clicks[below]:
                        round.winners[pair], round.losers[pair] = round.ranking[above], round.ranking[below]
                        pair += 1
        round.found[0] = pair
    barrier()


@compiled
def matched_pairs(b, space, round):
    """Find winners and losers that are matched one to one: both in a random order."""
    before = mark(space)
    end = examined(round.clicks)
    chance = drawn(space, round.seed, PAIRS, round.t, end)
    order = take_integers(space, end)
    ascending(chance[:end], order)
    if lane() == 0:
        won, lost = 0, 0
        for place in order:
            if round.clicks[place]:
                if won < len(round.winners):
                    round.winners[won] = round.ranking[place]
                won += 1
            else:
                if lost < len(round.losers):
                    round.losers[lost] = round.ranking[place]
                lost += 1
        round.found[0] = min(won, lost)
    barrier()
    release(space, before)


@compiled
def adjacent_pairs(b, space, round):
    """Find the places (1, 2), (3, 4), .. of which exactly one was clicked."""
    clicks = round.clicks
    if lane() == 0:
        pair, end = 0, examined(clicks)
        for upper in range(0, end - 1, 2):
            if clicks[upper] != clicks[upper + 1]:
                winner, loser = (upper, upper + 1) if clicks[upper] else (upper + 1, upper)
                round.winners[pair], round.losers[pair] = round.ranking[winner], round.ranking[loser]
                pair += 1
        round.found[0] = pair
    barrier()
