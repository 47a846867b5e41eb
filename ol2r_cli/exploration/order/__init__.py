"""Orders of documents by one key each: by score with random ties, epsilon-greedy, and Plackett-Luce.

Epsilon-greedy: PairRank, WWW 2021, section 5; Hofmann et al., Information Retrieval 2013. Plackett-Luce is the
exploration of PDGD (CIKM 2018, equation 1). The loops are in loops/orders.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ol2r_cli import loops
from ol2r_cli.config.ranges import Share
from ol2r_cli.exploration.order import order_loops
from ol2r_cli.interfaces import (
    BY_SCORE,
    PLACKETT_LUCE,
    Candidates,
    Exploration,
    Interaction,
    Prediction,
    Proposal,
)
from ol2r_cli.tensor.shapes import Bool, Float, Int
from ol2r_cli.tensor.streams import Random

TINY = 2.0**-1000  # a key of its bits and random ones is a normal number, which no process takes as 0
CHANCE = 1 << 29  # the last 29 bits of a float64 are beyond the precision of float32


class Ordered(Exploration):
    """Orders documents by the mean score of the ranker's members."""

    def arrange(self) -> Any:
        """Return the stages with the loop that arranges a list."""
        raise NotImplementedError(f"{type(self).__name__} must define `arrange`, or `propose`")

    def propose(self, prediction: Prediction, candidates: Candidates, random: Random) -> Proposal:
        """Return the order that a loop arranges."""
        scores = mean_of_members(prediction)
        members, places = scores[:, None].double().contiguous(), self.ranking_depth
        order = arranged(self.arrange(), members, members[:, :0], candidates, random, places, places)
        return Proposal(order, scores)


def arranged(
    stages: Any,
    scores: Float[Tensor, "B N D"],
    credit: Float[Tensor, "B M D"],
    candidates: Candidates,
    random: Random,
    places: int,
    depth: int,
) -> Int[Tensor, "B O"]:
    """Return the min(depth, D) first documents, padding last: the first `places` by the stages of an exploration, which
    write the members' credit, the others by the first member's scores."""
    replicas, members, documents = scores.shape
    order = torch.empty(replicas, min(depth, documents), dtype=torch.int64, device=scores.device)
    lists = scores, candidates.mask.contiguous(), stages.state, order, credit
    room = stages.room(loops.rounds.Sizes(places, members, 0), documents)
    room += members * (documents + places) + 4 * (documents + 1)
    loops.launch.launch(loops.single.lists_of(stages.arrange), replicas, room, random.draw(), places, *lists)
    return order


def by_score(scores: Float[Tensor, "B D"], candidates: Candidates, random: Random, places: int) -> Int[Tensor, "B O"]:
    """Return the min(places, D) first documents by score, equal ones in random order, padding last."""
    replicas, documents = scores.shape
    order = torch.empty(replicas, min(places, documents), dtype=torch.int64, device=scores.device)
    lists = scores.double().contiguous(), candidates.mask.contiguous(), order
    loops.launch.launch(loops.single.sort, replicas, 2 * documents + 8, random.draw(), *lists)
    return order


class NoExploration(Ordered):
    """Sorts documents by the mean score of the ranker's members, with equal scores in random order."""

    offers = frozenset({BY_SCORE})

    def arrange(self) -> Any:
        arrange, room = order_loops.sorts, order_loops.room_of_order
        return stages_of(arrange, self.none, room)

    def stages(self) -> Any:
        return self.arrange()


class EpsilonGreedy(Ordered):
    """Fills each place with probability `epsilon` by a uniformly random document that is not yet placed, otherwise by
    the best of these by the mean score of the ranker's members.

    All random choices come from one random permutation of the query. What is left of it is in uniformly random order,
    whichever documents have been placed.
    """

    def __init__(self, epsilon: Share):
        super().__init__()
        self.epsilon = epsilon

    def arrange(self) -> Any:
        epsilon = torch.full_like(self.none, self.epsilon)
        arrange, room = order_loops.fills_some_places_at_random, order_loops.room_of_two_orders
        return stages_of(arrange, epsilon, room)

    def stages(self) -> Any:
        return self.arrange()

    def list_probability(self, interaction: Interaction) -> Float[Tensor, "B"]:
        """Return the product of epsilon / n + (1 - epsilon) / m, the latter for the m best of the n documents left."""
        scores = interaction.proposal.scores.double()
        level = (scores + TINY).view(torch.int64) // CHANCE  # the same for scores that are equal to `sortable`

        def chances(left: Bool[Tensor, "B D"]) -> Float[Tensor, "B D"]:
            first = scores.masked_fill(~left, -torch.inf).argmax(1, keepdim=True)
            equal = left & (level == level.gather(1, first))
            return self.epsilon * left / left.sum(1, keepdim=True) + (1 - self.epsilon) * equal / equal.sum(1, True)

        return _product(interaction, chances)


class PlackettLuce(Ordered):
    """Draws for each place one of the remaining documents with probability proportional to e^score.

    Exponential clocks with rates e^score ring in an order of exactly this distribution, so one draw gives the whole
    list. The score is the mean of the ranker's members.
    """

    offers = frozenset({PLACKETT_LUCE})

    def arrange(self) -> Any:
        arrange, room = order_loops.draws, order_loops.room_of_order
        return stages_of(arrange, self.none, room)

    def stages(self) -> Any:
        return self.arrange()

    def list_probability(self, interaction: Interaction) -> Float[Tensor, "B"]:
        """Return the product of e^score over the sum of those that are left."""
        scores = interaction.proposal.scores.double()
        return _product(interaction, lambda left: scores.masked_fill(~left, -torch.inf).softmax(1))


def stages_of(arrange: Any, state: Any, room: Any) -> Any:
    """Return the stages of an exploration that remembers nothing."""
    return loops.rounds.ExplorationStages(arrange, state, loops.rounds.nothing_to_remember, room)


def _product(interaction: Interaction, chances: Callable[[Tensor], Tensor]) -> Float[Tensor, "B"]:
    """Return the probability of the shown list: `chances` are those of documents to come next, given which are left [B
    D]."""
    left, probability = interaction.candidates.mask.clone(), torch.ones_like(interaction.proposal.scores[:, 0]).double()
    for document, shown in zip(interaction.ranking.split(1, 1), interaction.shown.unbind(1), strict=True):
        probability *= torch.where(shown, chances(left).gather(1, document)[:, 0], 1)
        left.scatter_(1, document, False)
    return probability


def mean_of_members(prediction: Prediction) -> Float[Tensor, "B D"]:
    """Return the mean score of the ranker's members."""
    scores = prediction.scores
    return scores.mean(1) if scores.shape[1] > 1 else scores[:, 0]
