"""Skylines that are fitted offline to the true labels of all training queries, and never learn."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import torch
from torch import Tensor

from ol2r_cli.config.ranges import Count, Positive, Range, WholeNumber
from ol2r_cli.interfaces import Candidates, Oracle, Prediction, Ranker, RunContext
from ol2r_cli.learning.lambdamart_fit import LambdaMARTFit, RegressionTrees
from ol2r_cli.learning.model import Model
from ol2r_cli.learning.offline_fits import NetworkFit, cached_fit, fit_key, fit_ranknet
from ol2r_cli.learning.tangents import LinearTangent
from ol2r_cli.ranker.model_ranker import LinearRanker, ModelRanker
from ol2r_cli.tensor.shapes import Float
from ol2r_cli.tensor.streams import Random

LEAST_WORK = 10_000  # feature values and pairs of documents; a fit to fewer takes less than a second

Leaves = Annotated[int, Range(2, 512)]  # the depth of what LightGBM describes as nested JSON


class OfflineRanker(Ranker):
    """Fits parameters theta before the first round, and keeps them in `cache_dir` under everything that decides them.

    All replicas share theta, which does not depend on the seeds of the run.
    """

    needs_labels = True
    choice = ""  # its name in messages

    theta: Tensor
    cache_dir: str

    def setup(self, context: RunContext, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """Fit, or load an earlier fit. ValueError where that is not possible."""
        if oracle is None:
            raise ValueError(f"ranker={self.choice} needs the labels of the dataset")
        settings = self.decisive(features, oracle, context)
        if int((oracle.length * (oracle.length + features.shape[1])).sum()) < LEAST_WORK:
            theta = self.fitted(features, oracle, context)
        else:
            key = fit_key(features, oracle, context.code, self.choice, *settings)
            theta = cached_fit(self.cache_dir, key, lambda: self.fitted(features, oracle, context))
        self.register_buffer("theta", theta.to(context.device, context.dtype).expand(context.replicas, -1).clone())

    def decisive(self, features: Float[Tensor, "N F"], oracle: Oracle, context: RunContext) -> list[Any]:
        """Return what decides the fit, besides features, labels and code."""
        raise NotImplementedError

    def fitted(self, features: Float[Tensor, "N F"], oracle: Oracle, context: RunContext) -> Float[Tensor, "P"]:
        raise NotImplementedError


class OfflineRankNet(OfflineRanker, LinearRanker):
    """A linear RankNet. `l2` is lambda, per pair: mean cross-entropy + l2/2 |theta|^2."""

    choice = "offline_ranknet"

    def __init__(self, l2: Positive, cache_dir: str):
        super().__init__()
        self.l2, self.cache_dir = float(l2), cache_dir

    def weights(self) -> Float[Tensor, "B N F"]:
        return self.theta[:, None]

    def decisive(self, features: Float[Tensor, "N F"], oracle: Oracle, context: RunContext) -> list[Any]:
        return [self.l2]

    def fitted(self, features: Float[Tensor, "N F"], oracle: Oracle, context: RunContext) -> Float[Tensor, "F"]:
        """Return the optimum; ValueError where it is out of reach."""
        try:
            return fit_ranknet(features, oracle, self.l2)
        except FloatingPointError as error:
            setting = self.setting("l2")
            raise ValueError(f"{setting} must be larger to fit these features, got {self.l2} ({error})") from error


class OfflineNetwork(OfflineRanker, ModelRanker):
    """A model fitted with `loss`, `learning_rate`, `batch`, `epochs`, `patience` and `seed` as in `NetworkFit`."""

    choice = "offline_network"

    def __init__(
        self,
        model: Model,
        loss: Literal["ranknet", "lambdarank"],
        learning_rate: Positive,
        batch: Count,
        epochs: Count,
        patience: Count,
        seed: WholeNumber,
        cache_dir: str,
    ):
        super().__init__(model)
        self.fit = NetworkFit(loss, learning_rate, batch, epochs, patience, seed)
        self.cache_dir = cache_dir

    def weights(self) -> Float[Tensor, "B N P"]:
        return self.theta[:, None]

    def decisive(self, features: Float[Tensor, "N F"], oracle: Oracle, context: RunContext) -> list[Any]:
        kind = type(self.model)
        model = f"{kind.__module__}.{kind.__qualname__}", getattr(self.model, "__dict__", repr(self.model))
        return [*model, vars(self.fit)]

    def fitted(self, features: Float[Tensor, "N F"], oracle: Oracle, context: RunContext) -> Float[Tensor, "P"]:
        return self.fit(self.model, features, oracle)


class OfflineLambdaMART(OfflineRanker):
    """Trees fitted with `trees`, `leaves`, `learning_rate`, `min_documents`, `truncation_level`, `patience` and `seed`
    as in `LambdaMARTFit`. The version of LightGBM decides them as well; only the fit needs it.
    """

    choice = "offline_lambdamart"
    pairs = "none"
    packages = ("lightgbm",)

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

    def decisive(self, features: Float[Tensor, "N F"], oracle: Oracle, context: RunContext) -> list[Any]:
        """Return version, settings and validation split; ValueError without LightGBM."""
        if self.fit.patience is not None and oracle.validation is None:
            setting = self.setting("patience")
            raise ValueError(f"{setting} needs a dataset with a validation split: type {setting}=null")
        try:
            import lightgbm
        except (ImportError, OSError) as error:  # OSError: a library that it needs is missing
            needs = "ranker=offline_lambdamart needs LightGBM"
            raise ValueError(f"{needs} ({error}): type pip install 'ol2r[lightgbm]'") from None
        watched = None if self.fit.patience is None else oracle.validation
        validation = "" if watched is None else fit_key(features, watched)
        return [lightgbm.__version__, vars(self.fit), context.grades, validation]

    def fitted(self, features: Float[Tensor, "N F"], oracle: Oracle, context: RunContext) -> Float[Tensor, "P"]:
        return self.trees.parameters(self.fit(features, oracle, context.grades))

    def predict(self, candidates: Candidates, random: Random) -> Prediction:
        """Return the sum of the trees, which all replicas share."""
        scores = self.trees.scores(self.theta[0], candidates.features.flatten(0, 1)).view(candidates.mask.shape)
        return Prediction(scores[:, None], lambda: LinearTangent(candidates.features))

    def deploy(self) -> Float[Tensor, "B P"]:
        return self.theta.clone()

    def score(self, deployed: Float[Tensor, "S P"], candidates: Candidates) -> Float[Tensor, "S Q D"]:
        """Return the sum of the trees of each snapshot."""
        different, of = deployed.unique(dim=0, return_inverse=True)  # the snapshots of a run are equal
        documents = candidates.features.flatten(0, 1)
        scores = torch.stack([self.trees.scores(parameters, documents) for parameters in different])
        return scores[of].unflatten(1, candidates.mask.shape)
