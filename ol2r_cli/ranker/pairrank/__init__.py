"""Linear rankers that estimate P(i above j) = sigma(f(x_i) - f(x_j)) from all preferences so far: PairRank (WWW 2021)
and PePairRank, an ensemble on perturbed labels (P2NeurRank, SIGIR 2022, section 3; its linear form is P2LinRank)."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from ol2r_cli import loops
from ol2r_cli.config.ranges import Count, NonNegative, Positive
from ol2r_cli.interfaces import MEMBERS, Interaction, Oracle, RunContext
from ol2r_cli.learning.history import Discount, PairHistory, check_forgets_nothing, forgetting_of
from ol2r_cli.learning.preferences import Pairs, most_pairs
from ol2r_cli.ranker.model_ranker import LinearRanker
from ol2r_cli.ranker.pairrank import newton_loops, optima_loops
from ol2r_cli.ranker.pairrank.newton import AnchoredNewton
from ol2r_cli.ranker.pairrank.optima import PerturbedOptima
from ol2r_cli.tensor.shapes import Float
from ol2r_cli.tensor.streams import Random

REMEMBERED = 10  # observations that a start must count as, to outlast tens of rounds: docs/algorithms/start.md


class PairwiseRanker(LinearRanker):
    """A single-layer RankNet refitted to the whole history after every round.

    `l2` is lambda; `reduction` is `sum` (cross-entropies + l2/2 |theta|^2, the paper) or `mean` (their mean +
    l2 |theta|^2, the authors' code); `pairs` is how clicks become preferences; `solver` is `newton` (near the
    optimum) or `exact` (the optimum up to rounding).
    `window` is the number of rounds whose pairs count, None for all; `discount` multiplies what a pair counts in every
    round. One of the two is None or 1.
    """

    starts = True

    def __init__(
        self,
        l2: Positive,
        reduction: Literal["sum", "mean"],
        pairs: Pairs,
        solver: Literal["newton", "exact"],
        window: Count | None,
        discount: Discount,
    ):
        super().__init__()
        self.pairs = pairs
        self.forgetting = forgetting_of(self, window, discount)
        if solver != "newton":
            check_forgets_nothing(self, "solver", "newton", solver)
        self.history = PairHistory()
        self.solver = AnchoredNewton(l2, reduction, exact=solver == "exact")

    def setup(self, context: RunContext, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """Reserve the history and begin with theta = 0."""
        self.history.setup(context, features, most_pairs(self.pairs, context.positions))
        self.solver.setup(context, self.history)

    def start_from(self, parameters: Float[Tensor, "B F"]) -> None:
        """Begin with these weights, from which the penalty is then taken: l2 |theta - start|^2.

        It is a prior that counts as l2 observations, the l2 of a sum, and `warnings` says so where these are few.
        """
        self.solver.start_from(parameters)
        # A penalty of the mean grows with the pairs, and l2 of .5 or more is never outweighed by them.
        observations, later = self.solver.l2_for(torch.tensor([1.0, REMEMBERED])).tolist()  # at so many pairs of clicks
        if later < REMEMBERED:
            remedy = f"type {self.setting('reduction')}=sum {self.setting('l2')}=100 to count it as 100"
            self.warnings = (f"the start counts as {observations:g} observations and is soon forgotten: {remedy}",)

    def stages(self) -> Any:
        if self.history.forgets:
            return None
        score, learn = loops.gradient_steps.scores_by_theta, newton_loops.learns_from_all_pairs
        room = self.solver.room(self.history.per_round)
        return loops.rounds.RankerStages(score, learn, self.solver.state(), room=room)

    def weights(self) -> Float[Tensor, "B N F"]:
        return self.solver.theta[:, None]

    def learn(self, interaction: Interaction, random: Random) -> None:
        candidates, preferences = interaction.candidates, interaction.preferences
        added = interaction.prediction.tangent().differences(preferences)
        self.history.remember(candidates.document, preferences, added)
        self.solver.update(added, preferences.valid)


class PerturbedRanker(PairwiseRanker):
    """`members` rankers, each the optimum of the objective with labels 1 + gamma, gamma ~ N(0, `label_noise_variance`)
    drawn anew for the whole history in every round.

    `deploy` is what is evaluated: the `mean` of the members' scores, the `first` member's, or those of the
    `unperturbed` optimum. `l2`, `reduction`, `pairs`, `window` and `discount` as in `PairwiseRanker`.
    """

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
        super().setup(context, features)
        self.optima.setup(context, self.solver)

    def start_from(self, parameters: Float[Tensor, "B F"]) -> None:
        super().start_from(parameters)
        self.optima.theta.copy_(parameters[:, None])

    def stages(self) -> Any:
        if self.history.forgets:
            return None
        score, learn = optima_loops.scores_by_members, optima_loops.learns_by_members
        room = max(self.solver.room(self.history.per_round), self.optima.room())
        return loops.rounds.RankerStages(score, learn, self.optima.state(), self.optima.members, room)

    def learn(self, interaction: Interaction, random: Random) -> None:
        super().learn(interaction, random)
        self.optima.update(random)

    def weights(self) -> Float[Tensor, "B N F"]:
        return self.optima.theta

    def deploy(self) -> Float[Tensor, "B P"]:
        if self.deployed == "unperturbed":
            return self.solver.theta.clone()
        return self.optima.theta.mean(1) if self.deployed == "mean" else self.optima.theta[:, 0].clone()
