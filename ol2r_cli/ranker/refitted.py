"""Rankers that fit a network to all feedback so far: olRankNet and olLambdaRank (Jia and Wang, 2022, section 3), the
skyline of online learning (section 5), and P2NeurRank, an ensemble on perturbed labels (SIGIR 2022, 3.2 and 3.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypedDict, Unpack

import torch
from torch import Tensor

from ol2r_cli.config.ranges import Count, NonNegative, Positive, Steps
from ol2r_cli.interfaces import MEMBERS, Forgetting, Interaction, Oracle, RunContext
from ol2r_cli.learning.history import Discount, forgetting_of
from ol2r_cli.learning.losses import LabelledLoss, LambdaRankLoss, RankNetLoss
from ol2r_cli.learning.model import Model
from ol2r_cli.learning.preferences import Pairs, most_pairs
from ol2r_cli.learning.refit import FeatureCovariance, GradientRefit
from ol2r_cli.ranker.model_ranker import Growth, HistoryRanker
from ol2r_cli.tensor.gather import cached_arange
from ol2r_cli.tensor.shapes import Float, Int
from ol2r_cli.tensor.streams import Random

# What `fit` and `authors` are of every run: an earlier version had another fit, and ids contain both settings.
FIT, AUTHORS = "descent", {"learning_rate": 0.01, "l2": 0.1, "epochs": 20, "batch": 1024}

LOSSES: dict[str, type[RankNetLoss | LambdaRankLoss]] = {"ranknet": RankNetLoss, "lambdarank": LambdaRankLoss}


class Descent(TypedDict):
    """How and when a model takes gradient steps: the settings of `GradientRefit`, `HistoryRanker` and, as `damping`,
    of `FeatureCovariance`, without which steps are plain."""

    l2: NonNegative
    reduction: Literal["sum", "mean"]
    steps: Steps
    learning_rate: Positive
    batch: Count | None
    restart: bool
    every: Count
    growth: Growth
    damping: Positive | None


class DescendingRanker(HistoryRanker):
    """A model that takes gradient steps on the whole history, in the replicas in which it has grown.

    `pairs` is how clicks become preferences; the other settings are those of `Descent`.

    `window` is the number of rounds whose pairs count, None for all; `discount` multiplies what a pair counts in every
    round, so that the mean loss is a weighted one, and n the sum of the weights. A refit also follows rounds in which
    pairs count less.
    """

    loss: RankNetLoss | LambdaRankLoss | LabelledLoss
    refit: GradientRefit
    waiting: Tensor

    def __init__(
        self,
        model: Model,
        loss: Literal["ranknet", "lambdarank"],
        pairs: Pairs,
        window: Count | None,
        discount: Discount,
        **descent: Unpack[Descent],
    ):
        super().__init__(model, descent["every"], descent["growth"])
        self.forgetting = forgetting_of(self, window, discount)
        batch, damping = descent["batch"], descent["damping"]
        if batch is not None and discount < 1:
            raise ValueError(f"{self.setting('batch')} must be null with {self.setting('discount')}, got {batch}")
        self.pairs, self.loss = pairs, LOSSES[loss]()
        self.covariance = None if damping is None else FeatureCovariance(damping)
        self.refit = GradientRefit(
            steps=descent["steps"],
            learning_rate=descent["learning_rate"],
            batch=batch,
            restart=descent["restart"],
            l2=descent["l2"],
            reduction=descent["reduction"],
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


class RefittedRanker(DescendingRanker):
    """A `DescendingRanker` with the settings `fit` and `authors` of its ids, which have one value each."""

    def __init__(
        self,
        model: Model,
        loss: Literal["ranknet", "lambdarank"],
        pairs: Pairs,
        fit: str,
        authors: Mapping[str, float],
        window: Count | None,
        discount: Discount,
        **descent: Unpack[Descent],
    ):
        if (fit, dict(authors)) != (FIT, AUTHORS):
            raise ValueError(
                f"{self.setting('fit')} and {self.setting('authors')} must be left out, as the authors' fit is no part "
                "of ol2r any more: git checkout 471157e2 has it, see docs/algorithms/olranknet.md"
            )
        super().__init__(model, loss, pairs, window, discount, **descent)


class LabelledRanker(DescendingRanker):
    """Refits its model to the true labels of all documents of all queries served so far, a list for every round.

    The settings are those of `Descent`; `batch` counts lists with either loss.
    """

    needs_labels = True
    starts = False

    loss: LabelledLoss

    def __init__(self, model: Model, loss: Literal["ranknet", "lambdarank"], **descent: Unpack[Descent]):
        super().__init__(model, loss, pairs="matching", window=None, discount=1.0, **descent)
        self.weighed, self.pairs = loss == "lambdarank", "none"  # clicks tell it nothing

    def setup(self, context: RunContext, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """Start at initial parameters; the labels of a query are not used before it is served."""
        if oracle is None:
            raise ValueError("ranker=ollambdarank_gt needs the labels of the dataset")
        self.loss = LabelledLoss(oracle, self.weighed)
        super().setup(context, features)


class PerturbedNetworks(DescendingRanker):
    """`members` networks with initial parameters of their own, fitted to labels 1 + gamma with noise of their own:
    gamma ~ N(0, `label_noise_variance`) for every pair.

    `noise` is `fresh`, drawn anew for the whole history in every round (the paper; after a warm start it averages out),
    or `fixed`, drawn once per pair. `deploy` is what is evaluated: the `mean` of the members' scores or those of the
    `first` member. The other settings are those of `DescendingRanker`.
    """

    loss: RankNetLoss

    def __init__(
        self,
        model: Model,
        pairs: Pairs,
        members: Count,
        label_noise_variance: NonNegative,
        noise: Literal["fresh", "fixed"],
        deploy: Literal["mean", "first"],
        window: Count | None,
        discount: Discount,
        **descent: Unpack[Descent],
    ):
        super().__init__(model, "ranknet", pairs, window, discount, **descent)
        self.members, self.deviation, self.noise, self.deployed = members, label_noise_variance**0.5, noise, deploy
        self.offers = self.offers | {MEMBERS} if members > 1 else self.offers

    def setup(self, context: RunContext, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        super().setup(context, features)
        self.setup_random = context.random

    def learn(self, interaction: Interaction, random: Random) -> None:
        """Refit to labels that are perturbed by the noise of this round or by that of each pair."""
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
