"""Probabilistic interleaving and multileaving (Hofmann et al., CIKM 2011; Schuth et al., SIGIR 2015)."""

from __future__ import annotations

import torch

from ol2r_cli.exploration.order import best, completed, sortable
from ol2r_cli.interfaces import CREDIT, MEMBERS, Belief, Candidates, Draft, Exploration, Need
from ol2r_cli.random import Random
from ol2r_cli.rows import places

PADDING = -1000.0  # log-weight of a document that is none, below all others: drawn only when nothing else is left


class ProbabilisticInterleaving(Exploration):
    """Every place is filled by a member drawn uniformly, which draws among the documents left with probability
    proportional to 1 / rank^`tau`, tau > 0, rank being that of the member's own ranking.

    Credit is the expected one over all assignments of places to members that could have led to the list: a member's
    share in a document is its probability of drawing it there, divided by the sum over members.
    """

    offers = frozenset({CREDIT})
    needs = (Need(MEMBERS, "ranker=dbgd or ranker=mgd"),)

    def __init__(self, tau: float):
        super().__init__()
        if not tau > 0:
            raise ValueError(f"exploration.tau must be above 0, got {tau}")
        self.tau = tau

    def propose(self, belief: Belief, candidates: Candidates, random: Random) -> Draft:
        """Place after place, since what is left decides the probabilities."""
        replicas, members, documents = belief.scores.shape
        shown = min(self.positions, documents)
        scores = sortable(belief.scores, candidates.mask, random)
        rankings = best(scores, documents)
        ranks = places(documents, scores.device)
        rank_of = torch.empty_like(rankings).scatter_(2, rankings, ranks.expand_as(rankings))
        logit = -self.tau * (ranks + 1).double().log()
        logit = torch.where(candidates.mask, logit, logit[-1] + PADDING)  # padding is last in rankings as in the mask
        logits = logit[:, None].repeat(1, members, 1)  # by rank, so that who ranks a document alike has the same bits
        author = (random.uniform(shown, "author") * members).long()
        chance = random.uniform(shown, "document")
        replica = places(replicas, scores.device)
        credit, first = torch.zeros_like(scores), []
        for place in range(shown):
            share = logits.softmax(2)  # P(rank | member, what is left)
            own = author[:, place]
            reach = share[replica, own].cumsum(1)
            drawn = (reach < chance[:, place, None] * reach[:, -1:]).sum(1)
            document = rankings[replica, own, drawn]
            rank = rank_of[replica, :, document][:, :, None]
            likely = share.gather(2, rank).squeeze(2)
            credit[replica, :, document] = likely / likely.sum(1, keepdim=True)
            logits.scatter_(2, rank, float("-inf"))
            first.append(document)
        return Draft(
            completed(torch.stack(first, dim=1), scores[:, 0], self.ordered), belief.scores[:, 0], credit=credit
        )
