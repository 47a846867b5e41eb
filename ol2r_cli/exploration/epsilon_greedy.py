"""Epsilon-greedy: at every place a random document or the best one (PairRank, WWW 2021, section 5; Hofmann et al.,
Information Retrieval 2013)."""

from __future__ import annotations

import torch

from ol2r_cli.config.ranges import Share
from ol2r_cli.exploration.order import LEAST, best, sortable, take_turns, take_turns_in_step
from ol2r_cli.interfaces import Candidates, Exploration, Prediction, Proposal
from ol2r_cli.tensor.streams import Random
from ol2r_cli.tensor.synchronisation import is_host_readable


class EpsilonGreedy(Exploration):
    """Fills each place with probability `epsilon` by a uniformly random document that is not yet placed, otherwise by
    the best of these by the mean score of the ranker's members.

    All random choices come from one random permutation of the query. What is left of it is in uniformly random order,
    whichever documents have been placed.
    """

    def __init__(self, epsilon: Share):
        super().__init__()
        self.epsilon = epsilon

    def propose(self, prediction: Prediction, candidates: Candidates, random: Random) -> Proposal:
        """Merge two queues, by score and at random; a coin decides for every place which queue fills it."""
        scores, mask = prediction.scores.mean(1), candidates.mask
        documents = mask.shape[1]
        chance = random.uniform(documents, "document").masked_fill(~mask, LEAST)
        keys = torch.stack([sortable(scores[:, None], mask, random)[:, 0], chance], dim=1)
        coins = random.uniform(min(self.ranking_depth, documents), "coin") < self.epsilon
        if not is_host_readable(coins):
            return Proposal(take_turns_in_step(keys, coins.long()), scores)
        queues = best(keys, self.ranking_depth).tolist()
        lists = [take_turns(*replica) for replica in zip(queues, coins.tolist(), strict=True)]
        return Proposal(torch.tensor(lists, device=mask.device), scores)
