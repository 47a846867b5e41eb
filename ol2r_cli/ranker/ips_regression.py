"""Relevance regression by inverse propensity scoring, the ranker of FairCo (Morik, Singh, Hong and Joachims,
"Controlling Fairness and Bias in Dynamic Learning-to-Rank", SIGIR 2020, section 5): least squares over all documents
shown so far, exactly for a linear score, by gradient steps for any model.

The parameters minimise

    1/2 sum over shown documents of (f(x) - y)^2  +  m l2/2 |theta - theta_0|^2,

with m the width of the model (1 where it is linear) and theta_0 its initial parameters (0 where it is linear, unless
it has a warm start).
"""

from __future__ import annotations

import torch
from torch import Tensor

from ol2r_cli.config.ranges import Count, Positive, Steps
from ol2r_cli.interfaces import RELEVANCE, Interaction, Oracle, RunContext
from ol2r_cli.learning.covariance import add_outer_products
from ol2r_cli.learning.model import Model
from ol2r_cli.learning.refit import GradientRefit, HistoryLoss, Sample
from ol2r_cli.ranker.model_ranker import HistoryRanker
from ol2r_cli.tensor.gather import gather
from ol2r_cli.tensor.shapes import Bool, Float, Int
from ol2r_cli.tensor.streams import Random


class ShownDocuments(HistoryLoss):
    """The squared loss over every document shown so far and its target. The entries are documents."""

    document: Tensor
    target: Tensor

    def setup(self, context: RunContext, features: Float[Tensor, "N F"]) -> None:
        self.features, per_round = features.to(context.device), min(context.positions, context.documents)
        self.reserve(context, context.rounds * per_round, per_round)
        self.register_entries("document", torch.int32)
        self.register_entries("target", context.dtype)

    def append(self, interaction: Interaction, target: Float[Tensor, "B K"]) -> Bool[Tensor, "B"]:
        """Remember what was shown; returns the replicas in which any document was."""
        shown = interaction.shown
        place = torch.where(shown, self.count[:, None] + shown.cumsum(1) - 1, self.capacity)
        self.document[self.replica, place] = interaction.candidates.document.gather(1, interaction.ranking).int()
        self.target[self.replica, place] = target
        self.count += shown.sum(1)
        return shown.any(1)

    def sample(self, index: Int[Tensor, "B X"]) -> Sample:
        valid, target = index < self.count[:, None], self.target[self.replica, index]

        def pull(scores: Float[Tensor, "B N X"]) -> Float[Tensor, "B N X"]:
            return (target[:, None] - scores) * valid[:, None]

        return Sample(self.document[self.replica, index], pull, valid.sum(1).to(torch.float32))


class IPSRegression(HistoryRanker):
    """Scores are estimates r of relevance: they minimise the sum over shown documents of r^2 + c/p (1 - 2 r).

    c is 1 for a click, p the exposure of the place: the run's `exposure` where the dataset has groups, else 1/rank.
    `l2` is the weight of |theta - theta_0|^2 in that sum, times the model's width. A linear score is at the minimum
    after every round: theta = A^-1 b with A = l2 I + sum x x^T and b = sum c/p x, updated in O(K F^2). A network takes
    `steps` of `learning_rate` on `batch` documents, as in `GradientRefit`.
    """

    pairs = "none"

    inverse: Tensor
    moment: Tensor

    def __init__(self, model: Model, l2: Positive, steps: Steps, learning_rate: Positive, batch: Count | None):
        super().__init__(model, every=1, growth=1.0)
        self.l2, self.history = l2, ShownDocuments()
        self.refit = GradientRefit(steps, learning_rate, batch, restart=False, l2=l2, reduction="sum")
        self.offers = self.offers | {RELEVANCE}

    def setup(self, context: RunContext, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """Start without any evidence. ValueError where a place that is shown has exposure 0."""
        super().setup(context, features)
        positions = min(context.positions, context.documents)
        exposure = context.exposure_of_places()[:positions]
        if not (exposure > 0).all():
            values = [round(value, 4) for value in exposure.tolist()]
            raise ValueError(f"exposure must be above 0 at every rank with ranker=ips_regression, got {values}")
        self.weight = (1 / exposure).to(context.device, context.dtype)  # [K]
        if self.linear:
            self.register_buffer("moment", torch.zeros_like(self.theta[:, 0]))
            inverse = torch.eye(context.features, dtype=context.dtype, device=context.device) / self.l2
            self.register_buffer("inverse", inverse.expand(context.replicas, -1, -1).clone())
        else:
            self.history.setup(context, features)

    def start_from(self, parameters: Float[Tensor, "B P"]) -> None:
        super().start_from(parameters)
        if self.linear:  # theta = A^-1 b is then theta_0 before the first round
            self.moment.copy_(parameters * self.l2)

    def learn(self, interaction: Interaction, random: Random) -> None:
        """Fit to (r - c/p)^2, the loss of a document up to a constant: least squares with the target c/p."""
        clicks = interaction.clicks & interaction.shown
        target = clicks * self.weight[: clicks.shape[1]]
        if not self.linear:
            moved = self.history.append(interaction, target)
            self.refit(self.theta, self.start, self.model, self.history, random, moved)
            return
        rows = gather(interaction.candidates.features, interaction.ranking) * interaction.shown[:, :, None]
        add_outer_products(self.inverse, rows)
        self.moment += torch.bmm(target[:, None], rows).squeeze(1)
        torch.bmm(self.moment[:, None], self.inverse, out=self.theta)
