"""Team-draft interleaving and multileaving (Radlinski et al., CIKM 2008; Schuth et al., CIKM 2014)."""

from __future__ import annotations

import torch
from torch import Tensor

from ol2r_cli.exploration.order import best, completed, sortable, take_turns, take_turns_in_step
from ol2r_cli.host import on_host
from ol2r_cli.interfaces import CREDIT, MEMBERS, Belief, Candidates, Draft, Exploration, Need
from ol2r_cli.random import Random
from ol2r_cli.rows import places
from ol2r_cli.shapes import Float, Int


class TeamDraft(Exploration):
    """The ranker's members take turns, in a new random order every time round, to place the best document left.

    What all members agree on from the top on is placed first, to nobody's credit. Below the places shown comes what is
    left in the order of the first member, to nobody's credit either.
    """

    offers = frozenset({CREDIT})
    needs = (Need(MEMBERS, "ranker=dbgd or ranker=mgd"),)

    def propose(self, belief: Belief, candidates: Candidates, random: Random) -> Draft:
        """Turns are drawn first; then every member places what is best in its own ranking."""
        replicas, members, documents = belief.scores.shape
        shown = min(self.positions, documents)
        scores = sortable(belief.scores, candidates.mask, random)
        circles = -(-shown // members)
        turns = random.uniform(circles * members, "turns").view(replicas, circles, members).argsort(2).flatten(1)
        first, author = (_by_lists if on_host(scores) else _in_step)(scores, turns, shown)
        credit = scores.new_zeros(replicas, members + 1, documents)  # one more, who gets what is nobody's
        credit[places(replicas, turns.device)[:, None], author, first] = 1
        return Draft(completed(first, scores[:, 0], self.ordered), belief.scores[:, 0], credit=credit[:, :members])


def _by_lists(
    scores: Float[Tensor, "B N D"], turns: Int[Tensor, "B C"], shown: int
) -> tuple[Int[Tensor, "B K"], Int[Tensor, "B K"]]:
    """The documents shown and the members who placed them, N where all agree."""
    members, lists, authors = scores.shape[1], [], []
    for rankings, turn in zip(best(scores, shown).tolist(), turns.tolist(), strict=True):
        agreed = next((place for place, each in enumerate(zip(*rankings, strict=True)) if len(set(each)) > 1), shown)
        lists.append(take_turns(rankings, [0] * agreed + turn[: shown - agreed]))
        authors.append([members] * agreed + turn[: shown - agreed])
    return torch.tensor(lists), torch.tensor(authors)


def _in_step(
    scores: Float[Tensor, "B N D"], turns: Int[Tensor, "B C"], shown: int
) -> tuple[Int[Tensor, "B K"], Int[Tensor, "B K"]]:
    """The same for all replicas together, a place at a time."""
    rankings = best(scores, shown)
    agree = (rankings == rankings[:, :1]).all(1).cumprod(1)
    turn = turns.gather(1, (places(shown, turns.device) - agree.sum(1, keepdim=True)).clamp(min=0))
    first = take_turns_in_step(scores, turn)  # it is all the same who places what all agree on
    return first, torch.where(agree > 0, scores.shape[1], turn)
