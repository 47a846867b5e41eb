"""The inverse of a positive definite matrix that grows by a few outer products at a time."""

from __future__ import annotations

import torch
from torch import Tensor

from ol2r_cli.shapes import Float


def add_outer_products(inverse: Float[Tensor, "B F F"], rows: Float[Tensor, "B M F"]) -> None:
    """Turn A^-1 into (A + rows^T rows)^-1 in place: Woodbury's identity, O(M F^2). Zero rows change nothing.

    What is taken away is W^T W with L W = rows A^-1 and L L^T = I + rows A^-1 rows^T, so that the result is symmetric.
    """
    projected = rows @ inverse
    small = projected @ rows.mT
    small.diagonal(dim1=1, dim2=2).add_(1)
    taken = torch.linalg.solve_triangular(torch.linalg.cholesky_ex(small).L, projected, upper=False)
    inverse.baddbmm_(taken.mT, taken, alpha=-1)
