"""No exploration: serve the order of the ranker's scores."""

from __future__ import annotations

from typing import Any

import torch

from ol2r_cli import loops
from ol2r_cli.exploration.order import best, empty_order, mean_of_members, sortable
from ol2r_cli.interfaces import BY_SCORE, Candidates, Exploration, Prediction, Proposal
from ol2r_cli.tensor.streams import Random


class NoExploration(Exploration):
    """Sorts documents by the mean score of the ranker's members, with equal scores in random order."""

    offers = frozenset({BY_SCORE})

    def for_loops(self) -> Any:
        """The exploration for rounds that are played together."""
        return loops.play.Strategy(loops.play.BY_SCORE)

    def propose(self, prediction: Prediction, candidates: Candidates, random: Random) -> Proposal:
        """Sort by score."""
        scores = mean_of_members(prediction)
        if candidates.rows is not None:
            order, chance = empty_order(scores, self.ranking_depth), random.array(scores.shape[1])
            loops.orders.by_score(scores.numpy(), chance, candidates.rows.length, order)
            return Proposal(torch.from_numpy(order), scores)
        return Proposal(best(sortable(scores[:, None], candidates.mask, random)[:, 0], self.ranking_depth), scores)
