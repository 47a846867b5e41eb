"""TopRank, a bandit of its own for every query (Lattimore, Kveton, Li and Szepesvari, NeurIPS 2018, algorithm 1)."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from ol2r_cli.interfaces import FEATURES, LAYERS, STATED, Belief, Candidates, Interaction, Need, Oracle, Ranker, Sizes
from ol2r_cli.learning.tangent import LinearTangent
from ol2r_cli.random import Random
from ol2r_cli.shapes import Float

SCALE = 4 * math.sqrt(2 / math.pi) / math.erf(math.sqrt(2))  # c of the paper, 3.344 (its text prints 3.43)


class TopRank(Ranker):
    """Counts clicks between documents of the same layer until one is certainly better, query by query.

    With U_ij = c_i - c_j in a round whose layers hold i and j together, else 0, S = sum U and N = sum |U|: i is above j
    from when N > 0 and S >= sqrt(2 N log(c sqrt(N) / delta)). Documents not shown count c = 0. `delta` in (0, 1) is the
    probability of an error; null is 1/T. Nothing is known of queries never served: there is no offline evaluation.
    """

    generalises = False
    pairs = "none"
    needs = (Need(LAYERS, "exploration=stated"),)
    offers = frozenset({FEATURES, STATED})

    start: Tensor
    used: Tensor
    wins: Tensor
    above: Tensor
    nothing: Tensor

    def __init__(self, delta: float | None):
        super().__init__()
        if delta is not None and not 0 < delta < 1:
            raise ValueError(f"ranker.delta must be between 0 and 1, or null for 1/T, got {delta}")
        self.delta = delta
        self.register_load_state_dict_pre_hook(_make_room)

    def setup(self, sizes: Sizes, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """Start with an empty pool, in which every query that is served gets room for a number per pair."""
        shape = sizes.replicas, sizes.queries
        self.register_buffer("start", torch.full(shape, -1, dtype=torch.int64, device=sizes.device))
        self.register_buffer("used", torch.zeros((), dtype=torch.int64))
        self.register_buffer("wins", torch.zeros(0, dtype=torch.int32, device=sizes.device))
        self.register_buffer("above", torch.zeros(0, dtype=torch.bool, device=sizes.device))
        self.register_buffer("nothing", features.new_zeros(sizes.replicas, 0, device=sizes.device))
        self.error = self.delta or 1 / max(sizes.rounds, 2)

    def judge(self, candidates: Candidates, random: Random) -> Belief:
        """Which pairs are certain; that is all there is to say, so all scores are equal."""
        replicas, documents = candidates.mask.shape
        certain = torch.zeros(replicas, documents, documents, dtype=torch.bool, device=candidates.mask.device)
        for replica, (query, length) in enumerate(_served(candidates)):
            if self.start[replica, query] < 0:
                self._reserve(replica, query, length)
            certain[replica, :length, :length] = self._square(self.above, replica, query, length)
        scores = torch.zeros(replicas, 1, documents, dtype=candidates.features.dtype, device=certain.device)
        return Belief(scores, lambda: LinearTangent(candidates.features), certain)

    def learn(self, interaction: Interaction, random: Random) -> None:
        """Count the round's clicks, and decide what they have made certain."""
        block = interaction.draft.block
        assert block is not None
        clicked = torch.zeros_like(interaction.candidates.mask).scatter_(1, interaction.ranking, interaction.clicks)
        for replica, (query, length) in enumerate(_served(interaction.candidates)):
            click, layer = clicked[replica, :length], block[replica, :length]
            won = click[:, None] & ~click & (layer[:, None] == layer)
            wins = self._square(self.wins, replica, query, length)
            wins += won
            count = (wins + wins.T).double()
            bound = (2 * count * (SCALE * count.sqrt() / self.error).log()).sqrt()
            self._square(self.above, replica, query, length).logical_or_((count > 0) & (wins - wins.T >= bound))

    def deploy(self) -> Float[Tensor, "B P"]:
        """Nothing: see `generalises`."""
        return self.nothing

    def score(self, deployed: Float[Tensor, "S P"], candidates: Candidates) -> Float[Tensor, "S Q D"]:
        """Zero for every document."""
        return candidates.features.new_zeros(len(deployed), *candidates.mask.shape)

    def _square(self, pool: Tensor, replica: int, query: int, length: int) -> Tensor:
        """What the pool holds for the pairs of a query, [length, length], not copied."""
        first = int(self.start[replica, query])
        return pool[first : first + length * length].view(length, length)

    def _reserve(self, replica: int, query: int, length: int) -> None:
        """Room for a query served for the first time; the pool doubles when it is full."""
        first = int(self.used)
        self.start[replica, query] = first
        self.used += length * length
        missing = int(self.used) - len(self.wins)
        if missing > 0:
            room = max(missing, len(self.wins))
            self.wins = torch.cat([self.wins, self.wins.new_zeros(room)])
            self.above = torch.cat([self.above, self.above.new_zeros(room)])


def _served(candidates: Candidates) -> list[tuple[int, int]]:
    """Query and number of documents, by replica."""
    return list(zip(candidates.query.tolist(), candidates.mask.sum(1).tolist(), strict=True))


def _make_room(ranker: TopRank, state: Mapping[str, Tensor], prefix: str, *_: object) -> None:
    """Give the pool the size that it has in the checkpoint."""
    for name in "wins", "above":
        saved = state.get(prefix + name)
        if saved is not None:
            setattr(ranker, name, getattr(ranker, name).new_zeros(saved.shape))
