"""PePairRank: an ensemble of pairwise rankers on perturbed labels (P2NeurRank, SIGIR 2022, section 3; its linear form
is P2LinRank)."""

from __future__ import annotations

from torch import Tensor

from ol2r_cli.feedback import most_pairs
from ol2r_cli.interfaces import MEMBERS, Interaction, Oracle, Sizes
from ol2r_cli.learning.newton import AnchoredNewton
from ol2r_cli.learning.perturbed import PerturbedOptima
from ol2r_cli.random import Random
from ol2r_cli.ranker.pairwise import PairwiseRanker
from ol2r_cli.shapes import Float


class PerturbedRanker(PairwiseRanker):
    """`members` rankers, each the optimum of the objective with labels 1 + gamma, gamma ~ N(0, `label_noise_variance`)
    drawn afresh for the whole history in every round.

    `deploy` is what is evaluated: the `mean` of the members' scores, the `first` member's, or those of the
    `unperturbed` optimum. `l2`, `reduction` and `pairs` as in `PairwiseRanker`.
    """

    solver: AnchoredNewton

    def __init__(self, l2: float, reduction: str, pairs: str, members: int, label_noise_variance: float, deploy: str):
        super().__init__(l2, reduction, pairs, solver="newton")
        if members < 1:
            raise ValueError(f"ranker.members must be 1 or more, got {members}")
        if not label_noise_variance >= 0:
            raise ValueError(f"ranker.label_noise_variance must be 0 or more, got {label_noise_variance}")
        if deploy not in ("mean", "first", "unperturbed"):
            raise ValueError(f"ranker.deploy must be 'mean', 'first' or 'unperturbed', got {deploy!r}")
        self.deployed = deploy
        self.offers = self.offers | {MEMBERS} if members > 1 else self.offers
        self.optima = PerturbedOptima(members, label_noise_variance)

    def setup(self, sizes: Sizes, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """All members start at theta = 0."""
        super().setup(sizes, features)
        self.optima.setup(sizes, self.solver, most_pairs(self.pairs, sizes.positions))

    def learn(self, interaction: Interaction, random: Random) -> None:
        """The unperturbed optimum first, then from its anchor those of the members."""
        super().learn(interaction, random)
        self.optima.update(random)

    def weights(self) -> Float[Tensor, "B N F"]:
        """Every member's optimum."""
        return self.optima.theta

    def deploy(self) -> Float[Tensor, "B P"]:
        """Weights of what `deploy` names."""
        if self.deployed == "unperturbed":
            return self.solver.theta.clone()
        return self.optima.theta.mean(1) if self.deployed == "mean" else self.optima.theta[:, 0].clone()
