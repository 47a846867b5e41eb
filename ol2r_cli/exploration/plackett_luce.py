"""Lists drawn from the Plackett-Luce model of the scores, the exploration of PDGD (CIKM 2018, equation 1)."""

from __future__ import annotations

from ol2r_cli.exploration.order import LEAST, best
from ol2r_cli.interfaces import PLACKETT_LUCE, Belief, Candidates, Draft, Exploration
from ol2r_cli.random import Random


class PlackettLuce(Exploration):
    """Place after place, a document that is left is drawn with probability proportional to e^score.

    Drawn in one go: exponential clocks with rates e^score ring in the order of exactly this distribution. The score is
    the mean of the ranker's members.
    """

    offers = frozenset({PLACKETT_LUCE})

    def propose(self, belief: Belief, candidates: Candidates, random: Random) -> Draft:
        """Documents as their clocks ring, padding never."""
        scores = belief.scores.mean(1)
        sooner = scores.double() - random.exponential(scores.shape[1]).log()
        return Draft(best(sooner.masked_fill(~candidates.mask, LEAST), self.ordered), scores)
