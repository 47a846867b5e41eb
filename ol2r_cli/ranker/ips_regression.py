"""Relevance regression by inverse propensity scoring, the ranker of FairCo (Morik, Singh, Hong and Joachims,
"Controlling Fairness and Bias in Dynamic Learning-to-Rank", SIGIR 2020, section 5): least squares over all documents
shown so far, exactly for a linear score, by gradient steps for any model.

The parameters minimise

    1/2 sum over shown documents of (f(x) - y)^2  +  m l2/2 |theta - theta_0|^2,

with m the width of the model (1 where it is linear) and theta_0 its initial parameters (0 where it is linear).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ol2r_cli.config.ranges import Count, Positive, Steps
from ol2r_cli.interfaces import RELEVANCE, Interaction, Oracle, RunContext
from ol2r_cli.learning.covariance import add_outer_products
from ol2r_cli.learning.model import Model
from ol2r_cli.learning.refit import GradientRefit, HistoryLoss, Sample
from ol2r_cli.ranker.model_ranker import ModelRanker
from ol2r_cli.tensor.gather import gather
from ol2r_cli.tensor.shapes import Bool, Float, Int
from ol2r_cli.tensor.streams import Random


class RidgeRegression(nn.Module):
    """The minimum for a linear score: theta = A^-1 b with A = l2 I + sum x x^T and b = sum y x, updated in O(K F^2) a
    round. `l2` > 0."""

    theta: Tensor
    inverse: Tensor
    moment: Tensor

    def __init__(self, l2: float):
        super().__init__()
        self.l2 = l2

    def setup(self, context: RunContext, features: Float[Tensor, "N F"]) -> None:
        place: dict[str, Any] = {"dtype": context.dtype, "device": context.device}
        self.register_buffer("theta", torch.zeros(context.replicas, 1, context.features, **place))
        self.register_buffer("moment", torch.zeros(context.replicas, context.features, **place))
        inverse = torch.eye(context.features, **place) / self.l2
        self.register_buffer("inverse", inverse.expand(context.replicas, -1, -1).clone())

    def learn(self, interaction: Interaction, target: Float[Tensor, "B K"], random: Random) -> None:
        """Add the documents shown; `target` is 0 at places that are not shown."""
        rows = gather(interaction.candidates.features, interaction.ranking) * interaction.shown[:, :, None]
        add_outer_products(self.inverse, rows)
        self.moment += torch.bmm(target[:, None], rows).squeeze(1)
        torch.bmm(self.moment[:, None], self.inverse, out=self.theta)


class ShownDocuments(HistoryLoss):
    """The squared loss over every document shown so far and its target. The entries are documents."""

    document: Tensor
    target: Tensor

    def setup(self, context: RunContext, features: Float[Tensor, "N F"]) -> None:
        """Reserve room for K documents in each of the run's rounds."""
        self.features, per_round = features.to(context.device), min(context.positions, context.documents)
        self.reserve(context, context.rounds * per_round, per_round)
        shape, device = (context.replicas, self.capacity + 1), context.device
        self.register_buffer("document", torch.zeros(shape, dtype=torch.int32, device=device))
        self.register_buffer("target", torch.zeros(shape, dtype=context.dtype, device=device))

    def append(self, interaction: Interaction, target: Float[Tensor, "B K"]) -> Bool[Tensor, "B"]:
        """Remember what was shown; returns the replicas in which any document was."""
        shown = interaction.shown
        place = torch.where(shown, self.count[:, None] + shown.cumsum(1) - 1, self.capacity)
        self.document[self.replica, place] = interaction.candidates.document.gather(1, interaction.ranking).int()
        self.target[self.replica, place] = target
        self.count += shown.sum(1)
        return shown.any(1)

    def sample(self, index: Int[Tensor, "B X"]) -> Sample:
        """Documents of the history."""
        valid, target = index < self.count[:, None], self.target[self.replica, index]

        def pull(scores: Float[Tensor, "B N X"]) -> Float[Tensor, "B N X"]:
            return (target[:, None] - scores) * valid[:, None]

        return Sample(self.document[self.replica, index], pull, valid.sum(1).to(torch.float32))


class GradientRegression(nn.Module):
    """Gradient steps for any model, from its initial parameters: `refit` runs after every round, on the history."""

    theta: Tensor
    start: Tensor

    def __init__(self, model: Model, refit: GradientRefit):
        super().__init__()
        self.model, self.refit, self.history = model, refit, ShownDocuments()

    def setup(self, context: RunContext, features: Float[Tensor, "N F"]) -> None:
        initial = self.model.initial(context.random, context.features, 1)
        theta = initial.to(context.device, context.dtype).expand(context.replicas, -1, -1).contiguous()
        self.register_buffer("start", theta)
        self.register_buffer("theta", theta.clone())
        self.history.setup(context, features)

    def learn(self, interaction: Interaction, target: Float[Tensor, "B K"], random: Random) -> None:
        moved = self.history.append(interaction, target)
        self.refit(self.theta, self.start, self.model, self.history, random, moved)


class IPSRegression(ModelRanker):
    """Scores are estimates r of relevance: they minimise the sum over shown documents of r^2 + c/p (1 - 2 r).

    c is 1 for a click, p the exposure of the place: the run's `exposure` where the dataset has groups, else 1/rank.
    `l2` is the weight of |theta - theta_0|^2 in that sum, times the model's width. A linear score is at the minimum
    after every round; a network takes `steps` of `learning_rate` on `batch` documents, as in `GradientRefit`.
    """

    pairs = "none"

    def __init__(self, model: Model, l2: Positive, steps: Steps, learning_rate: Positive, batch: Count | None):
        super().__init__(model)
        refit = GradientRefit(steps, learning_rate, batch, restart=False, l2=l2, reduction="sum")
        self.regression = RidgeRegression(l2) if model.linear else GradientRegression(model, refit)
        self.offers = self.offers | {RELEVANCE}

    def setup(self, context: RunContext, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """Start without any evidence. ValueError where a place that is shown has exposure 0."""
        positions = min(context.positions, context.documents)
        exposure = context.exposure_of_places()[:positions]
        if not (exposure > 0).all():
            values = [round(value, 4) for value in exposure.tolist()]
            raise ValueError(f"exposure must be above 0 at every place with ranker=ips_regression, got {values}")
        self.weight = (1 / exposure).to(context.device, context.dtype)  # [K]
        self.regression.setup(context, features)

    def weights(self) -> Float[Tensor, "B N P"]:
        return self.regression.theta

    def learn(self, interaction: Interaction, random: Random) -> None:
        """The loss of a document is (r - c/p)^2 up to a constant: least squares with the target c/p."""
        clicks = interaction.clicks & interaction.shown
        self.regression.learn(interaction, clicks * self.weight[: clicks.shape[1]], random)
