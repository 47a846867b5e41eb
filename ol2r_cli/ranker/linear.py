"""Rankers that score a document with a model, among them those that are linear and know their optimum exactly."""

from __future__ import annotations

import torch
from torch import Tensor

from ol2r_cli.interfaces import FEATURES, TANGENT, Belief, Candidates, Interaction, Oracle, Ranker, Sizes
from ol2r_cli.learning.model import Model
from ol2r_cli.learning.tangent import LinearTangent
from ol2r_cli.random import Random
from ol2r_cli.ranker.model.linear import Linear
from ol2r_cli.rows import pick
from ol2r_cli.shapes import Bool, Float


class ModelRanker(Ranker):
    """Every member scores with the same model and parameters of its own; what is deployed are parameters, too."""

    def __init__(self, model: Model):
        super().__init__()
        self.model, self.linear, self.dtype = model, model.linear, model.dtype
        if not model.linear:
            self.offers = self.offers - {FEATURES} | {TANGENT}

    def size(self, features: int) -> int:
        """That of the model."""
        return self.model.size(features)

    def weights(self) -> Float[Tensor, "B N P"]:
        """The parameters of every member, for the round to come."""
        raise NotImplementedError

    def deploy(self) -> Float[Tensor, "B P"]:
        """The parameters that serve without exploration; of one member its own."""
        return self.weights()[:, 0].clone()

    def judge(self, candidates: Candidates, random: Random) -> Belief:
        """Every member's scores."""
        forward = self.model.forward(self.weights(), candidates.features)
        return Belief(forward.scores, forward.tangent)

    def score(self, deployed: Float[Tensor, "S P"], candidates: Candidates) -> Float[Tensor, "S Q D"]:
        """Scores of every setting; where several members are deployed, one after the other, their mean."""
        documents = candidates.features.flatten(0, 1)[None]
        every = deployed.unflatten(1, (-1, self.model.size(documents.shape[2])))
        members = every.shape[1]
        at_once = len(deployed) if self.linear else 1  # a network's hidden layers should fit a cache
        parts = [self.model.forward(some.flatten(0, 1)[None], documents).scores[0] for some in every.split(at_once)]
        scores = torch.cat(parts).unflatten(1, candidates.mask.shape)
        return scores if members == 1 else scores.unflatten(0, (-1, members)).mean(1)


class LinearRanker(ModelRanker):
    """Scores theta.x, multiplied and summed row by row: equal documents get equal scores to the last bit, so that
    nobody can be certain of their order."""

    def __init__(self) -> None:
        super().__init__(Linear())

    def judge(self, candidates: Candidates, random: Random) -> Belief:
        """Every member's scores."""
        features = candidates.features
        tangent = LinearTangent(features)
        scores = torch.stack([(features * theta[:, None]).sum(2) for theta in self.weights().unbind(1)], dim=1)
        return Belief(scores, lambda: tangent)


class GradientRanker(ModelRanker):
    """Takes a step per round, along a direction that its subclass finds, from the model's initial parameters.

    `learning_rate` > 0 is the length of the first step in units of the direction; it is multiplied by `decay`, in
    (0, 1], after every round that moved theta.
    """

    theta: Tensor
    rate: Tensor

    def __init__(self, model: Model, learning_rate: float, decay: float):
        super().__init__(model)
        if not learning_rate > 0:
            raise ValueError(f"ranker.learning_rate must be above 0, got {learning_rate}")
        if not 0 < decay <= 1:
            raise ValueError(f"ranker.decay must be above 0 and at most 1, got {decay}")
        self.learning_rate, self.decay = learning_rate, decay

    def setup(self, sizes: Sizes, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """Start at the model's initial parameters: theta = 0 where it is linear."""
        initial = self.model.initial(sizes.random, sizes.features, 1)[..., 0, :]
        theta = initial.to(sizes.device, sizes.dtype).expand(sizes.replicas, -1).clone()
        self.register_buffer("theta", theta)
        self.register_buffer("rate", torch.full_like(theta[:, :1], self.learning_rate))

    def weights(self) -> Float[Tensor, "B N P"]:
        """One member: theta."""
        return self.theta[:, None]

    def gradient(self, features: Float[Tensor, "B X F"], weights: Float[Tensor, "B X"]) -> Float[Tensor, "B P"]:
        """The gradient of the weighted sum of these documents' scores, over the model's width m: theta follows it in
        the coordinates sqrt(m) theta, in which a network's tangent is as large as a linear model's features."""
        if self.linear:
            return torch.bmm(weights[:, None], features).squeeze(1)
        return self.model.forward(self.weights(), features).gradient(weights[:, None])[:, 0] / self.model.width

    def margins(self, interaction: Interaction) -> Float[Tensor, "B M"]:
        """Winner's less loser's score of each of the round's preferences, valid or not."""
        scores, pairs = interaction.belief.scores[:, 0], interaction.preferences
        return scores.gather(1, pairs.winner) - scores.gather(1, pairs.loser)

    def pair_gradient(self, interaction: Interaction, weights: Float[Tensor, "B M"]) -> Float[Tensor, "B P"]:
        """`gradient` of the weighted sum of these margins."""
        pairs = interaction.preferences
        rows = pick(interaction.candidates.features, torch.cat([pairs.winner, pairs.loser], dim=1))
        return self.gradient(rows, torch.cat([weights, -weights], dim=1))

    def move(self, direction: Float[Tensor, "B P"], moved: Bool[Tensor, "B"]) -> None:
        """Take a step; `direction` must be zero where not `moved`."""
        self.theta.addcmul_(direction, self.rate)
        if self.decay < 1:
            self.rate.sub_(self.rate * moved[:, None], alpha=1 - self.decay)
