"""The anchors between which rankers are: one that orders at random, and one with access to the true labels."""

from __future__ import annotations

from torch import Tensor

from ol2r_cli.interfaces import Candidates, Oracle, Prediction, RunContext
from ol2r_cli.learning.tangents import LinearTangent
from ol2r_cli.ranker.model_ranker import ParameterFree
from ol2r_cli.tensor.shapes import Float
from ol2r_cli.tensor.streams import Random


class RandomRanker(ParameterFree):
    """Uniformly random scores every round; evaluated with all scores equal, so that ties are broken at random."""

    def predict(self, candidates: Candidates, random: Random) -> Prediction:
        scores = random.uniform(candidates.mask.shape[1]).to(candidates.features.dtype)
        return Prediction(scores[:, None], lambda: LinearTangent(candidates.features))


class OracleRanker(ParameterFree):
    """Scores every document by its relevance label. Its NDCG is 1 wherever a query has a relevant document."""

    needs_labels = True

    def setup(self, context: RunContext, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        if oracle is None:
            raise ValueError("ranker=oracle needs the labels of the dataset")
        super().setup(context, features)
        self.labels = oracle.labels.to(context.device, context.dtype)

    def predict(self, candidates: Candidates, random: Random) -> Prediction:
        return Prediction(self.labels[candidates.document][:, None], lambda: LinearTangent(candidates.features))

    def score(self, deployed: Float[Tensor, "S P"], candidates: Candidates) -> Float[Tensor, "S Q D"]:
        return self.labels[candidates.document].expand(len(deployed), -1, -1)
