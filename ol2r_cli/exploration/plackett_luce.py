"""Lists drawn from the Plackett-Luce model of the scores: the exploration of PDGD (CIKM 2018, equation 1)."""

from __future__ import annotations

from typing import Any

import torch

from ol2r_cli import loops
from ol2r_cli.exploration.order import LEAST, best, empty_order, mean_of_members
from ol2r_cli.interfaces import PLACKETT_LUCE, Candidates, Exploration, Prediction, Proposal
from ol2r_cli.tensor.streams import Random


class PlackettLuce(Exploration):
    """Draws for each place one of the remaining documents with probability proportional to e^score.

    Exponential clocks with rates e^score ring in an order of exactly this distribution, so one draw gives the whole
    list. The score is the mean of the ranker's members.
    """

    offers = frozenset({PLACKETT_LUCE})

    def for_loops(self) -> Any:
        """The exploration for rounds that are played together."""
        return loops.play.Strategy(loops.play.PLACKETT_LUCE)

    def propose(self, prediction: Prediction, candidates: Candidates, random: Random) -> Proposal:
        """Sort documents by the ringing times of their clocks. Padding never rings."""
        scores = mean_of_members(prediction)
        if candidates.rows is not None:
            order, chance = empty_order(scores, self.ranking_depth), random.array(scores.shape[1])
            loops.orders.plackett_luce(scores.numpy(), chance, candidates.rows.length, order)
            return Proposal(torch.from_numpy(order), scores)
        sooner = scores.double() - random.exponential(scores.shape[1]).log()
        return Proposal(best(sooner.masked_fill(~candidates.mask, LEAST), self.ranking_depth), scores)
