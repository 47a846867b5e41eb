"""No exploration: serve what the ranker thinks best."""

from __future__ import annotations

from ol2r_cli.exploration.order import best, sortable
from ol2r_cli.interfaces import BY_SCORE, Belief, Candidates, Draft, Exploration
from ol2r_cli.random import Random


class NoExploration(Exploration):
    """Documents by the mean score of the ranker's members; equal scores in random order."""

    offers = frozenset({BY_SCORE})

    def propose(self, belief: Belief, candidates: Candidates, random: Random) -> Draft:
        """Sort by score."""
        scores = belief.scores.mean(1)
        return Draft(best(sortable(scores[:, None], candidates.mask, random)[:, 0], self.ordered), scores)
