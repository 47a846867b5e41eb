"""TopRank, a bandit of its own for every query (Lattimore, Kveton, Li and Szepesvari, NeurIPS 2018, algorithm 1)."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from ol2r_cli.host import on_host
from ol2r_cli.interfaces import FEATURES, LAYERS, STATED, Belief, Candidates, Interaction, Need, Oracle, Ranker, Sizes
from ol2r_cli.learning.tangent import LinearTangent
from ol2r_cli.random import Random
from ol2r_cli.rows import places
from ol2r_cli.shapes import Bool, Float, Int

SCALE = 4 * math.sqrt(2 / math.pi) / math.erf(math.sqrt(2))  # c of the paper, 3.344 (its text prints 3.43)
ROUNDS = 64  # for which there is room, on a GPU, from when it is asked how much there is


class TopRank(Ranker):
    """Counts clicks between documents of the same layer until one is certainly better, query by query.

    With U_ij = c_i - c_j in a round whose layers hold i and j together, else 0, S = sum U and N = sum |U|: i is above j
    from when N > 0 and S >= sqrt(2 N log(c sqrt(N) / delta)). Documents not shown count c = 0. `delta` in (0, 1) is the
    probability of an error; null is 1/T. Nothing is known of queries never served: there is no offline evaluation.

    Queries share a pool, in which each owns length^2 numbers from `start` on. On a CPU they are looked at where they
    are; on a GPU all replicas' are gathered, and the pool has room ahead, so that it is seldom asked how full it is.
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
        self.delta, self.foresees = delta, "ranker.delta=null" if delta is None else ""
        self.register_load_state_dict_pre_hook(_make_room)

    def setup(self, sizes: Sizes, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """Start with an empty pool, in which every query that is served gets room for a number per pair."""
        shape = sizes.replicas, sizes.queries
        self.register_buffer("start", torch.full(shape, -1, dtype=torch.int64, device=sizes.device))
        self.register_buffer("used", torch.zeros((), dtype=torch.int64, device=sizes.device))
        self.ahead = 0 if on_host(self.used) else ROUNDS * sizes.replicas * sizes.documents**2
        room = self.ahead + (self.ahead > 0)  # the last one is for what is no pair
        self.free = self.ahead  # at least so many numbers are, on a GPU
        self.register_buffer("wins", torch.zeros(room, dtype=torch.int32, device=sizes.device))
        self.register_buffer("above", torch.zeros(room, dtype=torch.bool, device=sizes.device))
        self.register_buffer("nothing", features.new_zeros(sizes.replicas, 0, device=sizes.device))
        self.error = self.delta or 1 / max(sizes.rounds, 2)

    def judge(self, candidates: Candidates, random: Random) -> Belief:
        """Which pairs are certain; that is all there is to say, so all scores are equal."""
        certain = self._certain(candidates) if on_host(candidates.mask) else self._certain_in_step(candidates)
        scores = torch.zeros_like(candidates.mask, dtype=candidates.features.dtype)[:, None]
        return Belief(scores, lambda: LinearTangent(candidates.features), certain)

    def learn(self, interaction: Interaction, random: Random) -> None:
        """Count the round's clicks, and decide what they have made certain."""
        block = interaction.draft.block
        assert block is not None
        clicked = torch.zeros_like(interaction.candidates.mask).scatter_(1, interaction.ranking, interaction.clicks)
        if not on_host(clicked):
            cells = self._cells(interaction.candidates)
            wins = self.wins[cells] + _won(clicked, block)
            self.wins[cells] = wins
            self.above[cells] |= self._decided(wins)
            return
        for replica, (query, length) in enumerate(_served(interaction.candidates)):
            wins = self._square(self.wins, replica, query, length)
            wins += _won(clicked[replica, :length], block[replica, :length])
            self._square(self.above, replica, query, length).logical_or_(self._decided(wins))

    def deploy(self) -> Float[Tensor, "B P"]:
        """Nothing: see `generalises`."""
        return self.nothing

    def score(self, deployed: Float[Tensor, "S P"], candidates: Candidates) -> Float[Tensor, "S Q D"]:
        """Zero for every document."""
        return candidates.features.new_zeros(len(deployed), *candidates.mask.shape)

    def _decided(self, wins: Int[Tensor, "*B D D"]) -> Bool[Tensor, "*B D D"]:
        """[i, j]: i has won so much more often against j than j against i that it is certainly better."""
        count = (wins + wins.mT).double()
        bound = (2 * count * (SCALE * count.sqrt() / self.error).log()).sqrt()
        return (count > 0) & (wins - wins.mT >= bound)

    def _certain(self, candidates: Candidates) -> Bool[Tensor, "B D D"]:
        """What the pool holds, query by query, with room for those that are new."""
        replicas, documents = candidates.mask.shape
        certain = torch.zeros(replicas, documents, documents, dtype=torch.bool)
        for replica, (query, length) in enumerate(_served(candidates)):
            if self.start[replica, query] < 0:
                self._reserve(replica, query, length)
            certain[replica, :length, :length] = self._square(self.above, replica, query, length)
        return certain

    def _certain_in_step(self, candidates: Candidates) -> Bool[Tensor, "B D D"]:
        """The same for all replicas together."""
        self._make_ready(candidates.mask.shape[0] * candidates.mask.shape[1] ** 2)
        query, length = candidates.query[:, None], candidates.mask.sum(1, keepdim=True)
        first = self.start.gather(1, query)
        taken = torch.where(first < 0, length**2, 0)
        self.start.scatter_(1, query, torch.where(first < 0, self.used + taken.cumsum(0) - taken, first))
        self.used += taken.sum()
        pairs = candidates.mask[:, :, None] & candidates.mask[:, None]
        return self.above[self._cells(candidates)] & pairs

    def _cells(self, candidates: Candidates) -> Int[Tensor, "B D D"]:
        """Where in the pool the pairs of each query are; what is no pair is the last one."""
        mask, slots = candidates.mask, places(candidates.mask.shape[1], candidates.mask.device)
        first, length = self.start.gather(1, candidates.query[:, None]), mask.sum(1, keepdim=True)
        cells = (first + slots * length)[:, :, None] + slots
        return torch.where(mask[:, :, None] & mask[:, None], cells, len(self.wins) - 1)

    def _make_ready(self, most: int) -> None:
        """Room for a round that takes at most so many numbers; the GPU is asked only when `free` says too little."""
        if self.free < most:
            self.free = len(self.wins) - 1 - int(self.used)
            if self.free < self.ahead:
                self.free += self._grow(self.ahead - self.free)
        self.free -= most

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
            self._grow(missing)

    def _grow(self, missing: int) -> int:
        """At least double the pool; returns by how much."""
        room = max(missing, len(self.wins))
        self.wins = torch.cat([self.wins, self.wins.new_zeros(room)])
        self.above = torch.cat([self.above, self.above.new_zeros(room)])
        return room


def _won(clicked: Bool[Tensor, "*B D"], layer: Int[Tensor, "*B D"]) -> Bool[Tensor, "*B D D"]:
    """[i, j]: i was clicked and j, in the same layer, was not."""
    return clicked[..., :, None] & ~clicked[..., None, :] & (layer[..., :, None] == layer[..., None, :])


def _served(candidates: Candidates) -> list[tuple[int, int]]:
    """Query and number of documents, by replica."""
    return list(zip(candidates.query.tolist(), candidates.mask.sum(1).tolist(), strict=True))


def _make_room(ranker: TopRank, state: Mapping[str, Tensor], prefix: str, *_: object) -> None:
    """Give the pool the size that it has in the checkpoint; how full it is there is to be asked."""
    ranker.free = 0
    for name in "wins", "above":
        saved = state.get(prefix + name)
        if saved is not None:
            setattr(ranker, name, getattr(ranker, name).new_zeros(saved.shape))
