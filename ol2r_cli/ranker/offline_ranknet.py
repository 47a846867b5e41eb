"""The upper line of the plots, and the direction of the cosine trace: RankNet trained offline on the true labels."""

from __future__ import annotations

from torch import Tensor

from ol2r_cli.interfaces import Oracle, Sizes
from ol2r_cli.learning.kept import fit_file, kept
from ol2r_cli.learning.offline import fit_ranknet
from ol2r_cli.ranker.linear import LinearRanker
from ol2r_cli.shapes import Float

VERSION = 1  # of the fit: raised when its numbers change
WORTH = 100_000  # feature values and pairs of documents; a fit to fewer takes less time than a file


class OfflineRankNet(LinearRanker):
    """A linear RankNet, fitted to the true labels of all training queries before the first round; it never learns.

    `l2` > 0 is lambda, per pair: mean cross-entropy + l2/2 |theta|^2. The weights are kept in `cache_dir`, by dataset,
    labels and settings, and fitted once.
    """

    needs_labels = True

    theta: Tensor

    def __init__(self, l2: float, cache_dir: str):
        super().__init__()
        if not l2 > 0:
            raise ValueError(f"ranker.l2 must be above 0, got {l2}")
        self.l2, self.cache_dir = float(l2), cache_dir

    def setup(self, sizes: Sizes, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """Fit, or fetch what was fitted before; all replicas share it."""
        if oracle is None:
            raise ValueError("ranker=offline_ranknet needs the labels of the dataset")
        theta = self._weights(features, oracle)
        self.register_buffer("theta", theta.to(sizes.device, sizes.dtype).expand(sizes.replicas, -1).clone())

    def weights(self) -> Float[Tensor, "B N F"]:
        """One member: theta."""
        return self.theta[:, None]

    def _weights(self, features: Float[Tensor, "N F"], oracle: Oracle) -> Float[Tensor, "F"]:
        def fit() -> Tensor:
            return fit_ranknet(features, oracle, self.l2)

        work = int((oracle.length * (oracle.length + features.shape[1])).sum())
        return fit() if work < WORTH else kept(fit_file(self.cache_dir, features, oracle, VERSION, self.l2), fit)
