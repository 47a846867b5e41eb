"""PePairRank: an ensemble of pairwise rankers on perturbed labels (P2NeurRank, SIGIR 2022, section 3; its linear form
is P2LinRank)."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from ol2r_cli.config.ranges import Count, NonNegative, Positive
from ol2r_cli.interfaces import MEMBERS, Interaction, Oracle, RunContext
from ol2r_cli.learning.forgetting import Discount
from ol2r_cli.learning.newton import AnchoredNewton
from ol2r_cli.learning.perturbed_optima import PerturbedOptima
from ol2r_cli.learning.preferences import Pairs, most_pairs
from ol2r_cli.ranker.pairrank import PairwiseRanker
from ol2r_cli.tensor.shapes import Float
from ol2r_cli.tensor.streams import Random


class PerturbedRanker(PairwiseRanker):
    """`members` rankers, each the optimum of the objective with labels 1 + gamma, gamma ~ N(0, `label_noise_variance`)
    drawn anew for the whole history in every round.

    `deploy` is what is evaluated: the `mean` of the members' scores, the `first` member's, or those of the
    `unperturbed` optimum. `l2`, `reduction`, `pairs`, `window` and `discount` as in `PairwiseRanker`.
    """

    solver: AnchoredNewton

    def __init__(
        self,
        l2: Positive,
        reduction: Literal["sum", "mean"],
        pairs: Pairs,
        members: Count,
        label_noise_variance: NonNegative,
        deploy: Literal["mean", "first", "unperturbed"],
        window: Count | None,
        discount: Discount,
    ):
        super().__init__(l2, reduction, pairs, "newton", window, discount)
        self.deployed = deploy
        self.offers = self.offers | {MEMBERS} if members > 1 else self.offers
        self.optima = PerturbedOptima(members, label_noise_variance)

    def setup(self, context: RunContext, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """All members start at theta = 0."""
        super().setup(context, features)
        self.optima.setup(context, self.solver, most_pairs(self.pairs, context.positions))

    def learn(self, interaction: Interaction, random: Random) -> None:
        """Move to the unperturbed optimum, then from its anchor to those of the members."""
        super().learn(interaction, random)
        self.optima.update(random)

    def weights(self) -> Float[Tensor, "B N F"]:
        """Every member's optimum."""
        return self.optima.theta

    def deploy(self) -> Float[Tensor, "B P"]:
        """The weights that `deploy` names."""
        if self.deployed == "unperturbed":
            return self.solver.theta.clone()
        return self.optima.theta.mean(1) if self.deployed == "mean" else self.optima.theta[:, 0].clone()
