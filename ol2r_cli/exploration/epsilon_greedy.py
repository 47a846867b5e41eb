"""Epsilon-greedy: at every place a random document or the best one (PairRank, WWW 2021, section 5; Hofmann et al.,
Information Retrieval 2013)."""

from __future__ import annotations

from typing import Any

import torch

from ol2r_cli import loops
from ol2r_cli.config.ranges import Share
from ol2r_cli.exploration.order import LEAST, empty_order, mean_of_members, sortable, take_turns_in_step
from ol2r_cli.interfaces import Candidates, Exploration, Prediction, Proposal
from ol2r_cli.tensor.streams import Random


class EpsilonGreedy(Exploration):
    """Fills each place with probability `epsilon` by a uniformly random document that is not yet placed, otherwise by
    the best of these by the mean score of the ranker's members.

    All random choices come from one random permutation of the query. What is left of it is in uniformly random order,
    whichever documents have been placed.
    """

    def __init__(self, epsilon: Share):
        super().__init__()
        self.epsilon = epsilon

    def for_loops(self) -> Any:
        """The exploration for rounds that are played together."""
        return loops.play.Strategy(loops.play.EPSILON_GREEDY, float(self.epsilon))

    def propose(self, prediction: Prediction, candidates: Candidates, random: Random) -> Proposal:
        """Merge two queues, by score and at random; a coin decides for every place which queue fills it."""
        scores, mask = mean_of_members(prediction), candidates.mask
        documents = mask.shape[1]
        if candidates.rows is not None:
            order = empty_order(scores, self.ranking_depth)
            drawn = random.array(documents), random.array(documents, "document")
            explored = random.array(order.shape[1], "coin") < self.epsilon
            loops.orders.epsilon_greedy(scores.numpy(), *drawn, explored, candidates.rows.length, order)
            return Proposal(torch.from_numpy(order), scores)
        chance = random.uniform(documents, "document").masked_fill(~mask, LEAST)
        keys = torch.stack([sortable(scores[:, None], mask, random)[:, 0], chance], dim=1)
        coins = random.uniform(min(self.ranking_depth, documents), "coin") < self.epsilon
        return Proposal(take_turns_in_step(keys, coins.long()), scores)
