"""From the clicks on one list to its pairs (PairRank, WWW 2021, section 3.2.1): clicked documents beat examined ones
without a click. learning/preferences.py explains the choices."""

from __future__ import annotations

from ol2r_cli.loops.compile import compiled
from ol2r_cli.loops.lanes import barrier, lane
from ol2r_cli.loops.orders import ascending
from ol2r_cli.loops.random_numbers import PAIRS, in_fours, uniform
from ol2r_cli.loops.workspace import mark, release, take, take_integers


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
    every_pair(round.ranking, round.clicks, round.winners, round.losers, round.found)


@compiled
def matched_pairs(b, space, round):
    """Find winners and losers that are matched one to one at random."""
    before = mark(space)
    chance = take(space, in_fours(len(round.clicks)))
    uniform(round.seed, PAIRS, round.t, chance)
    matching(round.ranking, round.clicks, chance, round.winners, round.losers, round.found, space)
    release(space, before)


@compiled
def adjacent_pairs(b, space, round):
    """Find the places (1, 2), (3, 4), .. of which exactly one was clicked."""
    adjacent(round.ranking, round.clicks, round.winners, round.losers, round.found)


@compiled
def every_pair(ranking, clicks, winners, losers, found):
    """Write every clicked document against every examined one without a click, and their number `found` [1]."""
    if lane() == 0:
        pair, end = 0, examined(clicks)
        for above in range(end):
            if clicks[above]:
                for below in range(end):
                    if not clicks[below]:
                        winners[pair], losers[pair] = ranking[above], ranking[below]
                        pair += 1
        found[0] = pair
    barrier()


@compiled
def matching(ranking, clicks, chance, winners, losers, found, space):
    """Write winners and losers matched one to one at random, both in the order of chance [K], and their number."""
    before = mark(space)
    end = examined(clicks)
    order = take_integers(space, end)
    ascending(chance[:end], order)
    if lane() == 0:
        won, lost = 0, 0
        for place in order:
            if clicks[place]:
                if won < len(winners):
                    winners[won] = ranking[place]
                won += 1
            else:
                if lost < len(losers):
                    losers[lost] = ranking[place]
                lost += 1
        found[0] = min(won, lost)
    barrier()
    release(space, before)


@compiled
def adjacent(ranking, clicks, winners, losers, found):
    """Write the places (1, 2), (3, 4), .. of which exactly one was clicked, and the number of pairs."""
    if lane() == 0:
        pair, end = 0, examined(clicks)
        for upper in range(0, end - 1, 2):
            if clicks[upper] != clicks[upper + 1]:
                winner, loser = (upper, upper + 1) if clicks[upper] else (upper + 1, upper)
                winners[pair], losers[pair] = ranking[winner], ranking[loser]
                pair += 1
        found[0] = pair
    barrier()
