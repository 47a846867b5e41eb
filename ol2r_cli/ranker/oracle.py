"""The upper anchor: a ranker that knows the true labels."""

from __future__ import annotations

from torch import Tensor

from ol2r_cli.interfaces import Belief, Candidates, Oracle, Ranker, Sizes
from ol2r_cli.learning.tangent import LinearTangent
from ol2r_cli.random import Random
from ol2r_cli.shapes import Float


class OracleRanker(Ranker):
    """Scores every document by its relevance label. Its NDCG is 1 wherever a query has a relevant document."""

    needs_labels = True

    nothing: Tensor

    def setup(self, sizes: Sizes, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """Keep the labels of all documents."""
        if oracle is None:
            raise ValueError("ranker=oracle needs the labels of the dataset")
        self.labels = oracle.labels.to(sizes.device, sizes.dtype)
        self.register_buffer("nothing", features.new_zeros(sizes.replicas, 0, device=sizes.device))

    def judge(self, candidates: Candidates, random: Random) -> Belief:
        """The labels."""
        return Belief(self.labels[candidates.document][:, None], lambda: LinearTangent(candidates.features))

    def deploy(self) -> Float[Tensor, "B P"]:
        """Nothing: labels are not learned."""
        return self.nothing

    def score(self, deployed: Float[Tensor, "S P"], candidates: Candidates) -> Float[Tensor, "S Q D"]:
        """The labels."""
        return self.labels[candidates.document].expand(len(deployed), -1, -1)
