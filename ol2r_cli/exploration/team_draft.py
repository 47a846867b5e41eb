"""Team-draft interleaving and multileaving (Radlinski et al., CIKM 2008; Schuth et al., CIKM 2014)."""

from __future__ import annotations

import torch
from torch import Tensor

from ol2r_cli.exploration.order import best, completed, sortable, take_turns, take_turns_in_step
from ol2r_cli.interfaces import CREDIT, MEMBERS, Candidates, Exploration, Need, Prediction, Proposal
from ol2r_cli.tensor.gather import cached_arange
from ol2r_cli.tensor.shapes import Float, Int
from ol2r_cli.tensor.streams import Random
from ol2r_cli.tensor.synchronisation import is_host_readable


class TeamDraft(Exploration):
    """The ranker's members take turns to place their best remaining document, in a new random order every cycle.

    The longest prefix on which all members agree comes first and gives credit to no member. The documents below the
    shown places follow in the order of the first member, also without credit.
    """

    offers = frozenset({CREDIT})
    needs = (Need(MEMBERS, "ranker=dbgd or ranker=mgd"),)

    def propose(self, prediction: Prediction, candidates: Candidates, random: Random) -> Proposal:
        """Draw all turns, then let every member place its best documents."""
        replicas, members, documents = prediction.scores.shape
        shown = min(self.positions, documents)
        scores = sortable(prediction.scores, candidates.mask, random)
        cycles = -(-shown // members)
        turns = random.uniform(cycles * members, "turns").view(replicas, cycles, members).argsort(2).flatten(1)
        first, author = (_by_lists if is_host_readable(scores) else _in_step)(scores, turns, shown)
        credit = scores.new_zeros(replicas, members + 1, documents)  # the additional row collects what has no author
        credit[cached_arange(replicas, turns.device)[:, None], author, first] = 1
        return Proposal(
            completed(first, scores[:, 0], self.ranking_depth), prediction.scores[:, 0], credit=credit[:, :members]
        )


def _by_lists(
    scores: Float[Tensor, "B N D"], turns: Int[Tensor, "B C"], shown: int
) -> tuple[Int[Tensor, "B K"], Int[Tensor, "B K"]]:
    """Return the shown documents and the members that placed them, N for the agreed prefix."""
    members, lists, authors = scores.shape[1], [], []
    for rankings, turn in zip(best(scores, shown).tolist(), turns.tolist(), strict=True):
        agreed = next((place for place, each in enumerate(zip(*rankings, strict=True)) if len(set(each)) > 1), shown)
        lists.append(take_turns(rankings, [0] * agreed + turn[: shown - agreed]))
        authors.append([members] * agreed + turn[: shown - agreed])
    return torch.tensor(lists), torch.tensor(authors)


def _in_step(
    scores: Float[Tensor, "B N D"], turns: Int[Tensor, "B C"], shown: int
) -> tuple[Int[Tensor, "B K"], Int[Tensor, "B K"]]:
    """Return what `_by_lists` does, for all replicas at once and place by place."""
    rankings = best(scores, shown)
    agree = (rankings == rankings[:, :1]).all(1).cumprod(1)
    turn = turns.gather(1, (cached_arange(shown, turns.device) - agree.sum(1, keepdim=True)).clamp(min=0))
    first = take_turns_in_step(scores, turn)  # in the agreed prefix every member places the same document
    return first, torch.where(agree > 0, scores.shape[1], turn)
