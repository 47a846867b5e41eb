"""The inverse of l2 I + sum of v v^T by way of the v's inner products: nothing is as long as a gradient.

With K the inner products of the n rows v, L L^T = l2 I + K and Z = L^-1 <v, phi>, the Gram matrix of any gradients phi
in the norm of the inverse is S / l2, with S = <phi, phi> - Z^T Z. Appending v = phi_a - phi_b costs nothing: its row of
L is Z_a - Z_b, and what L has on the diagonal comes from S.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ol2r_cli.learning.kernel import Layers, kernel, rows
from ol2r_cli.shapes import Float

STRIP = 512  # rows that are substituted at once
# From the squared distances' Gram matrix [b x x], never too small, to how many of the first documents still matter.
Narrow = Callable[[Tensor], int]


@dataclass
class Solution:
    """Documents against the history: their gradients, Z^T with a row per document, and S."""

    layers: Layers
    projected: Float[Tensor, "b x n"]
    residual: Float[Tensor, "b x x"]


class Strip:
    """Some rows of L: what they are against all earlier rows, and the inverse of the triangle among themselves.

    `pairs` has the gradients of winner and loser of each row, one after the other.
    """

    def __init__(self, start: int, room: int, pairs: Layers):
        def empty(*shape: int) -> Tensor:
            return pairs[0][0].new_empty(len(pairs[0][0]), *shape)

        self.start, self.room, self.used = start, room, 0
        self.earlier, self.inverse = empty(room, start), empty(room, room).zero_()
        self.pairs: Layers = [tuple(empty(2 * room, vectors.shape[2]) for vectors in layer) for layer in pairs]

    def append(self, below: Float[Tensor, "b k n"], root: Float[Tensor, "b k k"], pairs: Layers) -> None:
        """Add rows of L: `below` against all earlier rows, those of this strip included, `root` among themselves."""
        new = slice(self.used, self.used + root.shape[1])
        one = torch.eye(root.shape[1], dtype=root.dtype, device=root.device).expand_as(root)
        own = torch.linalg.solve_triangular(root, one, upper=False)
        self.earlier[:, new] = below[..., : self.start]
        across = torch.bmm(below[..., self.start :], self.inverse[:, : self.used, : self.used])
        self.inverse[:, new, : self.used] = torch.bmm(own, across).neg_()
        self.inverse[:, new, new] = own
        for layer, more in zip(self.pairs, pairs, strict=True):
            for vectors, values in zip(layer, more, strict=True):
                vectors[:, 2 * new.start : 2 * new.stop] = values
        self.used = new.stop

    def history(self) -> Layers:
        """The gradients of the winners and losers so far."""
        return rows(self.pairs, slice(None), slice(2 * self.used))


class DualInverse:
    """Rows for one replica, or as many for each of several in step (a zero row where one of them has nothing to add).

    Rows are kept in strips of at most 512, so that memory is n^2/2 numbers, of which none is ever copied. The precision
    is that of the gradients.
    """

    def __init__(self, l2: float):
        self.l2, self.rows = l2, 0
        self.strips: list[Strip] = []
        self.failed: Tensor | None = None  # per replica: whether rounding made L impossible

    def solve(self, layers: Layers, narrow: Narrow | None = None, first: int = 0, pairs: bool = False) -> Solution:
        """Z and S of these documents, or of their differences two by two where `pairs`.

        `narrow` is asked after 1, 2, 4, .. strips, when S is an upper bound of what it will be; only the documents that
        it keeps go on. The `first` documents it does not see, and they stay. Documents are centred, for less rounding:
        their distances do not know.
        """
        residual = kernel(layers, layers)
        residual = _paired(_paired(residual).mT) if pairs else _centred(_centred(residual).mT)
        width, done = residual.shape[1], 0
        projected = residual.new_empty(len(residual), width, self.rows)
        for number, strip in enumerate(self.strips, 1):
            end = strip.start + strip.used
            block = _paired(kernel(layers, strip.history()))
            block = _paired(block.mT).mT if pairs else _centred(block)
            if strip.start:
                block.baddbmm_(projected[:, :width, : strip.start], strip.earlier[:, : strip.used].mT, alpha=-1)
            inverse = strip.inverse[:, : strip.used, : strip.used]
            projected[:, :width, strip.start : end] = torch.bmm(block, inverse.mT)
            if number == len(self.strips) or (narrow and number & (number - 1) == 0):
                latest = projected[:, :width, done:end]
                residual, done = residual.baddbmm_(latest, latest.mT, alpha=-1), end
                if narrow:
                    width = first + narrow(residual[:, first:, first:])
                    residual = residual[:, :width, :width]
                    layers = rows(layers, slice(None), slice(width))
        return Solution(layers, projected[:, :width], residual)

    def append(self, below: Float[Tensor, "b k n"], block: Float[Tensor, "b k k"], pairs: Layers) -> Tensor:
        """Add rows v, given L^-1 <v_earlier, v> transposed and S among themselves; returns their triangle of L.

        `pairs` has the gradients whose differences they are, winner and loser one after the other.
        """
        count = block.shape[1]
        root, info = torch.linalg.cholesky_ex(
            block + self.l2 * torch.eye(count, dtype=block.dtype, device=block.device)
        )
        self.failed = info > 0 if self.failed is None else self.failed | (info > 0)
        if not self.strips or self.strips[-1].used + count > self.strips[-1].room:
            self.strips.append(Strip(self.rows, max(STRIP, count), pairs))
        self.strips[-1].append(below, root, pairs)
        self.rows += count
        return root

    def restore(self, history: Layers) -> None:
        """All rows at once, from winners and losers one after the other: n^3/3 operations, in products of strips."""
        for start in range(0, history[0][0].shape[1], 2 * STRIP):
            pairs = rows(history, slice(None), slice(start, start + 2 * STRIP))
            solution = self.solve(pairs, pairs=True)
            self.append(solution.projected, solution.residual, pairs)


def _paired(table: Float[Tensor, "b x y"]) -> Float[Tensor, "b x z"]:
    """Each even column less the odd one after it."""
    return table[..., 0::2] - table[..., 1::2]


def _centred(table: Float[Tensor, "b x y"]) -> Float[Tensor, "b x y"]:
    """Less the mean of every column."""
    return table - table.mean(1, keepdim=True)
