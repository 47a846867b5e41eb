"""Interleaving and multileaving of the lists of a ranker's members.

Team draft: Radlinski et al., CIKM 2008; Schuth et al., CIKM 2014. Probabilistic: Hofmann et al., CIKM 2011; Schuth et
al., SIGIR 2015. loops/orders.py has the same for rounds that are played together.
"""

from __future__ import annotations

from typing import Any

import torch

from ol2r_cli.config.ranges import Positive
from ol2r_cli.exploration.interleaving import interleaving_loops
from ol2r_cli.exploration.order import arranged, stages_of
from ol2r_cli.interfaces import CREDIT, MEMBERS, Candidates, Exploration, Need, Prediction, Proposal
from ol2r_cli.tensor.streams import Random


class Interleaving(Exploration):
    """Merges the lists of several members and states whose choice each document was."""

    offers = frozenset({CREDIT})
    needs = (Need(MEMBERS, "ranker=dbgd or ranker=mgd"),)

    def arrange(self) -> Any:
        """Return the stages with the loop that interleaves the shown places."""
        raise NotImplementedError(f"{type(self).__name__} must define `arrange`, or `propose`")

    def propose(self, prediction: Prediction, candidates: Candidates, random: Random) -> Proposal:
        """Interleave the shown places by a loop; the others follow by the scores of the first member."""
        scores = prediction.scores.double().contiguous()
        credit = torch.zeros_like(scores)
        order = arranged(self.arrange(), scores, credit, candidates, random, self.positions, self.ranking_depth)
        return Proposal(order, prediction.scores[:, 0], credit=credit)


class TeamDraft(Interleaving):
    """The ranker's members take turns to place their best remaining document, in a new random order every cycle.

    The longest prefix on which all members agree comes first and gives credit to no member. The documents below the
    shown places follow in the order of the first member, also without credit.
    """

    def arrange(self) -> Any:
        arrange, room = interleaving_loops.interleaves_in_turns, interleaving_loops.room_of_turns
        return stages_of(arrange, self.none, room)

    def stages(self) -> Any:
        return self.arrange()


class ProbabilisticInterleaving(Interleaving):
    """Fills each place by a uniformly drawn member, which draws among the remaining documents with probability
    proportional to 1 / rank^`tau`, where rank is that of its own ranking.

    Credit is the expectation over all assignments of places to members that could have led to the list: a member's
    share in a document is its probability of drawing the document at that place, divided by the sum over members.
    """

    def __init__(self, tau: Positive):
        super().__init__()
        self.tau = tau

    def arrange(self) -> Any:
        tau = torch.full_like(self.none, self.tau)
        arrange, room = interleaving_loops.interleaves_by_rank, interleaving_loops.room_of_ranks
        return stages_of(arrange, tau, room)

    def stages(self) -> Any:
        return self.arrange()
