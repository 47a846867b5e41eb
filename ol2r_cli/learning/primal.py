"""The inverse of l2 I + sum of v v^T, written out: cheaper than its dual form once the v's outnumber the parameters."""

from __future__ import annotations

import torch
from torch import Tensor

from ol2r_cli.learning.dual import STRIP, Narrow, Solution
from ol2r_cli.learning.inverse import add_outer_products
from ol2r_cli.learning.kernel import Layers, differences, parameters, rows, written_out
from ol2r_cli.shapes import Float


class PrimalInverse:
    """One P x P matrix per replica, and its inverse, which follows by Woodbury's identity."""

    refresh = 256  # rounds between recomputations of the inverse, against the drift of its updates

    def __init__(self, matrix: Float[Tensor, "b P P"], l2: float, rounds: int = 0):
        self.matrix, self.l2, self.rounds = matrix, l2, rounds
        self.inverse = _inverse(matrix)

    def solve(self, layers: Layers, narrow: Narrow | None = None, first: int = 0) -> Solution:
        """S = l2 times the documents' Gram matrix in the norm of the inverse; `narrow` and `first` as in the dual."""
        gradients = written_out(layers)
        gradients = gradients - gradients.mean(1, keepdim=True)
        residual = torch.bmm(torch.bmm(gradients, self.inverse), gradients.mT).mul_(self.l2)
        width = residual.shape[1] if narrow is None else first + narrow(residual[:, first:, first:])
        kept = rows(layers, slice(None), slice(width))
        return Solution(kept, residual.new_empty(len(residual), width, 0), residual[:, :width, :width])

    def append(self, pairs: Layers) -> None:
        """Add differences of gradients, given winner and loser one after the other."""
        difference = differences(pairs)
        self.matrix.baddbmm_(difference.mT, difference)
        self.rounds += 1
        if self.rounds % self.refresh:
            add_outer_products(self.inverse, difference)
        else:
            self.inverse = _inverse(self.matrix)


def outer_products(pairs: Layers, l2: float) -> Float[Tensor, "b P P"]:
    """l2 I + the sum of v v^T, from the gradients of winners and losers, one after the other."""
    place = pairs[0][0]
    identity = torch.eye(parameters(pairs), dtype=place.dtype, device=place.device) * l2
    matrix = identity.repeat(len(place), 1, 1)
    for start in range(0, place.shape[1], 2 * STRIP):
        some = differences(rows(pairs, slice(None), slice(start, start + 2 * STRIP)))
        matrix.baddbmm_(some.mT, some)
    return matrix


def _inverse(matrix: Float[Tensor, "b P P"]) -> Float[Tensor, "b P P"]:
    return torch.cholesky_inverse(torch.linalg.cholesky_ex(matrix).L)
