"""No exploration: serve the order of the ranker's scores."""

from __future__ import annotations

from ol2r_cli.exploration.order import best, sortable
from ol2r_cli.interfaces import BY_SCORE, Candidates, Exploration, Prediction, Proposal
from ol2r_cli.tensor.streams import Random


class NoExploration(Exploration):
    """Sorts documents by the mean score of the ranker's members, with equal scores in random order."""

    offers = frozenset({BY_SCORE})

    def propose(self, prediction: Prediction, candidates: Candidates, random: Random) -> Proposal:
        """Sort by score."""
        scores = prediction.scores.mean(1)
        return Proposal(best(sortable(scores[:, None], candidates.mask, random)[:, 0], self.ranking_depth), scores)
