"""Every preference so far, as document numbers, and as the rows x_winner - x_loser that a linear ranker learns from."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ol2r_cli.host import on_host
from ol2r_cli.interfaces import Preferences, Sizes
from ol2r_cli.learning.room import ByRound, aligned
from ol2r_cli.shapes import Float, Int


class PairLog(ByRound):
    """Keeps pairs (winner, loser) as document numbers: replica b owns pairs[b, : count[b]].

    Room for the whole run is reserved and not touched before it is needed; one pair beyond takes whatever a round does
    not use, so that appending needs no branch.
    """

    by_round = ("pairs",)

    pairs: Tensor
    count: Tensor

    def setup(self, sizes: Sizes, features: Float[Tensor, "N F"], per_round: int) -> None:
        """Reserve room for at least `per_round` pairs in each of the run's rounds."""
        self.features = features.to(sizes.device)
        self.capacity, self.per_round = aligned(sizes.rounds * per_round + 1) - 1, per_round
        shape = sizes.replicas, self.capacity + 1
        place: dict[str, Any] = {"device": sizes.device}
        self.register_buffer("pairs", torch.zeros(*shape, 2, dtype=torch.int32, **place))
        self.register_buffer("count", torch.zeros(sizes.replicas, dtype=torch.int64, **place))
        self.replica = torch.arange(sizes.replicas, device=sizes.device)[:, None]

    def remember(self, document: Int[Tensor, "B D"], preferences: Preferences) -> Int[Tensor, "B M"]:
        """Keep one round's pairs, which compare the candidates with these document numbers; returns their places."""
        valid = preferences.valid
        place = torch.where(valid, self.count[:, None] + valid.cumsum(1) - 1, self.capacity)
        both = torch.cat([preferences.winner, preferences.loser], dim=1)
        self.pairs[self.replica, place] = document.gather(1, both).int().unflatten(1, (2, -1)).mT
        self.count += valid.sum(1)
        return place

    def most(self, rounds: int | None = None) -> int:
        """The largest count; on a GPU, which is not asked, the largest that so many rounds can have led to."""
        return int(self.count.max()) if rounds is None or on_host(self.count) else rounds * self.per_round


class PairHistory(PairLog):
    """Pairs and their feature differences: the rows are filled again after the pairs have been loaded."""

    def __init__(self) -> None:
        super().__init__()
        self.register_load_state_dict_post_hook(_rebuild)

    def setup(self, sizes: Sizes, features: Float[Tensor, "N F"], per_round: int) -> None:
        """Reserve room for at least `per_round` pairs in each of the run's rounds."""
        super().setup(sizes, features, per_round)
        shape = sizes.replicas, self.capacity + 1, sizes.features
        allocate = torch.empty if on_host(self.count) else torch.zeros  # on a GPU, what is not there is read, too
        self.rows = allocate(shape, dtype=sizes.dtype, device=sizes.device)

    def append(
        self, differences: Float[Tensor, "B M F"], document: Int[Tensor, "B D"], preferences: Preferences
    ) -> None:
        """Remember one round's pairs and their differences."""
        self.rows[self.replica, self.remember(document, preferences)] = differences


def _rebuild(history: PairHistory, _: object) -> None:
    """Fill `rows` again after the pairs have been loaded. Not a method: the hook would make the history hold itself."""
    for rows, pairs, count in zip(history.rows, history.pairs.long(), history.count.tolist(), strict=True):
        won, lost = history.features[pairs[:count, 0]], history.features[pairs[:count, 1]]
        rows[:count] = won.to(rows.dtype) - lost.to(rows.dtype)
