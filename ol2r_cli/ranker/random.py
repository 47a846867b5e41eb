"""The lower anchor: a ranker that orders at random and learns nothing."""

from __future__ import annotations

from torch import Tensor

from ol2r_cli.interfaces import Candidates, Oracle, Prediction, Ranker, RunContext
from ol2r_cli.learning.tangents import LinearTangent
from ol2r_cli.tensor.shapes import Float
from ol2r_cli.tensor.streams import Random


class RandomRanker(Ranker):
    """Uniformly random scores every round; evaluated with all scores equal, so that ties are broken at random."""

    nothing: Tensor

    def setup(self, context: RunContext, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """Allocate the empty parameters that `deploy` returns."""
        self.register_buffer("nothing", features.new_zeros(context.replicas, 0, device=context.device))

    def predict(self, candidates: Candidates, random: Random) -> Prediction:
        """One uniform score per document."""
        scores = random.uniform(candidates.mask.shape[1]).to(candidates.features.dtype)
        return Prediction(scores[:, None], lambda: LinearTangent(candidates.features))

    def deploy(self) -> Float[Tensor, "B P"]:
        """Nothing."""
        return self.nothing

    def score(self, deployed: Float[Tensor, "S P"], candidates: Candidates) -> Float[Tensor, "S Q D"]:
        """Zero for every document."""
        return candidates.features.new_zeros(len(deployed), *candidates.mask.shape)
