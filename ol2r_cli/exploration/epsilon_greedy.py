"""A coin for every place: a random document or the best one (PairRank, WWW 2021, section 5; Hofmann et al. 2013)."""

from __future__ import annotations

import torch

from ol2r_cli.exploration.order import LEAST, best, sortable, take_turns, take_turns_in_step
from ol2r_cli.host import on_host
from ol2r_cli.interfaces import Belief, Candidates, Draft, Exploration
from ol2r_cli.random import Random


class EpsilonGreedy(Exploration):
    """At each place, with probability `epsilon` in [0, 1] a uniformly random document that is not yet placed, else the
    best of them by the mean score of the ranker's members.

    The random choices are those of one random permutation of the query, its next document each time: what is left of
    it is in uniformly random order whatever has been placed.
    """

    def __init__(self, epsilon: float):
        super().__init__()
        if not 0 <= epsilon <= 1:
            raise ValueError(f"exploration.epsilon must be from 0 to 1, got {epsilon}")
        self.epsilon = epsilon

    def propose(self, belief: Belief, candidates: Candidates, random: Random) -> Draft:
        """Two queues, by score and at random, and a coin for every place that says which of them fills it."""
        scores, mask = belief.scores.mean(1), candidates.mask
        documents = mask.shape[1]
        chance = random.uniform(documents, "document").masked_fill(~mask, LEAST)
        keys = torch.stack([sortable(scores[:, None], mask, random)[:, 0], chance], dim=1)
        coins = random.uniform(min(self.ordered, documents), "coin") < self.epsilon
        if not on_host(coins):
            return Draft(take_turns_in_step(keys, coins.long()), scores)
        queues = best(keys, self.ordered).tolist()
        lists = [take_turns(*replica) for replica in zip(queues, coins.tolist(), strict=True)]
        return Draft(torch.tensor(lists, device=mask.device), scores)
