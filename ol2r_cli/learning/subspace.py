"""The span of some vectors, found without reading a value, so that no GPU is waited for.

A randomised range finder (Halko, Martinsson and Tropp, "Finding structure with randomness", SIAM Review 2011, section
4): of random combinations of vectors whose span has r dimensions, the first r span it too.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from ol2r_cli.tensor.shapes import Float

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
