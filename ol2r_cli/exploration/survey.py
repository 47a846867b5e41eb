"""What is asked about the distances between a network's tangents, and what there is to answer it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from ol2r_cli.interfaces import Preferences
from ol2r_cli.learning.tangent import LayeredTangent
from ol2r_cli.rows import places
from ol2r_cli.shapes import Bool, Float, Int

Pairs = tuple[LayeredTangent, Tensor]  # of winners and losers, one after the other [B 2M]; which count [B M]


@dataclass(frozen=True)
class Survey:
    """What is asked about documents in the order of their scores."""

    margins: Float[Tensor, "b d d"]  # (sigma(s_i - s_j) - 1/2)^2, 0 where it is negative
    scale: float  # alpha^2
    positions: int | None  # K, where nobody looks at documents that cannot be among the first K; else None

    def of(self, replica: slice) -> Survey:
        """The same about some of the replicas."""
        return replace(self, margins=self.margins[replica])

    def certain(self, distances: Float[Tensor, "b s s"]) -> Bool[Tensor, "b s s"]:
        """Where the margin exceeds alpha times the distance, which is given squared; of the first s documents."""
        size = distances.shape[1]
        return self.margins[:, :size, :size] > distances * self.scale

    def kept(self, distances: Float[Tensor, "b s s"]) -> int:
        """Up to where there are documents with fewer than K certainly above them, by upper bounds of the distances.

        What follows cannot be among the first K, nor does it matter to those who can: certain pairs point downwards.
        """
        assert self.positions is not None
        above = self.certain(distances).triu(1).sum(1)
        return int(((above < self.positions) * (places(above.shape[1], above.device) + 1)).max())


class Tangents(Protocol):
    """A form of A = l2 I + sum of v v^T. Each round: `begin`, then `certain` of all replicas, then perhaps `learn`."""

    device: torch.device

    def begin(self, tangent: LayeredTangent, pairs: Pairs | None) -> None:
        """A round with these gradients; `pairs` are to be added before anything is asked."""
        ...

    def certain(self, some: Tensor | slice, order: Int[Tensor, "b d"], survey: Survey) -> Bool[Tensor, "b s s"]:
        """Which pairs are certain among the first s documents of an order, those that matter."""
        ...

    def learn(self, preferences: Preferences) -> None:
        """Add pairs of this round's documents."""
        ...

    def state(self) -> list[Any]:
        """Of every replica: tensors and numbers."""
        ...

    def restore(self, state: list[Any]) -> None:
        """Take over a state."""
        ...
