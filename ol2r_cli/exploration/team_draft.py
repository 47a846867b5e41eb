"""Team-draft interleaving and multileaving (Radlinski et al., CIKM 2008; Schuth et al., CIKM 2014)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ol2r_cli import loops
from ol2r_cli.exploration.order import best, completed, empty_order, sortable, take_turns_in_step
from ol2r_cli.interfaces import CREDIT, MEMBERS, Candidates, Exploration, Need, Prediction, Proposal
from ol2r_cli.tensor.gather import cached_arange
from ol2r_cli.tensor.shapes import Float, Int
from ol2r_cli.tensor.streams import Random


class TeamDraft(Exploration):
    """The ranker's members take turns to place their best remaining document, in a new random order every cycle.

    The longest prefix on which all members agree comes first and gives credit to no member. The documents below the
    shown places follow in the order of the first member, also without credit.
    """

    offers = frozenset({CREDIT})
    needs = (Need(MEMBERS, "ranker=dbgd or ranker=mgd"),)

    def for_loops(self) -> Any:
        """The exploration for rounds that are played together."""
        return loops.play.Strategy(loops.play.TEAM_DRAFT)

    def propose(self, prediction: Prediction, candidates: Candidates, random: Random) -> Proposal:
        """Draw all turns, then let every member place its best documents."""
        replicas, members, documents = prediction.scores.shape
        shown = min(self.positions, documents)
        cycles = -(-shown // members)
        if candidates.rows is not None:
            given = prediction.scores.numpy(), random.array(documents), random.array(cycles * members, "turns")
            placed, shares = empty_order(prediction.scores[:, 0], shown), np.zeros(prediction.scores.shape)
            loops.orders.team_draft(*given, candidates.rows.length, placed, shares)
            first, credit = torch.from_numpy(placed), torch.from_numpy(shares).to(prediction.scores.dtype)
            if self.ranking_depth > shown:
                scores = sortable(prediction.scores, candidates.mask, random)
                first = completed(first, scores[:, 0], self.ranking_depth)
            return Proposal(first, prediction.scores[:, 0], credit=credit)
        scores = sortable(prediction.scores, candidates.mask, random)
        turns = random.uniform(cycles * members, "turns").view(replicas, cycles, members).argsort(2).flatten(1)
        first, author = _in_step(scores, turns, shown)
        credit = scores.new_zeros(replicas, members + 1, documents)  # the additional row collects what has no author
        credit[cached_arange(replicas, turns.device)[:, None], author, first] = 1
        return Proposal(
            completed(first, scores[:, 0], self.ranking_depth), prediction.scores[:, 0], credit=credit[:, :members]
        )


def _in_step(
    scores: Float[Tensor, "B N D"], turns: Int[Tensor, "B C"], shown: int
) -> tuple[Int[Tensor, "B K"], Int[Tensor, "B K"]]:
    """Return the shown documents, and the members that placed them, N for the agreed prefix; place by place."""
    rankings = best(scores, shown)
    agree = (rankings == rankings[:, :1]).all(1).cumprod(1)
    turn = turns.gather(1, (cached_arange(shown, turns.device) - agree.sum(1, keepdim=True)).clamp(min=0))
    first = take_turns_in_step(scores, turn)  # in the agreed prefix every member places the same document
    return first, torch.where(agree > 0, scores.shape[1], turn)
