"""The skyline of rankers with trees: LambdaMART trained offline on the true labels by LightGBM."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor

from ol2r_cli.config.ranges import Count, Positive, Range, WholeNumber
from ol2r_cli.interfaces import Candidates, Oracle, Prediction, Ranker, RunContext
from ol2r_cli.learning.fit_cache import cached_fit, fit_key
from ol2r_cli.learning.lambdamart_fit import LambdaMARTFit
from ol2r_cli.learning.regression_trees import RegressionTrees
from ol2r_cli.learning.tangents import LinearTangent
from ol2r_cli.tensor.shapes import Float
from ol2r_cli.tensor.streams import Random
from ol2r_cli.tensor.synchronisation import is_host_readable

LEAST_WORK = 100_000  # feature values and pairs of documents; a fit to fewer takes a fraction of a second

Leaves = Annotated[int, Range(2, 512)]  # the depth of what LightGBM describes as nested JSON


class OfflineLambdaMART(Ranker):
    """Trees fitted to the true labels of all training queries before the first round; it never learns.

    `trees`, `leaves`, `learning_rate`, `min_documents`, `truncation_level`, `patience` and `seed` as in
    `LambdaMARTFit`. The trees do not depend on the seeds of the run. They are fitted once for each dataset, labels,
    settings and version of LightGBM, and kept in `cache_dir`. Only the fit needs LightGBM.
    """

    needs_labels = True
    pairs = "none"
    packages = ("lightgbm",)

    theta: Tensor

    def __init__(
        self,
        trees: Count,
        leaves: Leaves,
        learning_rate: Positive,
        min_documents: Count,
        truncation_level: Count,
        patience: Count | None,
        seed: WholeNumber,
        cache_dir: str,
    ):
        super().__init__()
        self.fit = LambdaMARTFit(trees, leaves, learning_rate, min_documents, truncation_level, patience, seed)
        self.trees, self.cache_dir = RegressionTrees(trees, leaves), cache_dir

    def setup(self, context: RunContext, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """Fit, or load an earlier fit; all replicas share it. ValueError without LightGBM."""
        if oracle is None:
            raise ValueError("ranker=offline_lambdamart needs the labels of the dataset")
        if self.fit.patience is not None and oracle.validation is None:
            setting = self.setting("patience")
            raise ValueError(f"{setting} needs a dataset with a validation split: type {setting}=null")
        theta = self._fitted(features, oracle, context)
        self.register_buffer("theta", theta.to(context.device, context.dtype).expand(context.replicas, -1).clone())

    def predict(self, candidates: Candidates, random: Random) -> Prediction:
        """The sum of the trees, which all replicas share."""
        scores = self.score(self.theta[:1], candidates)
        return Prediction(scores.transpose(0, 1), lambda: LinearTangent(candidates.features))

    def deploy(self) -> Float[Tensor, "B P"]:
        """A copy of the trees."""
        return self.theta.clone()

    def score(self, deployed: Float[Tensor, "S P"], candidates: Candidates) -> Float[Tensor, "S Q D"]:
        """The sum of the trees of each snapshot."""
        of = torch.arange(len(deployed), device=deployed.device)
        if is_host_readable(deployed):  # the snapshots of a run are equal
            deployed, of = deployed.unique(dim=0, return_inverse=True)
        documents = candidates.features.flatten(0, 1)
        scores = torch.stack([self.trees.scores(parameters, documents) for parameters in deployed])
        return scores[of].unflatten(1, candidates.mask.shape)

    def _fitted(self, features: Float[Tensor, "N F"], oracle: Oracle, context: RunContext) -> Float[Tensor, "P"]:
        try:
            import lightgbm
        except (ImportError, OSError) as error:  # OSError: a library that it needs is missing
            needs = "ranker=offline_lambdamart needs LightGBM"
            raise ValueError(f"{needs} ({error}): type pip install 'ol2r[lightgbm]'") from None

        def fit() -> Tensor:
            return self.trees.parameters(self.fit(features, oracle, context.grades))

        work = int((oracle.length * (oracle.length + features.shape[1])).sum())
        if work < LEAST_WORK:
            return fit()
        settings = [lightgbm.__version__, vars(self.fit), context.grades, context.code]
        if self.fit.patience is not None and oracle.validation is not None:
            settings.append(fit_key(features, oracle.validation))
        return cached_fit(self.cache_dir, fit_key(features, oracle, *settings), fit)
