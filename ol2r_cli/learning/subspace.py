"""The span of some vectors, found without reading a value, so that no GPU is waited for; and document space projection,
the step of a dueling bandit projected onto what the user has examined.

A randomised range finder (Halko, Martinsson and Tropp, "Finding structure with randomness", SIAM Review 2011, section
4): of random combinations of vectors whose span has r dimensions, the first r span it too. Projection: Wang, Kim,
McCord-Snook, Wu and Wang, "Variance Reduction in Gradient Exploration for Online Learning to Rank", SIGIR 2019. Clicks
say nothing about a direction that is orthogonal to all examined documents.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor, nn

from ol2r_cli.config.ranges import WholeNumber
from ol2r_cli.interfaces import Interaction, RunContext
from ol2r_cli.tensor.gather import cached_arange
from ol2r_cli.tensor.shapes import Bool, Float, Int

TOLERANCE = 1e-6  # features are float32: what is shorter, relative to the first combination, is their rounding


def orthonormal_basis(vectors: Float[Tensor, "B M P"]) -> Float[Tensor, "B R P"]:
    """Return R = min(M, P) rows, float64: an orthonormal basis of the span of the vectors, and zeros.

    Vectors may be zero, equal or collinear.
    """
    mixed = vectors.mT.double() @ _combinations(vectors.shape[1], vectors.device)[:, : vectors.shape[2]]
    basis, factor = torch.linalg.qr(mixed)
    new = factor.diagonal(dim1=1, dim2=2).abs()  # length of each combination outside the span of those before it
    return (basis * (new > TOLERANCE * new[:, :1])[:, None]).mT


def projected(vectors: Float[Tensor, "B M P"], basis: Float[Tensor, "B R P"]) -> Float[Tensor, "B M P"]:
    """Return the parts of the vectors in the span of a basis of `orthonormal_basis`."""
    return vectors @ basis.mT @ basis


@cache
def _combinations(count: int, device: torch.device) -> Float[Tensor, "M M"]:
    """Return a fixed orthogonal matrix with the uniform distribution; a column has the weights of a combination."""
    normal = torch.randn(count, count, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return torch.linalg.qr(normal).Q.to(device)


class DocumentSpace(nn.Module):
    """The span of the documents at the places down to `below` places below the last click, and of the `earlier` newest
    such documents of earlier rounds.

    A projected direction has length 1 with `normalise`, as in the authors' code; otherwise it is shortened.
    """

    recent: Tensor

    def __init__(self, below: WholeNumber, earlier: WholeNumber, normalise: bool):
        super().__init__()
        self.below, self.earlier, self.normalise = below, earlier, normalise

    def setup(self, context: RunContext, features: Float[Tensor, "N F"]) -> None:
        self.features = features.to(context.device)
        rows = torch.full((context.replicas, self.earlier), -1, dtype=torch.int64, device=context.device)
        self.register_buffer("recent", rows)  # rows of the document table, the newest last; -1 for none

    def project(self, direction: Float[Tensor, "B P"], interaction: Interaction) -> Float[Tensor, "B P"]:
        """Return the part of each direction in the document space of its round, which is zero without a click."""
        row, counts = self._documents(interaction)
        features = self.features.index_select(0, row.flatten()).double().unflatten(0, row.shape)
        inside = projected(direction[:, None].double(), orthonormal_basis(features * counts[:, :, None]))[:, 0]
        if self.normalise:
            length = inside.norm(dim=1, keepdim=True)
            inside = inside / torch.where(length > 0, length, 1.0)
        return inside.to(direction.dtype)

    def remember(self, interaction: Interaction) -> None:
        """Add the documents of this round to those of earlier rounds."""
        row, counts = self._documents(interaction)
        newer = counts.flip(1).cumsum(1).flip(1)  # 1 for the newest document that counts
        kept = counts & (newer <= self.earlier)
        place = torch.where(kept, self.earlier - newer, self.earlier)
        room = row.new_full((len(row), self.earlier + 1), -1)  # the last place is for the others
        self.recent.copy_(room.scatter_(1, place, row)[:, :-1])

    def _documents(self, interaction: Interaction) -> tuple[Int[Tensor, "B M"], Bool[Tensor, "B M"]]:
        """Return rows of the document table, those of earlier rounds first, and which of them count."""
        place = cached_arange(interaction.clicks.shape[1], interaction.clicks.device) + 1
        last = (interaction.clicks * place).amax(1, keepdim=True)  # 0 without a click
        examined = interaction.shown & (place <= last + self.below) & (last > 0)
        shown = interaction.candidates.document.gather(1, interaction.ranking)
        row = torch.cat([self.recent, shown], dim=1)
        return row.clamp(min=0), torch.cat([self.recent >= 0, examined], dim=1)
