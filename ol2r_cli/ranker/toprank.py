"""TopRank, a separate bandit for every query (Lattimore, Kveton, Li and Szepesvari, NeurIPS 2018, algorithm 1)."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from ol2r_cli.config.ranges import Positive
from ol2r_cli.interfaces import FEATURES, LAYERS, STATED, Candidates, Interaction, Need, Oracle, Prediction, RunContext
from ol2r_cli.learning.tangents import LinearTangent
from ol2r_cli.ranker.model_ranker import ParameterFree
from ol2r_cli.tensor.shapes import Float
from ol2r_cli.tensor.streams import Random

SCALE = 4 * math.sqrt(2 / math.pi) / math.erf(math.sqrt(2))  # c of the paper, 3.344 (its text prints 3.43)


class TopRank(ParameterFree):
    """Counts clicks between documents of the same layer until one is certainly better, query by query.

    With U_ij = c_i - c_j in a round whose layers hold i and j together, else 0, S = sum U and N = sum |U|: i is above j
    from when N > 0 and S >= sqrt(2 N log(c sqrt(N) / delta)). Documents not shown count c = 0. `delta` in (0, 1) is the
    probability of an error; null is 1/T. It learns nothing about queries never served: there is no offline evaluation.

    Queries share a pool, in which each owns length^2 numbers from `start` on. Which query a replica serves is read on
    the host.
    """

    generalises = False
    pairs = "none"
    needs = (Need(LAYERS, "exploration=stated"),)
    offers = frozenset({FEATURES, STATED})

    start: Tensor
    used: Tensor
    wins: Tensor
    above: Tensor

    def __init__(self, delta: Positive | None):
        super().__init__()
        if delta is not None and delta >= 1:
            raise ValueError(f"{self.setting('delta')} must be below 1, or null for 1/T, got {delta}")
        self.delta = delta
        self.register_load_state_dict_pre_hook(_resize_pool)

    def setup(self, context: RunContext, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """Start with an empty pool; a query gets room in it when it is first served."""
        super().setup(context, features)
        shape = context.replicas, context.queries
        self.register_buffer("start", torch.full(shape, -1, dtype=torch.int64, device=context.device))
        self.register_buffer("used", torch.zeros((), dtype=torch.int64, device=context.device))
        self.register_buffer("wins", torch.zeros(0, dtype=torch.int32, device=context.device))
        self.register_buffer("above", torch.zeros(0, dtype=torch.bool, device=context.device))
        self.error = self.delta or 1 / max(context.rounds, 2)

    def predict(self, candidates: Candidates, random: Random) -> Prediction:
        """Return the certain pairs, and equal scores; make room for queries that are new."""
        mask = candidates.mask
        certain = torch.zeros(*mask.shape, mask.shape[1], dtype=torch.bool, device=mask.device)
        for replica, (query, length) in enumerate(_served(candidates)):
            if self.start[replica, query] < 0:
                self.start[replica, query] = self.used
                self.used += length * length
                missing = int(self.used) - len(self.wins)
                if missing > 0:
                    room = max(missing, len(self.wins))  # the pool at least doubles
                    self.wins = torch.cat([self.wins, self.wins.new_zeros(room)])
                    self.above = torch.cat([self.above, self.above.new_zeros(room)])
            certain[replica, :length, :length] = self._square(self.above, replica, query, length)
        scores = torch.zeros_like(mask, dtype=candidates.features.dtype)[:, None]
        return Prediction(scores, lambda: LinearTangent(candidates.features), certain)

    def learn(self, interaction: Interaction, random: Random) -> None:
        """Count the round's clicks, and decide which pairs they have made certain."""
        block = interaction.proposal.block
        assert block is not None
        clicked = torch.zeros_like(interaction.candidates.mask).scatter_(1, interaction.ranking, interaction.clicks)
        for replica, (query, length) in enumerate(_served(interaction.candidates)):
            chosen, layer = clicked[replica, :length], block[replica, :length]
            wins = self._square(self.wins, replica, query, length)  # [i, j]: i was clicked and j, in its layer, was not
            wins += chosen[:, None] & ~chosen & (layer[:, None] == layer)
            count = (wins + wins.mT).double()
            bound = (2 * count * (SCALE * count.sqrt() / self.error).log()).sqrt()
            decided = (count > 0) & (wins - wins.mT >= bound)
            self._square(self.above, replica, query, length).logical_or_(decided)

    def _square(self, pool: Tensor, replica: int, query: int, length: int) -> Tensor:
        """A view of the pool for the pairs of a query, [length, length]."""
        first = int(self.start[replica, query])
        return pool[first : first + length * length].view(length, length)


def _served(candidates: Candidates) -> list[tuple[int, int]]:
    return list(zip(candidates.query.tolist(), candidates.mask.sum(1).tolist(), strict=True))


def _resize_pool(ranker: TopRank, state: Mapping[str, Tensor], prefix: str, *_: object) -> None:
    """Give the pool the size that it has in the checkpoint."""
    for name in "wins", "above":
        saved = state.get(prefix + name)
        if saved is not None:
            setattr(ranker, name, getattr(ranker, name).new_zeros(saved.shape))
