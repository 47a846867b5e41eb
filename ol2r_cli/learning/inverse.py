"""The inverse of a positive definite matrix that grows by a few outer products at a time."""

from __future__ import annotations

import torch
from torch import Tensor

from ol2r_cli.shapes import Float


def add_outer_products(inverse: Float[Tensor, "B F F"], rows: Float[Tensor, "B M F"]) -> None:
    """Turn A^-1 into (A + rows^T rows)^-1 in place: Woodbury's identity, O(M F^2). Zero rows change nothing."""
    projected = rows @ inverse
    small = projected @ rows.mT
    small.diagonal(dim1=1, dim2=2).add_(1)
    inverse.baddbmm_(projected.mT, torch.linalg.solve(small, projected), alpha=-1)
