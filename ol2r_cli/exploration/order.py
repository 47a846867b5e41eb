"""Orders of documents by one key each: by score with random ties, epsilon-greedy, and Plackett-Luce.

Epsilon-greedy: PairRank, WWW 2021, section 5; Hofmann et al., Information Retrieval 2013. Plackett-Luce is the
exploration of PDGD (CIKM 2018, equation 1). loops/lists.py has the same for rounds that are played together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ol2r_cli import loops
from ol2r_cli.config.ranges import Share
from ol2r_cli.interfaces import (
    BY_SCORE,
    PLACKETT_LUCE,
    Candidates,
    Exploration,
    Interaction,
    Prediction,
    Proposal,
)
from ol2r_cli.tensor.gather import cached_arange
from ol2r_cli.tensor.shapes import Bool, Float, Int
from ol2r_cli.tensor.streams import Random

LEAST = torch.finfo(torch.float64).min
TINY = 2.0**-1000  # a key of its bits and random ones is a normal number, which no process takes as 0
CHANCE = 1 << 29  # the last 29 bits of a float64 are beyond the precision of float32


class NoExploration(Exploration):
    """Sorts documents by the mean score of the ranker's members, with equal scores in random order."""

    offers = frozenset({BY_SCORE})

    def for_loops(self) -> Any:
        return loops.play.Strategy(loops.play.BY_SCORE)

    def stages(self) -> Any:
        return stages_of(loops.explorations.sorts, loops.explorations.NoState(self.none))

    def propose(self, prediction: Prediction, candidates: Candidates, random: Random) -> Proposal:
        scores = mean_of_members(prediction)
        return Proposal(best(sortable(scores[:, None], candidates.mask, random)[:, 0], self.ranking_depth), scores)


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
        return loops.play.Strategy(loops.play.EPSILON_GREEDY, float(self.epsilon))

    def stages(self) -> Any:
        epsilon = torch.full_like(self.none, self.epsilon)
        return stages_of(loops.explorations.fills_some_places_at_random, loops.explorations.Epsilon(epsilon))

    def propose(self, prediction: Prediction, candidates: Candidates, random: Random) -> Proposal:
        """Merge two queues, by score and at random; a coin decides for every place which queue fills it."""
        scores, mask = mean_of_members(prediction), candidates.mask
        documents = mask.shape[1]
        chance = random.uniform(documents, "document").masked_fill(~mask, LEAST)
        keys = torch.stack([sortable(scores[:, None], mask, random)[:, 0], chance], dim=1)
        coins = random.uniform(min(self.ranking_depth, documents), "coin") < self.epsilon
        return Proposal(take_turns(keys, coins.long()), scores)

    def list_probability(self, interaction: Interaction) -> Float[Tensor, "B"]:
        """Return the product of epsilon / n + (1 - epsilon) / m, the latter for the m best of the n documents left."""
        scores = interaction.proposal.scores.double()
        level = (scores + TINY).view(torch.int64) // CHANCE  # the same for scores that are equal to `sortable`

        def chances(left: Bool[Tensor, "B D"]) -> Float[Tensor, "B D"]:
            first = scores.masked_fill(~left, -torch.inf).argmax(1, keepdim=True)
            equal = left & (level == level.gather(1, first))
            return self.epsilon * left / left.sum(1, keepdim=True) + (1 - self.epsilon) * equal / equal.sum(1, True)

        return _product(interaction, chances)


class PlackettLuce(Exploration):
    """Draws for each place one of the remaining documents with probability proportional to e^score.

    Exponential clocks with rates e^score ring in an order of exactly this distribution, so one draw gives the whole
    list. The score is the mean of the ranker's members.
    """

    offers = frozenset({PLACKETT_LUCE})

    def for_loops(self) -> Any:
        return loops.play.Strategy(loops.play.PLACKETT_LUCE)

    def stages(self) -> Any:
        return stages_of(loops.explorations.draws, loops.explorations.NoState(self.none))

    def propose(self, prediction: Prediction, candidates: Candidates, random: Random) -> Proposal:
        scores = mean_of_members(prediction)
        sooner = scores.double() - random.exponential(scores.shape[1]).log()
        return Proposal(best(sooner.masked_fill(~candidates.mask, LEAST), self.ranking_depth), scores)

    def list_probability(self, interaction: Interaction) -> Float[Tensor, "B"]:
        """Return the product of e^score over the sum of those that are left."""
        scores = interaction.proposal.scores.double()
        return _product(interaction, lambda left: scores.masked_fill(~left, -torch.inf).softmax(1))


def stages_of(arrange: Any, state: Any) -> Any:
    """Return the stages of an exploration that remembers nothing."""
    return loops.rounds.ExplorationStages(arrange, state, loops.rounds.nothing_to_remember)


def _product(interaction: Interaction, chances: Callable[[Tensor], Tensor]) -> Float[Tensor, "B"]:
    """The probability of the shown list: `chances` are those of documents to come next, given which are left [B D]."""
    left, probability = interaction.candidates.mask.clone(), torch.ones_like(interaction.proposal.scores[:, 0]).double()
    for document, shown in zip(interaction.ranking.split(1, 1), interaction.shown.unbind(1), strict=True):
        probability *= torch.where(shown, chances(left).gather(1, document)[:, 0], 1)
        left.scatter_(1, document, False)
    return probability


def sortable(scores: Float[Tensor, "B N D"], mask: Bool[Tensor, "B D"], random: Random) -> Float[Tensor, "B N D"]:
    """Return the scores in float64, made distinct, so that sorting them breaks ties at random.

    The last 29 of 52 bits become random, the same for all members. Scores that agree in the other bits, or in float32,
    are in random order. Padding gets `LEAST`, the lowest score of all.
    """
    chance = (random.uniform(scores.shape[2]) * -CHANCE).long()[:, None]  # 0 or negative
    bits = (scores.double() + TINY).view(torch.int64) | (CHANCE - 1)  # 0.0 and -0.0 become TINY
    bits += torch.where(bits < 0, 1 - CHANCE - chance, chance)  # for negative scores, larger bits are lower scores
    return bits.view(torch.float64).masked_fill_(~mask[:, None], LEAST)


def best(scores: Float[Tensor, "*B D"], count: int) -> Int[Tensor, "*B O"]:
    """Return the min(count, D) documents with the highest scores, which must be distinct; best first."""
    return scores.topk(min(count, scores.shape[-1]), dim=-1).indices


def mean_of_members(prediction: Prediction) -> Float[Tensor, "B D"]:
    """Return the mean score of the ranker's members."""
    scores = prediction.scores
    return scores.mean(1) if scores.shape[1] > 1 else scores[:, 0]


def take_turns(keys: Float[Tensor, "B N D"], turns: Int[Tensor, "B O"]) -> Int[Tensor, "B O"]:
    """Return a list in which each place is filled from the queue whose turn it is, by its first unplaced document.

    Queue n has the documents in descending order of keys[b, n].
    """
    replica, left, placed = cached_arange(len(keys), keys.device), keys.clone(), []
    for turn in turns.unbind(1):
        document = left[replica, turn].argmax(1, keepdim=True)
        placed.append(document)
        left.scatter_(2, document[:, None].expand(-1, keys.shape[1], -1), float("-inf"))
    return torch.cat(placed, 1)


def completed(first: Int[Tensor, "B K"], scores: Float[Tensor, "B D"], count: int) -> Int[Tensor, "B O"]:
    """Return an order of `count` places: the `first` documents, then the others by score."""
    if count <= first.shape[1]:
        return first
    above_all = (first.shape[1] - cached_arange(first.shape[1], first.device)).double() * 1e300
    return best(scores.scatter(1, first, above_all.expand(first.shape)), count)
