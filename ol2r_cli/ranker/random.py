"""The lower anchor: a ranker that orders at random and learns nothing."""

from __future__ import annotations

from torch import Tensor

from ol2r_cli.interfaces import Belief, Candidates, Oracle, Ranker, Sizes
from ol2r_cli.learning.tangent import LinearTangent
from ol2r_cli.random import Random
from ol2r_cli.shapes import Float


class RandomRanker(Ranker):
    """Uniformly random scores every round; evaluated with all scores equal, so that ties are broken at random."""

    nothing: Tensor

    def setup(self, sizes: Sizes, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """There is nothing to allocate but the empty answer of `deploy`."""
        self.register_buffer("nothing", features.new_zeros(sizes.replicas, 0, device=sizes.device))

    def judge(self, candidates: Candidates, random: Random) -> Belief:
        """One uniform score per document."""
        scores = random.uniform(candidates.mask.shape[1]).to(candidates.features.dtype)
        return Belief(scores[:, None], lambda: LinearTangent(candidates.features))

    def deploy(self) -> Float[Tensor, "B P"]:
        """Nothing."""
        return self.nothing

    def score(self, deployed: Float[Tensor, "S P"], candidates: Candidates) -> Float[Tensor, "S Q D"]:
        """Zero for every document."""
        return candidates.features.new_zeros(len(deployed), *candidates.mask.shape)
