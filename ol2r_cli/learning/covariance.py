"""A = l2 I + sum of v v^T over differences v of a network's tangents, and distances in the norm of its inverse.

Exact at any width of the network: by the dual form, whose size is the number of v's, until these outnumber a small
network's parameters, by the inverse itself from there on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from ol2r_cli.host import on_host
from ol2r_cli.learning.dual import DualInverse, Narrow, Solution
from ol2r_cli.learning.kernel import Layers, chosen, joined, parameters, rows
from ol2r_cli.learning.primal import PrimalInverse, outer_products
from ol2r_cli.shapes import Bool, Float, Int

PRIMAL = 6_000  # parameters up to which the inverse is ever written out
SELDOM = 64  # rounds after which a GPU is asked whether rounding has gone too far
RATIO = 1.4  # rows per parameter from which on that is cheaper


def most_rows(rows: int, parameters: int) -> int:
    """How many of so many rows the dual form will ever hold."""
    return min(rows, int(RATIO * parameters) + 1) if parameters <= PRIMAL else rows


class FullCovariance:
    """Of one replica, or of several that receive the same number of rows every round; in the gradients' precision."""

    def __init__(self, l2: float):
        self.l2 = l2
        self.form: DualInverse | PrimalInverse = DualInverse(l2)
        self.asked = 0  # how often rounding could have shown

    def solve(self, layers: Layers, narrow: Narrow | None = None, first: int = 0) -> Solution:
        """S / l2 is the documents' Gram matrix in the norm of A^-1; see `DualInverse.solve`."""
        return self.form.solve(layers, narrow, first)

    def append(
        self, solved: Solution, winner: Int[Tensor, "b k"], loser: Int[Tensor, "b k"], valid: Bool[Tensor, "b k"]
    ) -> None:
        """Add differences of documents that have been solved for, and bring S up to date; zero where not `valid`.

        ValueError where rounding has made the matrix impossible.
        """
        both, counts = torch.stack([winner, loser], 2).flatten(1), valid.to(solved.residual.dtype)[:, :, None]
        pairs = _scaled(chosen(solved.layers, both), counts.repeat_interleave(2, 1))
        across = _difference(solved.residual, both) * counts
        block = _difference(across.mT, both).mT * counts.mT
        if isinstance(self.form, PrimalInverse):
            self.form.append(pairs)
            block.diagonal(dim1=1, dim2=2).add_(self.l2)
            root = torch.linalg.cholesky_ex(block).L
        else:
            root = self.form.append(_difference(solved.projected, both) * counts, block, pairs)
            self._check(self.form)
            if most_rows(self.form.rows, parameters(pairs)) < self.form.rows:
                history = joined([strip.history() for strip in self.form.strips])
                self.form = PrimalInverse(outer_products(history, self.l2), self.l2)
        new = torch.linalg.solve_triangular(root, across, upper=False)
        solved.residual.baddbmm_(new.mT, new, alpha=-1)

    def state(self, replica: int) -> dict[str, Any]:
        """What it takes to restore it: the matrix, or the gradients of winners and losers, one after the other."""
        own = slice(replica, replica + 1)
        if isinstance(self.form, PrimalInverse):
            return {"matrix": self.form.matrix[own].clone(), "rounds": self.form.rounds}
        strips = [rows(strip.history(), own) for strip in self.form.strips]
        return {"history": [list(layer) for layer in joined(strips)] if strips else []}

    def restore(self, states: Sequence[dict[str, Any]], device: torch.device) -> None:
        """Take over a state per replica, wherever it comes from; what has not been saved is computed anew."""
        histories = [[tuple(vectors.to(device) for vectors in layer) for layer in s.get("history", [])] for s in states]
        if any("matrix" in state for state in states):
            pairs = zip(states, histories, strict=True)
            matrices = [s["matrix"].to(device) if "matrix" in s else outer_products(h, self.l2) for s, h in pairs]
            self.form = PrimalInverse(torch.cat(matrices), self.l2, max(s.get("rounds", 0) for s in states))
        elif any(histories):
            self.form = DualInverse(self.l2)
            self.form.restore(_side_by_side(histories))

    def _check(self, dual: DualInverse) -> None:
        self.asked += 1
        if dual.failed is None or (not on_host(dual.failed) and self.asked % SELDOM) or not dual.failed.any():
            return
        single = dual.strips[0].inverse.dtype == torch.float32
        name, allowed = ("precision", "float64") if single else ("l2", "larger")
        given = "float32" if single else self.l2
        raise ValueError(
            f"exploration.{name} must be {allowed} with exploration.l2={self.l2} and {dual.rows} pairs, got {given}"
        )


def _scaled(layers: Layers, factor: Float[Tensor, "b x 1"]) -> Layers:
    """Every document's gradient times its factor."""
    return [(layer[0] * factor, *layer[1:]) for layer in layers]


def _difference(table: Float[Tensor, "b x y"], both: Int[Tensor, "b z"]) -> Float[Tensor, "b k y"]:
    """Winners' rows less losers', the two standing one after the other in `both`."""
    (found,) = chosen([(table,)], both)[0]
    return found[:, 0::2] - found[:, 1::2]


def _side_by_side(histories: Sequence[Layers]) -> Layers:
    """Histories of several replicas as one, in step: a shorter one ends with zeros."""
    some = next(history for history in histories if history)
    longest = max(history[0][0].shape[1] for history in histories if history)
    filled = []
    for history in histories:
        own = history or [tuple(vectors[:, :0] for vectors in layer) for layer in some]
        missing = longest - own[0][0].shape[1]
        filled.append([tuple(pad(vectors, (0, 0, 0, missing)) for vectors in layer) for layer in own])
    return [tuple(torch.cat(vectors) for vectors in zip(*layer, strict=True)) for layer in zip(*filled, strict=True)]
