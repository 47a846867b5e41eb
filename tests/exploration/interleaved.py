"""Lists of several members by the plain ports, on the numbers of a round, and what clicks on them are worth."""

from __future__ import annotations

from tests.reference import interleaving

CIRCLES = 15  # at least as many as any list has places


def by_team_draft(random, b, rankings, positions):
    """The list of replica b, and a function of its clicks that gives the credit of each member."""
    count = len(rankings)
    turns = random.uniform(CIRCLES * count, "turns")[b].view(CIRCLES, count).argsort(1).flatten().tolist()
    listed, authors = interleaving.team_draft(rankings, turns, positions)
    return listed, lambda clicks: interleaving.credit_team_draft(authors, clicks, count)


def by_chance(random, b, rankings, positions):
    """The same of probabilistic interleaving."""
    authors = (random.uniform(positions, "author")[b] * len(rankings)).int().tolist()
    listed = interleaving.probabilistic(rankings, authors, random.uniform(positions, "document")[b].tolist(), positions)
    return listed, lambda clicks: interleaving.credit_probabilistic(rankings, listed, clicks)
