"""Every preference so far, as the rows x_winner - x_loser that a linear pairwise ranker learns from."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ol2r_cli.interfaces import Candidates, Preferences, Sizes
from ol2r_cli.shapes import Float


class PairHistory(nn.Module):
    """Keeps pairs as indices into the document table (the checkpoint) and their feature differences (rebuilt from it).

    Replica b owns rows[b, : count[b]]. Room for the whole run is reserved and not touched before it is needed; one row
    beyond takes whatever a round does not use, so that appending needs no branch.
    """

    winner: Tensor
    loser: Tensor
    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_load_state_dict_post_hook(self._rebuild)

    def setup(self, sizes: Sizes, features: Float[Tensor, "N F"], per_round: int) -> None:
        """Reserve room for `per_round` pairs in each of the run's rounds."""
        self.features = features
        self.capacity = sizes.rounds * per_round
        shape = sizes.replicas, self.capacity + 1
        place: dict[str, Any] = {"device": sizes.device}
        self.register_buffer("winner", torch.zeros(shape, dtype=torch.int32, **place))
        self.register_buffer("loser", torch.zeros(shape, dtype=torch.int32, **place))
        self.register_buffer("count", torch.zeros(sizes.replicas, dtype=torch.int64, **place))
        self.rows = torch.empty(*shape, sizes.features, dtype=sizes.dtype, **place)
        self.replica = torch.arange(sizes.replicas, device=sizes.device)[:, None]

    def append(self, candidates: Candidates, preferences: Preferences) -> Float[Tensor, "B M F"]:
        """Remember one round's pairs and return their feature differences, zero where a pair is not valid."""
        replica, valid = self.replica, preferences.valid
        difference = (
            candidates.features[replica, preferences.winner] - candidates.features[replica, preferences.loser]
        ) * valid[:, :, None]
        place = torch.where(valid, self.count[:, None] + valid.cumsum(1) - 1, self.capacity)
        self.winner[replica, place] = candidates.document[replica, preferences.winner].int()
        self.loser[replica, place] = candidates.document[replica, preferences.loser].int()
        self.rows[replica, place] = difference
        self.count += valid.sum(1)
        return difference

    def _rebuild(self, *_: Any) -> None:
        for rows, winner, loser, count in zip(self.rows, self.winner, self.loser, self.count.tolist(), strict=True):
            won, lost = self.features[winner[:count].long()], self.features[loser[:count].long()]
            rows[:count] = won.to(rows.dtype) - lost.to(rows.dtype)
