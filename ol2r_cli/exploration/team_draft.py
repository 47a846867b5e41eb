"""Team-draft interleaving and multileaving (Radlinski et al., CIKM 2008; Schuth et al., CIKM 2014)."""

from __future__ import annotations

import torch
from torch import Tensor

from ol2r_cli.exploration.order import by_score, completed, fill, ranks
from ol2r_cli.interfaces import CREDIT, MEMBERS, Belief, Candidates, Draft, Exploration, Need, Oracle, Sizes
from ol2r_cli.random import Random
from ol2r_cli.rows import places
from ol2r_cli.shapes import Float


class TeamDraft(Exploration):
    """The ranker's members take turns, in a new random order every time round, to place the best document left.

    What all members agree on from the top on is placed first, to nobody's credit. Below the places shown the order is
    that of the first member, to nobody's credit either.
    """

    offers = frozenset({CREDIT})
    needs = (Need(MEMBERS, "ranker=dbgd or ranker=mgd"),)

    def setup(self, sizes: Sizes, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """Remember how many places are shown."""
        self.positions = sizes.positions

    def propose(self, belief: Belief, candidates: Candidates, random: Random) -> Draft:
        """Turns are drawn first, then everybody places what is best in his own ranking."""
        replicas, members, documents = belief.scores.shape
        shown = min(self.positions, documents)
        rankings = by_score(belief.scores, candidates.mask, random)
        agreed = (rankings == rankings[:, :1]).all(1).int().cumprod(1).sum(1, keepdim=True)
        circles = -(-self.positions // members)
        turns = random.uniform(circles * members, "turns").view(replicas, circles, members).argsort(2).flatten(1)
        turn = places(shown, turns.device) - agreed
        author = turns.gather(1, turn.clamp(min=0))
        rank = ranks(rankings)
        first = fill(rank.gather(1, author[:, :, None].expand(-1, -1, documents)))
        credit = torch.zeros_like(belief.scores)
        credit[places(replicas, turns.device)[:, None], author, first] = (turn >= 0).to(credit.dtype)
        return Draft(completed(first, rank[:, 0]), belief.scores[:, 0], credit=credit)
