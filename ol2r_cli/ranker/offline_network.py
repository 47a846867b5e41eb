"""The skyline of rankers with a network: RankNet or LambdaRank trained offline on the true labels."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from ol2r_cli.config.ranges import Count, Positive, WholeNumber
from ol2r_cli.interfaces import Oracle, RunContext
from ol2r_cli.learning.fit_cache import cached_fit, fit_key
from ol2r_cli.learning.model import Model
from ol2r_cli.learning.network_fit import NetworkFit
from ol2r_cli.ranker.model_ranker import ModelRanker
from ol2r_cli.tensor.shapes import Float

LEAST_WORK = 10_000  # feature values and pairs of documents; a fit to fewer takes less than a second


class OfflineNetwork(ModelRanker):
    """A model fitted to the true labels of all training queries before the first round; it never learns.

    `loss`, `learning_rate`, `batch`, `epochs`, `patience` and `seed` as in `NetworkFit`. The parameters do not depend
    on the seeds of the run. They are fitted once for each dataset, labels, model and settings, and kept in `cache_dir`.
    """

    needs_labels = True

    theta: Tensor

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

    def setup(self, context: RunContext, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """Fit, or load an earlier fit; all replicas share it."""
        if oracle is None:
            raise ValueError("ranker=offline_network needs the labels of the dataset")
        theta = self._trained(features, oracle, context.code)
        self.register_buffer("theta", theta.to(context.device, context.dtype).expand(context.replicas, 1, -1).clone())

    def weights(self) -> Float[Tensor, "B N P"]:
        """One member: theta."""
        return self.theta

    def _trained(self, features: Float[Tensor, "N F"], oracle: Oracle, code: str) -> Float[Tensor, "P"]:
        def fit() -> Tensor:
            return self.fit(self.model, features, oracle)

        work = int((oracle.length * (oracle.length + features.shape[1])).sum())
        if work < LEAST_WORK:
            return fit()
        kind = type(self.model)
        model = f"{kind.__module__}.{kind.__qualname__}", getattr(self.model, "__dict__", repr(self.model))
        return cached_fit(self.cache_dir, fit_key(features, oracle, code, *model, vars(self.fit)), fit)
