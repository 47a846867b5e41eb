"""Relevance regression by inverse propensity scoring, the ranker of FairCo (Morik, Singh, Hong and Joachims,
"Controlling Fairness and Bias in Dynamic Learning-to-Rank", SIGIR 2020, section 5)."""

from __future__ import annotations

from torch import Tensor

from ol2r_cli.config.ranges import Count, Positive, Steps
from ol2r_cli.interfaces import RELEVANCE, Interaction, Oracle, RunContext
from ol2r_cli.learning.model import Model
from ol2r_cli.learning.refit import GradientRefit
from ol2r_cli.learning.regression import GradientRegression, RidgeRegression
from ol2r_cli.ranker.model_ranker import ModelRanker
from ol2r_cli.tensor.shapes import Float
from ol2r_cli.tensor.streams import Random


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
        """One member: theta."""
        return self.regression.theta

    def learn(self, interaction: Interaction, random: Random) -> None:
        """The loss of a document is (r - c/p)^2 up to a constant: least squares with the target c/p."""
        clicks = interaction.clicks & interaction.shown
        self.regression.learn(interaction, clicks * self.weight[: clicks.shape[1]], random)
