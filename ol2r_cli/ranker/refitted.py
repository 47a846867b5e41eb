"""Rankers that fit a network to all feedback so far: olRankNet and olLambdaRank (Jia and Wang, 2022, section 3), the
skyline of online learning (section 5), and P2NeurRank, an ensemble on perturbed labels (SIGIR 2022, 3.2 and 3.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor

from ol2r_cli.config.ranges import Count, NonNegative, Positive, Steps, check_settings
from ol2r_cli.interfaces import MEMBERS, Forgetting, Interaction, Oracle, RunContext
from ol2r_cli.learning.history import Discount, forgetting_of
from ol2r_cli.learning.losses import LabelledLoss, LambdaRankLoss, RankNetLoss
from ol2r_cli.learning.model import Model
from ol2r_cli.learning.preferences import Pairs, most_pairs
from ol2r_cli.learning.refit import AuthorsFit, FeatureCovariance, GradientRefit
from ol2r_cli.ranker.model.mlp import MLP
from ol2r_cli.ranker.model_ranker import Growth, HistoryRanker
from ol2r_cli.tensor.gather import cached_arange
from ol2r_cli.tensor.shapes import Float, Int
from ol2r_cli.tensor.streams import Random

LOSSES: dict[str, type[RankNetLoss | LambdaRankLoss]] = {"ranknet": RankNetLoss, "lambdarank": LambdaRankLoss}


class RefittedRanker(HistoryRanker):
    """A model that takes gradient steps on the whole history, in the replicas in which it has grown.

    `pairs` is how clicks become preferences; `steps`, `learning_rate`, `batch`, `restart`, `l2` and `reduction` as in
    `GradientRefit`, `every` and `growth` as in `HistoryRanker`; `damping` is that of a `FeatureCovariance`, None for
    plain gradient steps. With `fit` = authors only `pairs` and `every` of these count, and `authors`, the settings of
    `AuthorsFit`; the network then starts as PyTorch's do, whatever the model's `init`.

    `window` is the number of rounds whose pairs count, None for all; `discount` multiplies what a pair counts in every
    round, so that the mean loss is a weighted one, and n the sum of the weights. A refit also follows rounds in which
    pairs count less.
    """

    loss: RankNetLoss | LambdaRankLoss | LabelledLoss
    waiting: Tensor

    def __init__(
        self,
        model: Model,
        loss: Literal["ranknet", "lambdarank"],
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
        fit: Literal["descent", "authors"],
        authors: Mapping[str, float],
        window: Count | None,
        discount: Discount,
    ):
        if authors or fit == "authors":  # subclasses that only descend pass none
            check_settings(AuthorsFit, authors, self.setting("authors"))
        descends = fit == "descent"
        if not descends:
            if not isinstance(model, MLP):
                raise ValueError(f"ranker/model must be mlp with ranker.fit=authors, got {type(model).__name__}")
            model, growth = MLP(model.units, model.hidden_layers, "pytorch"), 1.0
        super().__init__(model, every, growth)
        self.forgetting = forgetting_of(self, window, discount)
        if not descends and self.forgetting != Forgetting():
            forgetting = f"{self.setting('window')} or {self.setting('discount')}"
            raise ValueError(f"{self.setting('fit')} must be descent with {forgetting}, got {fit}")
        if batch is not None and discount < 1:
            raise ValueError(f"{self.setting('batch')} must be null with {self.setting('discount')}, got {batch}")
        self.pairs, self.loss = pairs, LOSSES[loss]()
        self.starts = descends and self.starts
        self.covariance = FeatureCovariance(damping) if descends and damping is not None else None
        self.refit: GradientRefit | AuthorsFit = (
            GradientRefit(steps, learning_rate, batch, restart, l2, reduction)
            if descends
            else AuthorsFit(**dict[str, Any](authors))
        )

    def setup(self, context: RunContext, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        super().setup(context, features)
        self.register_buffer("waiting", torch.zeros(context.replicas, dtype=torch.bool, device=context.device))
        self.loss.setup(context, features, most_pairs(self.pairs, context.positions))
        if self.covariance is not None:
            self.covariance.setup(context)

    def learn(self, interaction: Interaction, random: Random) -> None:
        """Remember the round, and refit the replicas whose history has grown since their last refit, if it is time."""
        self.waiting |= self.loss.append(interaction)
        if self.forgetting != Forgetting():
            self.waiting |= self.loss.changed()
        if self.covariance is not None:
            self.covariance.observe(interaction.candidates)
        if self.is_due() and self.waiting.any():
            self.refit(self.theta, self.start, self.model, self.loss, random, self.waiting, self.covariance)
            self.waiting.zero_()


class LabelledRanker(RefittedRanker):
    """Refits its model to the true labels of all documents of all queries served so far, a list for every round.

    All settings as in `RefittedRanker`; `batch` counts lists with either loss.
    """

    needs_labels = True
    starts = False

    loss: LabelledLoss

    def __init__(
        self,
        model: Model,
        loss: Literal["ranknet", "lambdarank"],
        l2: NonNegative,
        reduction: Literal["sum", "mean"],
        steps: Steps,
        learning_rate: Positive,
        batch: Count | None,
        restart: bool,
        every: Count,
        growth: Growth,
        damping: Positive | None,
    ):
        descent = l2, reduction, steps, learning_rate, batch, restart, every, growth, damping
        super().__init__(model, loss, "matching", *descent, fit="descent", authors={}, window=None, discount=1.0)
        self.weighed, self.pairs = loss == "lambdarank", "none"  # clicks tell it nothing

    def setup(self, context: RunContext, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """Start at initial parameters; the labels of a query are not used before it is served."""
        if oracle is None:
            raise ValueError("ranker=ollambdarank_gt needs the labels of the dataset")
        self.loss = LabelledLoss(oracle, self.weighed)
        super().setup(context, features)


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
        return self.theta.flatten(1).clone() if self.deployed == "mean" else self.theta[:, 0].clone()
