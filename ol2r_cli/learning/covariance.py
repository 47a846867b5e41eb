"""The covariance A = l2 I + sum v v^T of a ranker's pairs, and distances in the norm of its inverse.

v is the gradient of the winner's score less that of the loser (the features' difference where scores are linear).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ol2r_cli.learning.tangents import Layers, chosen, joined, kernel, pair_differences, parameters, rows, written_out
from ol2r_cli.tensor.shapes import Float, Int

PRIMAL = 6_000  # parameters up to which the inverse is ever written out
RATIO = 1.4  # rows per parameter from which on that is cheaper
STRIP = 512  # rows of the dual form that are substituted at once
MANY = 1024  # rows that are added at once at most, since their products take memory

# From S [b x x] of the documents so far, never too small, to the number of the first documents that still matter.
Narrow = Callable[[Tensor], int]


def add_outer_products(inverse: Float[Tensor, "B F F"], rows: Float[Tensor, "B M F"]) -> None:
    """Turn A^-1 into (A + rows^T rows)^-1 in place: Woodbury's identity, O(M F^2). Zero rows change nothing.

    W^T W is subtracted, with L W = rows A^-1 and L L^T = I + rows A^-1 rows^T, so that the result is symmetric.
    """
    for part in rows.split(MANY, dim=1):
        projected = part @ inverse
        small = projected @ part.mT
        small.diagonal(dim1=1, dim2=2).add_(1)
        subtracted = torch.linalg.solve_triangular(torch.linalg.cholesky_ex(small).L, projected, upper=False)
        inverse.baddbmm_(subtracted.mT, subtracted, alpha=-1)


def remove_outer_products(inverse: Float[Tensor, "B F F"], rows: Float[Tensor, "B M F"]) -> bool:
    """Turn A^-1 into (A - rows^T rows)^-1 in place, for rows that A is a sum of. Zero rows change nothing.

    One row x: A^-1 + u u^T / (1 - x.u) with u = A^-1 x, where 0 <= x.u < 1. False, with A^-1 as it was, where 1 - x.u
    is so small that half of its digits are rounding.
    """
    projected = rows @ inverse
    small = -projected @ rows.mT
    small.diagonal(dim1=1, dim2=2).add_(1)
    factor, failed = torch.linalg.cholesky_ex(small)
    pivots = factor.diagonal(dim1=1, dim2=2).square()
    if failed.any() or (pivots < torch.finfo(pivots.dtype).eps ** 0.5).any():
        return False
    added = torch.linalg.solve_triangular(factor, projected, upper=False)
    inverse.baddbmm_(added.mT, added)
    return True


def most_rows(rows: int, parameters: int) -> int:
    """Return the largest number of rows that the dual form holds when this many are added in all."""
    return min(rows, int(RATIO * parameters) + 1) if parameters <= PRIMAL else rows


@dataclass
class Solution:
    """Documents solved against the history: their gradients, Z^T with a row per document, and S."""

    layers: Layers
    projected: Float[Tensor, "b x n"]
    residual: Float[Tensor, "b x x"]


class FullCovariance:
    """The covariance of one replica, b = 1, in one of two forms; which one is decided on the host.

    Dual, while pairs are fewer than parameters: the triangle L with L L^T = l2 I + K, where K holds the inner products
    <v, v'>. With Z = L^-1 <v, phi> and S = <phi, phi> - Z^T Z, |phi_a - phi_b|^2 = (S_aa + S_bb - 2 S_ab) / l2 in the
    norm of A^-1. A itself is never written down. Rows are kept in strips of at most `STRIP`, so that memory is n^2/2
    numbers and none of them is ever copied. Primal, from then on: A and A^-1, updated by Woodbury's identity.

    The precision is that of the gradients. `l2` > 0.
    """

    refresh = 256  # rounds between recomputations of A^-1, against the drift of its updates

    def __init__(self, l2: float):
        self.l2 = l2
        self._clear()

    def _clear(self) -> None:
        self.rows, self.rounds = 0, 0
        self.strips: list[Strip] = []
        self.matrix: Tensor | None = None  # A, where it is written down
        self.inverse: Tensor | None = None

    def solve(self, layers: Layers, narrow: Narrow | None = None, first: int = 0, pairs: bool = False) -> Solution:
        """Return Z and S of these documents, or of their differences two by two where `pairs`; S / l2 is the Gram
        matrix in the norm of A^-1.

        `narrow` is called after 1, 2, 4, .. strips, when S is an upper bound of its final value; only the documents
        that it keeps go on. It does not see the `first` documents, which are always kept. Documents are centred, which
        leaves their distances as they are and rounds less.
        """
        if self.inverse is not None:
            gradients = written_out(layers)
            gradients = gradients - gradients.mean(1, keepdim=True)
            residual = torch.bmm(torch.bmm(gradients, self.inverse), gradients.mT).mul_(self.l2)
            width = residual.shape[1] if narrow is None else first + narrow(residual[:, first:, first:])
            narrowed = rows(layers, slice(None), slice(width))
            return Solution(narrowed, residual.new_empty(len(residual), width, 0), residual[:, :width, :width])
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

    def append(self, solved: Solution, winner: Int[Tensor, "b k"], loser: Int[Tensor, "b k"]) -> None:
        """Add differences of documents in `solved`, and bring its S up to date.

        ValueError where rounding makes the matrix indefinite.
        """
        both = torch.stack([winner, loser], 2).flatten(1)
        pairs = chosen(solved.layers, both)
        across = _difference(solved.residual, both)
        block = _difference(across.mT, both).mT
        if self.matrix is not None and self.inverse is not None:
            difference = pair_differences(pairs)
            self.matrix.baddbmm_(difference.mT, difference)
            self.rounds += 1
            if self.rounds % self.refresh:
                add_outer_products(self.inverse, difference)
            else:
                self.inverse = inverse_of(self.matrix)
            block.diagonal(dim1=1, dim2=2).add_(self.l2)
            root = torch.linalg.cholesky_ex(block).L
        else:
            root = self._grow(_difference(solved.projected, both), block, pairs)
            if most_rows(self.rows, parameters(pairs)) < self.rows:
                self.matrix, history = torch.eye(parameters(pairs)).to(block)[None] * self.l2, self._history()
                for start in range(0, 2 * self.rows, 2 * STRIP):
                    part = pair_differences(rows(history, slice(None), slice(start, start + 2 * STRIP)))
                    self.matrix.baddbmm_(part.mT, part)
                self.inverse, self.strips = inverse_of(self.matrix), []
        new = torch.linalg.solve_triangular(root, across, upper=False)
        solved.residual.baddbmm_(new.mT, new, alpha=-1)

    def _grow(self, below: Float[Tensor, "b k n"], block: Float[Tensor, "b k k"], pairs: Layers) -> Tensor:
        """Add rows v of L, given L^-1 <v_earlier, v> transposed and S among themselves; return their triangle.

        `pairs` are the gradients whose differences are the rows: winner, loser, winner, loser, ..
        """
        count = block.shape[1]
        root, info = torch.linalg.cholesky_ex(
            block + self.l2 * torch.eye(count, dtype=block.dtype, device=block.device)
        )
        if info.any():
            allowed = f"larger, or exploration.precision float64, with {self.rows + count} pairs"
            raise ValueError(f"exploration.l2 must be {allowed}, got {self.l2}")
        if not self.strips or self.strips[-1].used + count > self.strips[-1].room:
            self.strips.append(Strip(self.rows, max(STRIP, count), pairs))
        self.strips[-1].append(below, root, pairs)
        self.rows += count
        return root

    def _history(self) -> Layers:
        return joined([strip.history() for strip in self.strips])

    def state(self) -> dict[str, Any]:
        """Return what `restore` needs: the matrix, or the gradients of winner, loser, winner, loser, .."""
        if self.matrix is not None:
            return {"matrix": self.matrix.clone(), "rounds": self.rounds}
        return {"history": [list(layer) for layer in self._history()]}

    def restore(self, state: dict[str, Any], device: torch.device) -> None:
        """Restore a state; the rest is computed again, in n^3/3 operations, in products of strips."""
        self._clear()
        if "matrix" in state:
            self.matrix, self.rounds = state["matrix"].to(device), state["rounds"]
            self.inverse = inverse_of(self.matrix)
            return
        history: Layers = [tuple(vectors.to(device) for vectors in layer) for layer in state["history"]]
        for start in range(0, history[0][0].shape[1] if history else 0, 2 * STRIP):
            pairs = rows(history, slice(None), slice(start, start + 2 * STRIP))
            solution = self.solve(pairs, pairs=True)
            self._grow(solution.projected, solution.residual, pairs)


class Strip:
    """Some rows of L: the part against all earlier rows, and the inverse of the triangle among themselves.

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
        identity = torch.eye(root.shape[1], dtype=root.dtype, device=root.device).expand_as(root)
        inverse = torch.linalg.solve_triangular(root, identity, upper=False)
        self.earlier[:, new] = below[..., : self.start]
        across = torch.bmm(below[..., self.start :], self.inverse[:, : self.used, : self.used])
        self.inverse[:, new, : self.used] = torch.bmm(inverse, across).neg_()
        self.inverse[:, new, new] = inverse
        for layer, added in zip(self.pairs, pairs, strict=True):
            for vectors, values in zip(layer, added, strict=True):
                vectors[:, 2 * new.start : 2 * new.stop] = values
        self.used = new.stop

    def history(self) -> Layers:
        return rows(self.pairs, slice(None), slice(2 * self.used))


def inverse_of(matrix: Float[Tensor, "b P P"]) -> Float[Tensor, "b P P"]:
    """Return the inverses of positive definite matrices."""
    root = torch.linalg.cholesky_ex(matrix).L
    return torch.cholesky_inverse(root) if root.is_cpu else inverse_of_roots(root)


def inverse_of_roots(root: Float[Tensor, "b P P"]) -> Float[Tensor, "b P P"]:
    """Return (L L^T)^-1 of the lower factors L, all at once: torch.cholesky_inverse takes the matrices of a GPU one by
    one."""
    identity = torch.eye(root.shape[1], dtype=root.dtype, device=root.device).expand_as(root)
    half = torch.linalg.solve_triangular(root, identity, upper=False)
    return torch.bmm(half.mT, half)


def _paired(table: Float[Tensor, "b x y"]) -> Float[Tensor, "b x z"]:
    """Return each even column less the odd one after it."""
    return table[..., 0::2] - table[..., 1::2]


def _centred(table: Float[Tensor, "b x y"]) -> Float[Tensor, "b x y"]:
    return table - table.mean(1, keepdim=True)


def _difference(table: Float[Tensor, "b x y"], both: Int[Tensor, "b z"]) -> Float[Tensor, "b k y"]:
    """Return winners' rows less losers'; `both` is winner, loser, winner, loser, .."""
    (selected,) = chosen([(table,)], both)[0]
    return selected[:, 0::2] - selected[:, 1::2]
