"""Probabilistic interleaving and multileaving (Hofmann et al., CIKM 2011; Schuth et al., SIGIR 2015)."""

from __future__ import annotations

import torch
from torch import Tensor

from ol2r_cli.exploration.order import best, completed, sortable
from ol2r_cli.interfaces import CREDIT, MEMBERS, Belief, Candidates, Draft, Exploration, Need, Oracle, Sizes
from ol2r_cli.random import Random
from ol2r_cli.rows import places
from ol2r_cli.shapes import Float

PADDING = 1e-60  # weight of a document that is none: drawn only when nothing else is left


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

    def setup(self, sizes: Sizes, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """Remember how many places are shown, and how many are looked at."""
        self.positions, self.ordered = sizes.positions, sizes.ordered

    def propose(self, belief: Belief, candidates: Candidates, random: Random) -> Draft:
        """Place after place, since what is left decides the probabilities."""
        replicas, members, documents = belief.scores.shape
        shown = min(self.positions, documents)
        scores = sortable(belief.scores, candidates.mask, random)
        rankings = best(scores, documents)
        by_rank = (places(documents, scores.device) + 1).double().pow(-self.tau)
        weight = torch.empty_like(scores).scatter_(2, rankings, by_rank.expand_as(scores))
        weight.masked_fill_(~candidates.mask[:, None], PADDING)
        author = (random.uniform(shown, "author") * members).long()
        chance = random.uniform(shown, "document")
        replica = places(replicas, weight.device)
        credit, first = torch.zeros_like(weight), []
        for place in range(shown):
            share = weight / weight.sum(2, keepdim=True)  # P(document | member, what is left)
            own = author[:, place]
            reach = share[replica, own].gather(1, rankings[replica, own]).cumsum(1)
            drawn = (reach < chance[:, place, None] * reach[:, -1:]).sum(1)
            document = rankings[replica, own, drawn]
            likely = share[replica, :, document]
            credit[replica, :, document] = likely / likely.sum(1, keepdim=True)
            weight[replica, :, document] = 0
            first.append(document)
        credit = credit.to(belief.scores.dtype)
        return Draft(
            completed(torch.stack(first, dim=1), scores[:, 0], self.ordered), belief.scores[:, 0], credit=credit
        )
