"""P2NeurRank: an ensemble of networks on perturbed labels (Jia and Wang, SIGIR 2022, sections 3.2 and 3.3)."""

from __future__ import annotations

from torch import Tensor

from ol2r_cli.interfaces import MEMBERS, Interaction, Oracle, Sizes
from ol2r_cli.learning.model import Model
from ol2r_cli.learning.ranknet import RankNetLoss
from ol2r_cli.random import Random
from ol2r_cli.ranker.refitted import RefittedRanker
from ol2r_cli.rows import places
from ol2r_cli.shapes import Float, Int


class PerturbedNetworks(RefittedRanker):
    """`members` networks, each from initial parameters of its own and fitted to labels 1 + gamma of its own, gamma ~
    N(0, `label_noise_variance`) for every pair.

    `noise` is `fresh`, drawn anew for the whole history in every round (the paper; after a warm start it averages out),
    or `fixed`, drawn once per pair. `deploy` is what is evaluated: the `mean` of the members' scores or the `first`
    member's. The rest as in `RefittedRanker`.
    """

    loss: RankNetLoss

    def __init__(
        self,
        model: Model,
        pairs: str,
        l2: float,
        reduction: str,
        steps: int,
        learning_rate: float,
        batch: int | None,
        restart: bool,
        every: int,
        members: int,
        label_noise_variance: float,
        noise: str,
        deploy: str,
    ):
        super().__init__(model, "ranknet", pairs, l2, reduction, steps, learning_rate, batch, restart, every)
        if members < 1:
            raise ValueError(f"ranker.members must be 1 or more, got {members}")
        if not label_noise_variance >= 0:
            raise ValueError(f"ranker.label_noise_variance must be 0 or more, got {label_noise_variance}")
        if noise not in ("fresh", "fixed"):
            raise ValueError(f"ranker.noise must be 'fresh' or 'fixed', got {noise!r}")
        if deploy not in ("mean", "first"):
            raise ValueError(f"ranker.deploy must be 'mean' or 'first', got {deploy!r}")
        self.members, self.deviation, self.noise, self.deployed = members, label_noise_variance**0.5, noise, deploy
        self.offers = self.offers | {MEMBERS} if members > 1 else self.offers

    def setup(self, sizes: Sizes, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """All members as in `RefittedRanker`."""
        super().setup(sizes, features)
        self.once = sizes.random

    def learn(self, interaction: Interaction, random: Random) -> None:
        """As in `RefittedRanker`, with labels that are perturbed by this round's noise or by each pair's own."""
        source = random if self.noise == "fresh" else self.once

        def noise(index: Int[Tensor, "B X"]) -> Float[Tensor, "B N X"]:
            assert source is not None
            number = index[:, :, None] * self.members + places(self.members, index.device)
            drawn = source.normal_at(number.flatten(1), "noise").unflatten(1, number.shape[1:])
            return (drawn.mT * self.deviation).to(self.theta.dtype)

        self.loss.noise = noise if self.deviation else None
        super().learn(interaction, random)

    def deploy(self) -> Float[Tensor, "B P"]:
        """The parameters of what `deploy` names."""
        return self.theta.flatten(1).clone() if self.deployed == "mean" else self.theta[:, 0].clone()
