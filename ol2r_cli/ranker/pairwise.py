"""Rankers that estimate P(i above j) = sigma(f(x_i) - f(x_j)) from all preferences so far (PairRank, WWW 2021)."""

from __future__ import annotations

from torch import Tensor

from ol2r_cli.feedback import check_pairs, most_pairs
from ol2r_cli.interfaces import Belief, Candidates, Interaction, Ranker, Sizes
from ol2r_cli.learning.history import PairHistory
from ol2r_cli.learning.lbfgs import RestartedLBFGS
from ol2r_cli.learning.newton import AnchoredNewton
from ol2r_cli.learning.tangent import LinearTangent
from ol2r_cli.random import Random
from ol2r_cli.shapes import Float, Int

SOLVERS: dict[str, type[AnchoredNewton] | type[RestartedLBFGS]] = {
    "newton": AnchoredNewton,
    "lbfgs_restart": RestartedLBFGS,
}


class PairwiseRanker(Ranker):
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

    def setup(self, sizes: Sizes, features: Float[Tensor, "N F"], labels: Int[Tensor, "N"] | None = None) -> None:
        """Reserve the history and start at theta = 0."""
        self.history.setup(sizes, features, most_pairs(self.pairs, sizes.positions))
        self.solver.setup(sizes, self.history)

    def judge(self, candidates: Candidates, random: Random) -> Belief:
        """Scores theta.x, multiplied and summed row by row: equal documents get equal scores to the last bit."""
        scores = (candidates.features * self.solver.theta[:, None]).sum(2)
        tangent = LinearTangent(candidates.features)
        return Belief(scores[:, None], lambda: tangent)

    def learn(self, interaction: Interaction, random: Random) -> None:
        """Remember the round's preferences and move to the new optimum."""
        candidates, preferences = interaction.candidates, interaction.preferences
        added = interaction.belief.tangent().differences(preferences)
        self.history.append(added, candidates.document, preferences)
        self.solver.update(added, preferences.valid, random)

    def deploy(self) -> Float[Tensor, "B P"]:
        """The weights theta."""
        return self.solver.theta.clone()

    def score(self, deployed: Float[Tensor, "S P"], candidates: Candidates) -> Float[Tensor, "S Q D"]:
        """Scores theta.x of every setting."""
        scores = candidates.features.flatten(0, 1) @ deployed.mT  # this way round it reads the features once
        return scores.mT.contiguous().unflatten(1, candidates.mask.shape)
