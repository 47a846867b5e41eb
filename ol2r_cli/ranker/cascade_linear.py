"""CascadeLinUCB and CascadeLinTS (Zong, Ni, Sung, Ke, Wen and Kveton, "Cascading Bandits for Large-Scale Recommendation
Problems", UAI 2016, algorithms 1 and 2)."""

from __future__ import annotations

import torch
from torch import Tensor

from ol2r_cli.config.ranges import NonNegative, Positive
from ol2r_cli.interfaces import Candidates, Interaction, Oracle, Prediction, RunContext
from ol2r_cli.learning.cascade_feedback import Feedback, examined
from ol2r_cli.learning.tangents import LinearTangent
from ol2r_cli.ranker.model_ranker import LinearRanker
from ol2r_cli.tensor.gather import gather
from ol2r_cli.tensor.shapes import Float
from ol2r_cli.tensor.streams import Random


class CascadeLinear(LinearRanker):
    """Predicts attraction, the probability of a click on an examined document, by theta.x; theta is for all queries.

    theta = M^-1 b / sigma^2 with M = I + sum x x^T / sigma^2 and b = sum c x over all documents examined so far, c
    being 1 for a click. `feedback` says which places of a list were examined. theta is deployed.
    """

    pairs = "none"

    precision: Tensor
    clicked: Tensor

    def __init__(self, sigma: Positive, feedback: Feedback):
        super().__init__()
        self.sigma, self.feedback = sigma, feedback

    def setup(self, context: RunContext, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """Start without observations: M = I, b = 0."""
        identity = torch.eye(context.features, dtype=context.dtype, device=context.device)
        self.register_buffer("precision", identity.repeat(context.replicas, 1, 1))  # M
        self.register_buffer("clicked", identity.new_zeros(context.replicas, context.features))  # b

    def root(self) -> Float[Tensor, "B F F"]:
        """Return the lower triangle L with L L^T = M."""
        return torch.linalg.cholesky_ex(self.precision).L

    def theta(self, root: Float[Tensor, "B F F"]) -> Float[Tensor, "B F"]:
        """Return M^-1 b / sigma^2, given the root of M."""
        return torch.cholesky_solve(self.clicked[:, :, None], root).squeeze(2) / self.sigma**2

    def weights(self) -> Float[Tensor, "B N P"]:
        """One member: theta."""
        return self.theta(self.root())[:, None]

    def learn(self, interaction: Interaction, random: Random) -> None:
        """Add the examined documents to M, and those clicked to b."""
        counts = examined(interaction, self.feedback)
        rows = gather(interaction.candidates.features, interaction.ranking)
        observed = rows * counts[:, :, None]
        self.precision.baddbmm_(observed.mT, observed, alpha=self.sigma**-2)
        self.clicked.add_((observed * interaction.clicks[:, :, None]).sum(1))


class CascadeLinUCB(CascadeLinear):
    """Scores min(1, theta.x + alpha sqrt(x^T M^-1 x))."""

    def __init__(self, sigma: Positive, alpha: NonNegative, feedback: Feedback):
        super().__init__(sigma, feedback)
        self.alpha = alpha

    def predict(self, candidates: Candidates, random: Random) -> Prediction:
        """Upper confidence bounds of attraction."""
        features, root = candidates.features, self.root()
        width = torch.linalg.solve_triangular(root, features.mT, upper=False).norm(dim=1)
        scores = (features * self.theta(root)[:, None]).sum(2) + self.alpha * width
        return Prediction(scores.clamp(max=1)[:, None], lambda: LinearTangent(features))


class CascadeLinTS(CascadeLinear):
    """Scores theta'.x with theta' drawn from N(theta, M^-1) in every round."""

    def predict(self, candidates: Candidates, random: Random) -> Prediction:
        """Attraction by the drawn weights: with z standard normal, L^-T z has the covariance M^-1."""
        features, root = candidates.features, self.root()
        normal = random.normal(root.shape[1]).to(root.dtype)[:, :, None]
        drawn = self.theta(root) + torch.linalg.solve_triangular(root.mT, normal, upper=True).squeeze(2)
        return Prediction((features * drawn[:, None]).sum(2)[:, None], lambda: LinearTangent(features))
