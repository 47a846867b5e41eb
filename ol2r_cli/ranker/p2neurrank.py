"""P2NeurRank: an ensemble of networks on perturbed labels (Jia and Wang, SIGIR 2022, sections 3.2 and 3.3)."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from ol2r_cli.config.ranges import Count, NonNegative, Positive, Steps
from ol2r_cli.interfaces import MEMBERS, Interaction, Oracle, RunContext
from ol2r_cli.learning.forgetting import Discount
from ol2r_cli.learning.losses import RankNetLoss
from ol2r_cli.learning.model import Model
from ol2r_cli.learning.preferences import Pairs
from ol2r_cli.ranker.refitted import Growth, RefittedRanker
from ol2r_cli.tensor.gather import cached_arange
from ol2r_cli.tensor.shapes import Float, Int
from ol2r_cli.tensor.streams import Random


class PerturbedNetworks(RefittedRanker):
    """`members` networks with initial parameters of their own, fitted to labels 1 + gamma with noise of their own:
    gamma ~ N(0, `label_noise_variance`) for every pair.

    `noise` is `fresh`, drawn anew for the whole history in every round (the paper; after a warm start it averages out),
    or `fixed`, drawn once per pair. `deploy` is what is evaluated: the `mean` of the members' scores or those of the
    `first` member. The other settings are those of `RefittedRanker`.
    """

    loss: RankNetLoss

    def __init__(
        self,
        model: Model,
        pairs: Pairs,
        l2: NonNegative,
        reduction: Literal["sum", "mean"],
        steps: Steps,
        learning_rate: Positive,
        batch: Count | None,
        restart: bool,
        every: Count,
        growth: Growth,
        damping: Positive | None,
        members: Count,
        label_noise_variance: NonNegative,
        noise: Literal["fresh", "fixed"],
        deploy: Literal["mean", "first"],
        window: Count | None,
        discount: Discount,
    ):
        descent = l2, reduction, steps, learning_rate, batch, restart, every, growth, damping
        super().__init__(model, "ranknet", pairs, *descent, fit="descent", authors={}, window=window, discount=discount)
        self.members, self.deviation, self.noise, self.deployed = members, label_noise_variance**0.5, noise, deploy
        self.offers = self.offers | {MEMBERS} if members > 1 else self.offers

    def setup(self, context: RunContext, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """All members as in `RefittedRanker`."""
        super().setup(context, features)
        self.setup_random = context.random

    def learn(self, interaction: Interaction, random: Random) -> None:
        """As in `RefittedRanker`, with labels that are perturbed by the noise of this round or by that of each pair."""
        source = random if self.noise == "fresh" else self.setup_random

        def noise(index: Int[Tensor, "B X"]) -> Float[Tensor, "B N X"]:
            assert source is not None
            number = index[:, :, None] * self.members + cached_arange(self.members, index.device)
            drawn = source.normal_at(number.flatten(1), "noise").unflatten(1, number.shape[1:])
            return (drawn.mT * self.deviation).to(self.theta.dtype)

        self.loss.noise = noise if self.deviation else None
        super().learn(interaction, random)

    def deploy(self) -> Float[Tensor, "B P"]:
        """The parameters of what `deploy` names."""
        return self.theta.flatten(1).clone() if self.deployed == "mean" else self.theta[:, 0].clone()
