"""Interleaving and multileaving of the lists of a ranker's members.

Team draft: Radlinski et al., CIKM 2008; Schuth et al., CIKM 2014. Probabilistic: Hofmann et al., CIKM 2011; Schuth et
al., SIGIR 2015. loops/orders.py has the same for rounds that are played together.
"""

from __future__ import annotations

from typing import Any

import torch

from ol2r_cli import loops
from ol2r_cli.config.ranges import Positive
from ol2r_cli.exploration.order import best, completed, sortable, stages_of, take_turns
from ol2r_cli.interfaces import CREDIT, MEMBERS, Candidates, Exploration, Need, Prediction, Proposal
from ol2r_cli.tensor.gather import cached_arange
from ol2r_cli.tensor.streams import Random

PADDING = -1000.0  # log-weight of padding, below all documents: drawn only when no document is left


class Interleaving(Exploration):
    """Merges the lists of several members and states whose choice each document was."""

    offers = frozenset({CREDIT})
    needs = (Need(MEMBERS, "ranker=dbgd or ranker=mgd"),)


class TeamDraft(Interleaving):
    """The ranker's members take turns to place their best remaining document, in a new random order every cycle.

    The longest prefix on which all members agree comes first and gives credit to no member. The documents below the
    shown places follow in the order of the first member, also without credit.
    """

    def stages(self) -> Any:
        return stages_of(loops.explorations.interleaves_in_turns, loops.explorations.NoState(self.none))

    def propose(self, prediction: Prediction, candidates: Candidates, random: Random) -> Proposal:
        replicas, members, documents = prediction.scores.shape
        shown = min(self.positions, documents)
        cycles = -(-shown // members)
        scores = sortable(prediction.scores, candidates.mask, random)
        turns = random.uniform(cycles * members, "turns").view(replicas, cycles, members).argsort(2).flatten(1)
        rankings = best(scores, shown)
        agree = (rankings == rankings[:, :1]).all(1).cumprod(1)
        turn = turns.gather(1, (cached_arange(shown, turns.device) - agree.sum(1, keepdim=True)).clamp(min=0))
        first = take_turns(scores, turn)  # in the agreed prefix every member places the same document
        author = torch.where(agree > 0, members, turn)
        credit = scores.new_zeros(replicas, members + 1, documents)  # the additional row collects what has no author
        credit[cached_arange(replicas, turns.device)[:, None], author, first] = torch.ones_like(first).to(credit)
        order = completed(first, scores[:, 0], self.ranking_depth)
        return Proposal(order, prediction.scores[:, 0], credit=credit[:, :members])


class ProbabilisticInterleaving(Interleaving):
    """Fills each place by a uniformly drawn member, which draws among the remaining documents with probability
    proportional to 1 / rank^`tau`, where rank is that of its own ranking.

    Credit is the expectation over all assignments of places to members that could have led to the list: a member's
    share in a document is its probability of drawing the document at that place, divided by the sum over members.
    """

    def __init__(self, tau: Positive):
        super().__init__()
        self.tau = tau

    def stages(self) -> Any:
        tau = torch.full_like(self.none, self.tau)
        return stages_of(loops.explorations.interleaves_by_rank, loops.explorations.RankExponent(tau))

    def propose(self, prediction: Prediction, candidates: Candidates, random: Random) -> Proposal:
        """Draw place by place, because the remaining documents determine the probabilities."""
        replicas, members, documents = prediction.scores.shape
        shown = min(self.positions, documents)
        scores = sortable(prediction.scores, candidates.mask, random)
        rankings = best(scores, documents)
        ranks = cached_arange(documents, scores.device)
        rank_of = torch.empty_like(rankings).scatter_(2, rankings, ranks.expand_as(rankings))
        logit = -self.tau * (ranks + 1).double().log()
        logit = torch.where(candidates.mask, logit, logit[-1] + PADDING)  # padding is last in rankings as in the mask
        logits = logit[:, None].repeat(1, members, 1)  # by rank: members that rank a document alike have equal bits
        author = (random.uniform(shown, "author") * members).long()
        chance = random.uniform(shown, "document")
        replica = cached_arange(replicas, scores.device)
        credit, first = torch.zeros_like(scores), []
        for place in range(shown):
            share = logits.softmax(2)  # P(rank | member, remaining documents)
            member = author[:, place]
            cumulative = share[replica, member].cumsum(1)
            drawn = (cumulative < chance[:, place, None] * cumulative[:, -1:]).sum(1)
            document = rankings[replica, member, drawn]
            rank = rank_of[replica, :, document][:, :, None]
            likely = share.gather(2, rank).squeeze(2)
            credit[replica, :, document] = likely / likely.sum(1, keepdim=True)
            logits.scatter_(2, rank, float("-inf"))
            first.append(document)
        order = completed(torch.stack(first, dim=1), scores[:, 0], self.ranking_depth)
        return Proposal(order, prediction.scores[:, 0], credit=credit)
