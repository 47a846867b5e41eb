"""The upper line of the plots for rankers with a network: RankNet or LambdaRank trained offline on the true labels."""

from __future__ import annotations

from torch import Tensor

from ol2r_cli.interfaces import Oracle, Sizes
from ol2r_cli.learning.kept import fit_file, kept
from ol2r_cli.learning.model import Model
from ol2r_cli.learning.offline_network import NetworkFit
from ol2r_cli.ranker.linear import ModelRanker
from ol2r_cli.shapes import Float

VERSION = "network 1"  # of the fit: another one when its numbers change
WORTH = 10_000  # feature values and pairs of documents; a fit to fewer takes less than a second


class OfflineNetwork(ModelRanker):
    """A model fitted to the true labels of all training queries before the first round; it never learns.

    `loss`, `learning_rate`, `batch`, `epochs`, `patience` and `seed` as in `NetworkFit`. The parameters do not depend
    on the seeds of the run; they are kept in `cache_dir`, by dataset, labels, model and settings, and fitted once.
    """

    needs_labels = True

    theta: Tensor

    def __init__(
        self,
        model: Model,
        loss: str,
        learning_rate: float,
        batch: int,
        epochs: int,
        patience: int,
        seed: int,
        cache_dir: str,
    ):
        super().__init__(model)
        self.fit = NetworkFit(loss, learning_rate, batch, epochs, patience, seed)
        self.cache_dir = cache_dir

    def setup(self, sizes: Sizes, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """Fit, or fetch what was fitted before; all replicas share it."""
        if oracle is None:
            raise ValueError("ranker=offline_network needs the labels of the dataset")
        theta = self._trained(features, oracle)
        self.register_buffer("theta", theta.to(sizes.device, sizes.dtype).expand(sizes.replicas, 1, -1).clone())

    def weights(self) -> Float[Tensor, "B N P"]:
        """One member: theta."""
        return self.theta

    def _trained(self, features: Float[Tensor, "N F"], oracle: Oracle) -> Float[Tensor, "P"]:
        def fit() -> Tensor:
            return self.fit(self.model, features, oracle)

        work = int((oracle.length * (oracle.length + features.shape[1])).sum())
        if work < WORTH:
            return fit()
        kind = type(self.model)
        model = f"{kind.__module__}.{kind.__qualname__}", getattr(self.model, "__dict__", repr(self.model))
        return kept(fit_file(self.cache_dir, features, oracle, VERSION, *model, vars(self.fit)), fit)
