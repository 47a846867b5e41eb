"""No exploration: serve what the ranker thinks best."""

from __future__ import annotations

from ol2r_cli.interfaces import Belief, Candidates, Draft, Exploration
from ol2r_cli.random import Random


class NoExploration(Exploration):
    """Documents by the mean score of the ranker's members; equal scores in random order."""

    def propose(self, belief: Belief, candidates: Candidates, random: Random) -> Draft:
        """Sort by score."""
        scores = belief.scores.mean(1)
        shuffled = random.uniform(scores.shape[1]).argsort(1)
        sinking = scores.masked_fill(~candidates.mask, float("-inf")).gather(1, shuffled)
        order = shuffled.gather(1, sinking.argsort(dim=1, descending=True, stable=True))
        return Draft(order, scores)
