"""Which pairs of documents are certain, given the covariance of a network's tangents: full or diagonal.

A = l2 I + sum of v v^T over the preferences so far, where v is the difference of two gradients.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from ol2r_cli.interfaces import Preferences, RunContext
from ol2r_cli.learning.covariance import STRIP, FullCovariance, Solution, most_rows
from ol2r_cli.learning.tangents import (
    LayeredTangent,
    Layers,
    chosen,
    differences,
    gram,
    joined,
    layers_of,
    parameters,
    rows,
    squared_distances,
    to_first,
    weights,
)
from ol2r_cli.tensor.gather import cached_arange
from ol2r_cli.tensor.shapes import Bool, Float, Int

Pairs = tuple[LayeredTangent, Tensor]  # gradients of winner and loser in turn [B 2M]; which pairs are valid [B M]


@dataclass(frozen=True)
class Criterion:
    """When a pair is certain, for documents in score order."""

    margins: Float[Tensor, "b d d"]  # (sigma(s_i - s_j) - 1/2)^2, or 0 if s_i < s_j
    scale: float  # alpha^2
    positions: int | None  # K if documents that cannot be among the first K may be left out, otherwise None

    def of(self, replica: slice) -> Criterion:
        """Return the criterion of some of the replicas."""
        return replace(self, margins=self.margins[replica])

    def certain(self, distances: Float[Tensor, "b s s"]) -> Bool[Tensor, "b s s"]:
        """Return which pairs of the first s documents are certain, given their squared distances."""
        size = distances.shape[1]
        return self.margins[:, :size, :size] > distances * self.scale

    def needed(self, distances: Float[Tensor, "b s s"]) -> int:
        """Return the rank of the last document with fewer than K documents certainly above it.

        `distances` are upper bounds. Documents below that rank cannot be among the first K, and they do not influence
        the documents above it, because certain pairs only point down the list.
        """
        assert self.positions is not None
        above = self.certain(distances).triu(1).sum(1)
        return int(((above < self.positions) * (cached_arange(above.shape[1], above.device) + 1)).max())


class TangentCovariance(Protocol):
    """A form of A. Each round calls `begin`, then `certain` for all replicas, then `learn` unless pairs wait."""

    device: torch.device

    def begin(self, tangent: LayeredTangent, pairs: Pairs | None) -> None:
        """Start a round with the candidates' gradients, and first add the `pairs` of the previous round, if any."""
        ...

    def certain(self, replicas: slice, order: Int[Tensor, "b d"], criterion: Criterion) -> Bool[Tensor, "b s s"]:
        """Return which pairs are certain among the first s documents of an order: those that can be shown."""
        ...

    def learn(self, preferences: Preferences) -> None:
        """Add pairs of this round's candidates."""
        ...

    def state(self) -> list[Any]:
        """Return tensors and numbers for every replica."""
        ...

    def restore(self, state: list[Any]) -> None:
        """Restore what `state` returned."""
        ...


class DiagonalTangentCovariance:
    """The diagonal of A, as a weight per parameter.

    Where the run forgets, a pair counts w in A by its age, and with a discount w^2 in `squared`: the norm is then that
    of squared / diagonal^2 (D-LinUCB, Russac et al., NeurIPS 2019, on diagonals).
    """

    def __init__(self, l2: float, context: RunContext):
        self.l2, self.device, self.replicas = l2, context.device, context.replicas
        self.window, self.discount = context.forgetting.window, context.forgetting.discount
        self.diagonal: Tensor | None = None  # [B P], float64
        self.squared: Tensor | None = None  # [B P], with a discount
        self.recent: list[Tensor] = []  # [B P] of each round in the window: what it has added to the diagonal

    def begin(self, tangent: LayeredTangent, pairs: Pairs | None) -> None:
        """Update the diagonal and invert it."""
        self.layers = layers_of(tangent.factors)
        if self.diagonal is None:
            shape = self.replicas, parameters(self.layers)
            self.diagonal = torch.full(shape, self.l2, dtype=torch.float64, device=self.device)
            self.squared = self.diagonal.clone() if self.discount < 1 else None
        if pairs is not None:
            self._add(layers_of(pairs[0].factors), pairs[1])
        norm = self.diagonal if self.squared is None else self.diagonal.square() / self.squared
        self.weights = weights(self.layers, norm)

    def certain(self, replicas: slice, order: Int[Tensor, "b d"], criterion: Criterion) -> Bool[Tensor, "b s s"]:
        """Compute distances of the documents that can be shown.

        Distances to the best document are cheap. By the triangle inequality their sum bounds the distance of a pair.
        """
        layers = chosen(rows(self.layers, replicas, slice(order.shape[1])), order)
        inverse = [weight[replicas] for weight in self.weights]
        if criterion.positions is not None:
            distance = to_first(layers, inverse).sqrt_()
            needed = criterion.needed((distance[:, :, None] + distance[:, None, :]).square_())
            layers = rows(layers, slice(None), slice(needed))
        return criterion.certain(squared_distances(gram(layers, inverse)))

    def learn(self, preferences: Preferences) -> None:
        """Add the squares of the pairs' differences."""
        both = torch.stack([preferences.winner, preferences.loser], 2).flatten(1)
        self._add(chosen(self.layers, both), preferences.valid)

    def _add(self, pairs: Layers, valid: Bool[Tensor, "B M"]) -> None:
        assert self.diagonal is not None
        added = (differences(pairs).square_() * valid[:, :, None]).sum(1)
        if self.squared is not None:
            for diagonal, factor in (self.diagonal, self.discount), (self.squared, self.discount**2):
                diagonal.mul_(factor).add_(added).add_((1 - factor) * self.l2)
            return
        self.diagonal += added
        if self.window is not None:
            self.recent.append(added)
            if len(self.recent) > self.window:
                self.diagonal = (self.diagonal - self.recent.pop(0)).clamp_(min=self.l2)  # below by rounding

    def state(self) -> list[Any]:
        """Return the diagonals of every replica, and what a window has to subtract; empty before the first round."""
        if self.diagonal is None:
            return []
        kept = [self.diagonal, *([] if self.squared is None else [self.squared]), *self.recent]
        return list(torch.stack(kept, 1)) if len(kept) > 1 else list(self.diagonal.clone())

    def restore(self, state: list[Any]) -> None:
        self.diagonal, self.squared, self.recent = None, None, []
        if not state:
            return
        kept = torch.stack(state).to(self.device)
        if kept.dim() == 2:
            kept = kept[:, None]
        self.diagonal, *more = (part.clone() for part in kept.unbind(1))
        if self.discount < 1:
            (self.squared,) = more
        else:
            self.recent = more


class FullTangentCovariance:
    """A itself. Every replica has its own covariance, of its own valid pairs, which are read on the host."""

    def __init__(self, l2: float, context: RunContext, dtype: torch.dtype):
        self.l2, self.dtype, self.device = l2, dtype, context.device
        self.parts = [FullCovariance(l2, "exploration") for _ in range(context.replicas)]
        self.solved: dict[int, tuple[Solution, Tensor]] = {}  # by replica: the latest solution, its order of documents

    def begin(self, tangent: LayeredTangent, pairs: Pairs | None) -> None:
        """Start a round; `certain` adds the pairs, because solving for them and the candidates together is cheaper."""
        self.layers, self.solved = layers_of(tangent.factors, self.dtype), {}
        self.pairs = None if pairs is None else (layers_of(pairs[0].factors, self.dtype), pairs[1])

    def certain(self, replicas: slice, order: Int[Tensor, "b d"], criterion: Criterion) -> Bool[Tensor, "b s s"]:
        """Solve for each replica. One that needs fewer documents than another treats the rest as padding."""
        layers = chosen(rows(self.layers, replicas, slice(order.shape[1])), order)
        tables = []
        for place, replica in enumerate(range(len(self.parts))[replicas]):
            here = slice(place, place + 1)
            tables.append(self._solve(replica, rows(layers, here), order[here], criterion.of(here)))
        return tables[0] if len(tables) == 1 else _stack(tables)

    def _solve(
        self, replica: int, layers: Layers, order: Int[Tensor, "1 d"], criterion: Criterion
    ) -> Bool[Tensor, "1 s s"]:
        """Return the certain pairs of one replica. Pairs that wait to be added are its first documents."""
        waiting = self._waiting(replica)
        first = 0 if waiting is None else waiting[0][0].shape[1]
        if waiting is not None:
            layers = joined([waiting, layers])

        def narrow(residual: Tensor) -> int:
            return criterion.needed(squared_distances(residual).div_(self.l2))

        solved = self.parts[replica].solve(layers, None if criterion.positions is None else narrow, first)
        if waiting is not None:
            pair = cached_arange(first // 2, order.device)[None] * 2
            self.parts[replica].append(solved, pair, pair + 1)
        else:
            self.solved[replica] = solved, order
        return criterion.certain(squared_distances(solved.residual[:, first:, first:]).div_(self.l2))

    def _waiting(self, replica: int) -> Layers | None:
        """Return winner, loser, winner, loser, .. of the valid pairs of the previous round."""
        if self.pairs is None:
            return None
        index = self.pairs[1][replica].repeat_interleave(2).nonzero()[:, 0]
        only = slice(replica, replica + 1)
        return chosen(rows(self.pairs[0], only), index[None]) if len(index) else None

    def learn(self, preferences: Preferences) -> None:
        """Add pairs of documents that have just been solved for, which costs little."""
        for replica, (solved, order) in self.solved.items():
            valid = preferences.valid[replica]
            winner, loser = preferences.winner[replica, valid][None], preferences.loser[replica, valid][None]
            if winner.shape[1]:
                ranks = cached_arange(order.shape[1], order.device)[None]
                rank = torch.empty_like(order).scatter_(1, order, ranks)
                self.parts[replica].append(solved, rank.gather(1, winner), rank.gather(1, loser))

    def state(self) -> list[Any]:
        return [part.state() for part in self.parts]

    def restore(self, state: list[Any]) -> None:
        """Restore the histories and recompute everything else."""
        for part, of_replica in zip(self.parts, state, strict=True):
            part.restore(of_replica, self.device)


def _stack(tables: list[Tensor]) -> Bool[Tensor, "b s s"]:
    """Return the certain pairs of several replicas as one tensor. Missing documents rank certainly below."""
    most = max(table.shape[1] for table in tables)
    stacked = tables[0].new_ones(most, most).triu_(1).repeat(len(tables), 1, 1)
    for target, table in zip(stacked, tables, strict=True):
        target[: table.shape[1], : table.shape[1]] = table[0]
    return stacked


def most_rounds(context: RunContext, dtype: torch.dtype, memory: int) -> int:
    """Return for how many rounds, up to those of the run, a full covariance fits into so many bytes.

    The worst case is K // 2 pairs in every round.
    """
    pairs = max(context.positions // 2, 1)

    def needed(rounds: int) -> int:
        return _bytes(most_rows(rounds * pairs, context.parameters), context, dtype)

    return bisect_right(range(context.rounds + 1), memory, key=needed) - 1


def _bytes(rows: int, context: RunContext, dtype: torch.dtype) -> int:
    """Return the bytes of the triangle, the history and one query's products, for all replicas.

    The history keeps a gradient as its factors: the features and some vectors of a hidden layer's width, which is at
    most the root of P.
    """
    factors = context.features + 4 * math.isqrt(context.parameters)
    triangle = rows * (rows + STRIP) // 2
    return context.replicas * dtype.itemsize * (triangle + rows * (2 * factors + context.documents))
