"""The anchors between which rankers are: one that orders at random, and one with access to the true labels."""

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


class OracleRanker(Ranker):
    """Scores every document by its relevance label. Its NDCG is 1 wherever a query has a relevant document."""

    needs_labels = True

    nothing: Tensor

    def setup(self, context: RunContext, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """Keep the labels of all documents."""
        if oracle is None:
            raise ValueError("ranker=oracle needs the labels of the dataset")
        self.labels = oracle.labels.to(context.device, context.dtype)
        self.register_buffer("nothing", features.new_zeros(context.replicas, 0, device=context.device))

    def predict(self, candidates: Candidates, random: Random) -> Prediction:
        """The labels."""
        return Prediction(self.labels[candidates.document][:, None], lambda: LinearTangent(candidates.features))

    def deploy(self) -> Float[Tensor, "B P"]:
        """Nothing: labels are not learned."""
        return self.nothing

    def score(self, deployed: Float[Tensor, "S P"], candidates: Candidates) -> Float[Tensor, "S Q D"]:
        """The labels."""
        return self.labels[candidates.document].expand(len(deployed), -1, -1)
