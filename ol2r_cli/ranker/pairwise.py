"""Rankers that estimate P(i above j) = sigma(f(x_i) - f(x_j)) from all preferences so far (PairRank, WWW 2021)."""

from __future__ import annotations

from torch import Tensor

from ol2r_cli.feedback import check_pairs, most_pairs
from ol2r_cli.interfaces import Interaction, Oracle, Sizes
from ol2r_cli.learning.history import PairHistory
from ol2r_cli.learning.lbfgs import RestartedLBFGS
from ol2r_cli.learning.newton import AnchoredNewton
from ol2r_cli.random import Random
from ol2r_cli.ranker.linear import LinearRanker
from ol2r_cli.shapes import Float

SOLVERS: dict[str, type[AnchoredNewton] | type[RestartedLBFGS]] = {
    "newton": AnchoredNewton,
    "lbfgs_restart": RestartedLBFGS,
}


class PairwiseRanker(LinearRanker):
    """A single-layer RankNet refitted to the whole history after every round.

    `l2` > 0 is lambda; `reduction` is `sum` (cross-entropies + l2/2 |theta|^2, the paper) or `mean` (their mean +
    l2 |theta|^2, the authors' code); `pairs` is how clicks become preferences (matching, adjacent, all); `solver` is
    `newton` (the optimum) or `lbfgs_restart` (the authors' fit, for comparison only).
    """

    solver: AnchoredNewton | RestartedLBFGS

    def __init__(self, l2: float, reduction: str, pairs: str, solver: str):
        super().__init__()
        if not l2 > 0:
            raise ValueError(f"ranker.l2 must be above 0, got {l2}")
        if reduction not in ("sum", "mean"):
            raise ValueError(f"ranker.reduction must be 'sum' or 'mean', got {reduction!r}")
        if solver not in SOLVERS:
            raise ValueError(f"ranker.solver must be one of {', '.join(SOLVERS)}, got {solver!r}")
        self.pairs = check_pairs(pairs)
        self.history = PairHistory()
        self.solver = SOLVERS[solver](l2, reduction)

    def setup(self, sizes: Sizes, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """Reserve the history and start at theta = 0."""
        self.history.setup(sizes, features, most_pairs(self.pairs, sizes.positions))
        self.solver.setup(sizes, self.history)

    def weights(self) -> Float[Tensor, "B N F"]:
        """One member: theta."""
        return self.solver.theta[:, None]

    def learn(self, interaction: Interaction, random: Random) -> None:
        """Remember the round's preferences and move to the new optimum."""
        candidates, preferences = interaction.candidates, interaction.preferences
        added = interaction.belief.tangent().differences(preferences)
        self.history.append(added, candidates.document, preferences)
        self.solver.update(added, preferences.valid, random)
