"""Rankers that score a document by theta.x, and those of them that follow an estimated gradient."""

from __future__ import annotations

import torch
from torch import Tensor

from ol2r_cli.interfaces import Belief, Candidates, Oracle, Ranker, Sizes
from ol2r_cli.learning.tangent import LinearTangent
from ol2r_cli.random import Random
from ol2r_cli.shapes import Bool, Float


class LinearRanker(Ranker):
    """Every member's score is theta.x; what is deployed are weights, too. Subclasses say which."""

    linear = True

    def weights(self) -> Float[Tensor, "B N F"]:
        """The weights of every member, for the round to come."""
        raise NotImplementedError

    def deploy(self) -> Float[Tensor, "B P"]:
        """The weights that serve without exploration; of one member its own."""
        return self.weights()[:, 0].clone()

    def judge(self, candidates: Candidates, random: Random) -> Belief:
        """Every member's scores."""
        tangent = LinearTangent(candidates.features)
        return Belief(self.products(candidates.features), lambda: tangent)

    def products(self, features: Float[Tensor, "B D F"]) -> Float[Tensor, "B N D"]:
        """theta.x, multiplied and summed row by row: equal documents get equal scores to the last bit, so that nobody
        can be certain of their order."""
        return torch.stack([(features * theta[:, None]).sum(2) for theta in self.weights().unbind(1)], dim=1)

    def score(self, deployed: Float[Tensor, "S P"], candidates: Candidates) -> Float[Tensor, "S Q D"]:
        """Scores theta.x of every setting."""
        return (deployed @ candidates.features.flatten(0, 1).mT).unflatten(1, candidates.mask.shape)


class GradientRanker(LinearRanker):
    """Starts at theta = 0 and takes a step per round, along a direction that its subclass finds.

    `learning_rate` > 0 is the length of the first step in units of the direction; it is multiplied by `decay`, in
    (0, 1], after every round that moved theta.
    """

    theta: Tensor
    rate: Tensor

    def __init__(self, learning_rate: float, decay: float):
        super().__init__()
        if not learning_rate > 0:
            raise ValueError(f"ranker.learning_rate must be above 0, got {learning_rate}")
        if not 0 < decay <= 1:
            raise ValueError(f"ranker.decay must be above 0 and at most 1, got {decay}")
        self.learning_rate, self.decay = learning_rate, decay

    def setup(self, sizes: Sizes, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """Start at theta = 0."""
        theta = torch.zeros(sizes.replicas, sizes.features, dtype=sizes.dtype, device=sizes.device)
        self.register_buffer("theta", theta)
        self.register_buffer("rate", torch.full_like(theta[:, :1], self.learning_rate))

    def weights(self) -> Float[Tensor, "B N F"]:
        """One member: theta."""
        return self.theta[:, None]

    def products(self, features: Float[Tensor, "B D F"]) -> Float[Tensor, "B N D"]:
        """theta.x as matrix products: twice as fast, and equal to some bits that orders by score do not look at."""
        return torch.bmm(features, self.weights().mT).mT

    def move(self, direction: Float[Tensor, "B F"], moved: Bool[Tensor, "B"]) -> None:
        """Take a step; `direction` must be zero where not `moved`."""
        self.theta.addcmul_(direction, self.rate)
        if self.decay < 1:
            self.rate.sub_(self.rate * moved[:, None], alpha=1 - self.decay)
