"""Probabilistic interleaving and multileaving (Hofmann et al., CIKM 2011; Schuth et al., SIGIR 2015)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ol2r_cli import loops
from ol2r_cli.config.ranges import Positive
from ol2r_cli.exploration.order import best, completed, empty_order, sortable
from ol2r_cli.interfaces import CREDIT, MEMBERS, Candidates, Exploration, Need, Prediction, Proposal
from ol2r_cli.tensor.gather import cached_arange
from ol2r_cli.tensor.streams import Random

PADDING = -1000.0  # log-weight of padding, below all documents: drawn only when no document is left


class ProbabilisticInterleaving(Exploration):
    """Fills each place by a uniformly drawn member, which draws among the remaining documents with probability
    proportional to 1 / rank^`tau`, where rank is that of its own ranking.

    Credit is the expectation over all assignments of places to members that could have led to the list: a member's
    share in a document is its probability of drawing the document at that place, divided by the sum over members.
    """

    offers = frozenset({CREDIT})
    needs = (Need(MEMBERS, "ranker=dbgd or ranker=mgd"),)

    def __init__(self, tau: Positive):
        super().__init__()
        self.tau = tau

    def for_loops(self) -> Any:
        """The exploration for rounds that are played together."""
        return loops.play.Strategy(loops.play.PROBABILISTIC, float(self.tau))

    def propose(self, prediction: Prediction, candidates: Candidates, random: Random) -> Proposal:
        """Draw place by place, because the remaining documents determine the probabilities."""
        replicas, members, documents = prediction.scores.shape
        shown = min(self.positions, documents)
        if candidates.rows is not None:
            return self._by_loops(prediction, candidates, shown, random)
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
        return Proposal(
            completed(torch.stack(first, dim=1), scores[:, 0], self.ranking_depth),
            prediction.scores[:, 0],
            credit=credit,
        )

    def _by_loops(self, prediction: Prediction, candidates: Candidates, shown: int, random: Random) -> Proposal:
        """Return what `propose` does, by a compiled loop."""
        assert candidates.rows is not None
        first, credit = empty_order(prediction.scores[:, 0], shown), np.zeros(prediction.scores.shape)
        drawn = random.array(shown, "author"), random.array(shown, "document")
        given = prediction.scores.numpy(), random.array(prediction.scores.shape[2]), *drawn, float(self.tau)
        loops.orders.probabilistic(*given, candidates.rows.length, first, credit)
        order = torch.from_numpy(first)
        if self.ranking_depth > shown:
            scores = sortable(prediction.scores, candidates.mask, random)
            order = completed(order, scores[:, 0], self.ranking_depth)
        return Proposal(order, prediction.scores[:, 0], credit=torch.from_numpy(credit))
