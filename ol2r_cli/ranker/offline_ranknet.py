"""The skyline of linear rankers, and the direction of the cosine trace: RankNet fitted offline to the true labels."""

from __future__ import annotations

from torch import Tensor

from ol2r_cli.config.ranges import Positive
from ol2r_cli.interfaces import Oracle, RunContext
from ol2r_cli.learning.fit_cache import cached_fit, fit_key
from ol2r_cli.learning.ranknet_fit import fit_ranknet
from ol2r_cli.ranker.model_ranker import LinearRanker
from ol2r_cli.tensor.shapes import Float

LEAST_WORK = 100_000  # feature values and pairs of documents; a fit to fewer takes less time than a file


class OfflineRankNet(LinearRanker):
    """A linear RankNet, fitted to the true labels of all training queries before the first round; it never learns.

    `l2` is lambda, per pair: mean cross-entropy + l2/2 |theta|^2. The weights are fitted once for each dataset, labels
    and `l2`, and kept in `cache_dir`.
    """

    needs_labels = True

    theta: Tensor

    def __init__(self, l2: Positive, cache_dir: str):
        super().__init__()
        self.l2, self.cache_dir = float(l2), cache_dir

    def setup(self, context: RunContext, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """Fit, or load an earlier fit; all replicas share it. ValueError where the optimum is out of reach."""
        if oracle is None:
            raise ValueError("ranker=offline_ranknet needs the labels of the dataset")
        theta = self._weights(features, oracle, context.code)
        self.register_buffer("theta", theta.to(context.device, context.dtype).expand(context.replicas, -1).clone())

    def weights(self) -> Float[Tensor, "B N F"]:
        """One member: theta."""
        return self.theta[:, None]

    def _weights(self, features: Float[Tensor, "N F"], oracle: Oracle, code: str) -> Float[Tensor, "F"]:
        def fit() -> Tensor:
            try:
                return fit_ranknet(features, oracle, self.l2)
            except FloatingPointError as error:
                setting = self.setting("l2")
                raise ValueError(f"{setting} must be larger to fit these features, got {self.l2} ({error})") from error

        work = int((oracle.length * (oracle.length + features.shape[1])).sum())
        if work < LEAST_WORK:
            return fit()
        return cached_fit(self.cache_dir, fit_key(features, oracle, code, self.l2), fit)
