"""Team-draft interleaving and multileaving (Radlinski et al., CIKM 2008; Schuth et al., CIKM 2014)."""

from __future__ import annotations

import torch

from ol2r_cli.exploration.order import best, completed, sortable, take_turns
from ol2r_cli.interfaces import CREDIT, MEMBERS, Belief, Candidates, Draft, Exploration, Need
from ol2r_cli.random import Random
from ol2r_cli.rows import places


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
        queues, lists, authors = best(scores, shown).tolist(), [], []
        for rankings, turn in zip(queues, turns.tolist(), strict=True):
            agreed = next(
                (place for place, each in enumerate(zip(*rankings, strict=True)) if len(set(each)) > 1), shown
            )
            lists.append(take_turns(rankings, [0] * agreed + turn[: shown - agreed]))
            authors.append([members] * agreed + turn[: shown - agreed])
        first = torch.tensor(lists, device=turns.device)
        author = torch.tensor(authors, device=turns.device)
        credit = scores.new_zeros(replicas, members + 1, documents)  # one more, who gets what is nobody's
        credit[places(replicas, turns.device)[:, None], author, first] = 1
        return Draft(completed(first, scores[:, 0], self.ordered), belief.scores[:, 0], credit=credit[:, :members])
