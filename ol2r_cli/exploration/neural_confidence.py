"""Explore only uncertain pairs of a network: confidence intervals on its tangent features (olRankNet, 2022).

A = l2 I + sum of v v^T over the preferences so far, where v is the difference of two gradients, kept in full or as its
diagonal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal

import torch
from torch import Tensor

from ol2r_cli.config.ranges import Positive
from ol2r_cli.exploration.divide_and_conquer import DivideAndConquer, ScoreOrder, Shuffle, Width
from ol2r_cli.interfaces import (
    TANGENT,
    Candidates,
    Forgetting,
    Interaction,
    Need,
    Oracle,
    Prediction,
    Preferences,
    Proposal,
    RunContext,
)
from ol2r_cli.learning import tangents
from ol2r_cli.learning.covariance import STRIP, FullCovariance, Solution, most_rows
from ol2r_cli.learning.tangents import LayeredTangent, Layers, squared_distances
from ol2r_cli.tensor.gather import cached_arange, gather
from ol2r_cli.tensor.memory import available_memory
from ol2r_cli.tensor.shapes import Bool, Float, Int
from ol2r_cli.tensor.streams import Random

Pairs = tuple[LayeredTangent, Tensor]  # gradients of winner and loser in turn [B 2M]; which pairs are valid [B M]


class NeuralConfidence(DivideAndConquer):
    """Document i is certainly above j if and only if sigma(s_i - s_j) - 1/2 > alpha |phi_i - phi_j|_{A^-1}.

    phi is the gradient of the network's score divided by sqrt(m), and A = l2 I + sum of v v^T with
    v = phi_winner - phi_loser over the preferences so far. `covariance` is `full`, exact at any width, or `diagonal`
    (the inverse of the diagonal of A, the papers' approximation). Their widths differ by an order of magnitude, so they
    need different values of `alpha`. `tangent_at` is `serving` (v at the parameters that served the round) or `refit`
    (v at the parameters after the round's fit). `precision` is that of the full covariance. `prune` leaves out
    documents that cannot be shown, unless they are traced. `shuffle` and `transitive` as in `DivideAndConquer`.

    Where the ranker forgets (`RunContext.forgetting`), `diagonal` does as `inverse_diagonal` of `Confidence`, which
    takes a number for every parameter and round of a window, and `full` is refused.
    """

    needs = (Need(TANGENT, "exploration=confidence"),)

    def __init__(
        self,
        alpha: Width,
        covariance: Literal["full", "diagonal"],
        l2: Positive,
        tangent_at: Literal["serving", "refit"],
        precision: Literal["float64", "float32"],
        prune: bool,
        shuffle: Shuffle,
        transitive: bool,
    ):
        super().__init__(shuffle, transitive)
        self.alpha = float(alpha)  # the square of a whole number may be too large for a tensor
        self.covariance, self.l2 = covariance, l2
        self.tangent_at, self.dtype, self.prune = tangent_at, getattr(torch, precision), prune
        self.learns_late = covariance == "diagonal" and tangent_at == "serving"

    def setup(self, context: RunContext, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """Start with A = l2 I; ValueError if the largest possible full covariance exceeds the memory."""
        super().setup(context, features)
        self.prunes = self.prune and self.only_shown and self.shuffle == "conservative"
        self.tangents: DiagonalTangentCovariance | FullTangentCovariance
        if self.covariance == "diagonal":
            self.tangents = DiagonalTangentCovariance(self.l2, context)
        else:
            self._check_full_covariance(context)
            self.tangents = FullTangentCovariance(self.l2, context, self.dtype)
        self.waiting: tuple[Tensor, Tensor] | None = None  # the latest pairs: features [B 2M F], valid [B M]

    def _check_full_covariance(self, context: RunContext) -> None:
        """Raise ValueError where the ranker forgets, or the covariance may need more than the memory."""
        name = self.setting("covariance")
        if context.forgetting != Forgetting():
            raise ValueError(f"{name} must be diagonal where the ranker forgets pairs, got full")
        # The triangle, the history and one query's products, where every round has K // 2 pairs. A gradient is kept as
        # its factors: the features and some vectors of a hidden layer's width, which is at most the root of P.
        rows = most_rows(context.rounds * max(context.positions // 2, 1), context.parameters)
        numbers = 2 * (context.features + 4 * math.isqrt(context.parameters)) + context.documents
        needed = context.replicas * self.dtype.itemsize * (rows * (rows + STRIP) // 2 + rows * numbers)
        memory = available_memory(context.device)
        if needed > memory:
            raise ValueError(
                f"{name} must be diagonal, or rounds or replicas fewer, in {memory / 2**30:.1f} GiB of memory, got "
                f"full with rounds={context.rounds} and replicas={context.replicas}, which may need "
                f"{needed / 2**30:.1f} GiB"
            )

    def propose(self, prediction: Prediction, candidates: Candidates, random: Random) -> Proposal:
        """Add the pairs that wait for the fit, then propose as every divide-and-conquer exploration."""
        tangent, pairs = layered_tangent(prediction), None
        if self.waiting is not None:
            features, valid = self.waiting
            pairs, self.waiting = (tangent.at(features), valid), None
        self.tangents.begin(tangent, pairs)
        return super().propose(prediction, candidates, random)

    def learn(self, interaction: Interaction, random: Random) -> None:
        """Add the round's pairs to A, or keep their features until the network has been fitted."""
        preferences = interaction.preferences
        if self.tangent_at == "refit":
            both = tangents.in_turn(preferences)
            self.waiting = gather(interaction.candidates.features, both), preferences.valid
        else:
            self.tangents.learn(preferences, layered_tangent(interaction.prediction))

    def compared(self, prediction: Prediction, scores: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
        """Compare all lists at once on a GPU; on a CPU one after the other, without padding, so that a replica does not
        depend on its neighbours."""
        if not mask.is_cpu:
            return super().compared(prediction, scores, mask)
        score_orders, documents = torch.zeros(mask.shape, dtype=torch.int64), mask.shape[1]
        compared, certain = score_orders.new_zeros(len(mask)), mask.new_zeros(len(mask), documents, documents)
        for b, length in enumerate(mask.sum(1).tolist()):
            sorted_scores, score_order = scores[b : b + 1, :length].sort(1, descending=True)
            real = torch.ones_like(score_order, dtype=torch.bool)
            found = self.certain(ScoreOrder(slice(b, b + 1), prediction, score_order, sorted_scores, real))[0]
            score_orders[b, :length], compared[b] = score_order[0], len(found)
            certain[b, : len(found), : len(found)] = found
        return score_orders, certain, compared

    def certain(self, ranked: ScoreOrder) -> Bool[Tensor, "b s s"]:
        """Compare sigma(s_i - s_j) - 1/2 with alpha times the width, both squared, for documents that can be shown.

        The former is 0 for documents with equal features: their order cannot be certain, whatever the last bits of
        their scores. Features are compared by one fixed random combination.
        """
        replicas, prediction, order, scores, mask = ranked
        features = layered_tangent(prediction).layers[0][1][replicas, : order.shape[1]].double()
        combined = (features * _combination(features.shape[2], features.device)).sum(2).gather(1, order)
        margins = (scores[:, :, None] - scores[:, None, :]).sigmoid_().sub_(0.5).clamp_(min=0).square_()
        margins.masked_fill_(combined[:, :, None] == combined[:, None, :], 0)
        margins.masked_fill_(~mask[:, None, :], torch.inf)
        criterion = Certainty(margins, self.alpha**2, mask.sum(1), self.positions if self.prunes else None)
        return self.tangents.certain(replicas, order, criterion)

    def get_extra_state(self) -> dict[str, Any]:
        return {"tangents": self.tangents.state(), "waiting": list(self.waiting or ())}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        self.tangents.restore(state["tangents"])
        waiting = [values.to(self.tangents.device) for values in state["waiting"]]
        self.waiting = (waiting[0], waiting[1]) if waiting else None


def layered_tangent(prediction: Prediction) -> LayeredTangent:
    """Return the gradients of a network's scores."""
    tangent = prediction.tangent()
    assert isinstance(tangent, LayeredTangent)
    return tangent


@cache
def _combination(features: int, device: torch.device) -> Float[Tensor, "F"]:
    """Return random coefficients, so that different features have different sums. The tensor is shared."""
    return torch.rand(features, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(device)


@dataclass(frozen=True)
class Certainty:
    """When a pair is certain, for documents in score order."""

    margins: Float[Tensor, "b d d"]  # (sigma(s_i - s_j) - 1/2)^2, or 0 if s_i < s_j; infinity if j is padding
    scale: float  # alpha^2
    lengths: Int[Tensor, "b"]  # how many documents are no padding
    positions: int | None  # K if documents that cannot be among the first K may be left out, otherwise None

    def of(self, replicas: slice | Tensor) -> Certainty:
        """Return the criterion of some of the replicas."""
        return replace(self, margins=self.margins[replicas], lengths=self.lengths[replicas])

    def certain(self, distances: Float[Tensor, "b s s"]) -> Bool[Tensor, "b s s"]:
        """Return which pairs of the first s documents are certain, given their squared distances."""
        size = distances.shape[1]
        return self.margins[:, :size, :size] > distances * self.scale

    def needed(self, distances: Float[Tensor, "b s s"]) -> Int[Tensor, "b"]:
        """Return for each replica the rank of the last document with fewer than K documents certainly above it.

        `distances` are upper bounds. Documents below that rank cannot be among the first K, and they do not influence
        the documents above it, because certain pairs only point down the list.
        """
        assert self.positions is not None
        above = self.certain(distances).triu(1).sum(1)
        return ((above < self.positions) * (cached_arange(above.shape[1], above.device) + 1)).amax(1)


TILE = 64  # sizes are equally dear up to a multiple of it, because products of matrices are computed in tiles


def by_size(sizes: Int[Tensor, "b"]) -> list[tuple[int, slice | Tensor]]:
    """Return replicas in groups of similar sizes, each group with the largest of its sizes. Sizes are read on the host.

    A product over a group takes as long as if all its replicas had the largest size. The longest of a thousand lists
    has several times as many documents as their mean, and a Gram matrix grows with the square of the list.
    """
    known = sizes.tolist()
    members: dict[int, list[int]] = {}
    for replica, size in enumerate(known):
        members.setdefault(-(-size // TILE), []).append(replica)
    if len(members) == 1:
        return [(max(known), slice(None))]
    return [
        (max(known[replica] for replica in replicas), torch.tensor(replicas, device=sizes.device))
        for replicas in members.values()
    ]


class DiagonalTangentCovariance:
    """The diagonal of A, as a weight per parameter. Each round calls `begin`, `certain`, and `learn` unless pairs wait.

    Where the run forgets, a pair counts w in A by its age, and with a discount w^2 in a second diagonal: the norm is
    then that of squared / diagonal^2 (D-LinUCB, Russac et al., NeurIPS 2019, on diagonals).
    """

    def __init__(self, l2: float, context: RunContext):
        self.l2, self.device, self.replicas = l2, context.device, context.replicas
        self.window, self.discount = context.forgetting.window, context.forgetting.discount
        # [B P] each, float64; empty before the first round: the diagonal, with a discount the one of squares, and of
        # each round in a window what it has added.
        self.kept: list[Tensor] = []

    def begin(self, tangent: LayeredTangent, pairs: Pairs | None) -> None:
        """Start a round with the candidates' gradients, after adding the `pairs` of the previous one; invert A."""
        self.layers = tangent.layers
        if not self.kept:
            shape = self.replicas, tangents.parameters(self.layers)
            diagonal = torch.full(shape, self.l2, dtype=torch.float64, device=self.device)
            self.kept = [diagonal, diagonal.clone()] if self.discount < 1 else [diagonal]
        if pairs is not None:
            self._add(pairs[0].layers, pairs[1])
        diagonal = self.kept[0]
        norm = diagonal.square() / self.kept[1] if self.discount < 1 else diagonal
        self.weights = tangents.weights(self.layers, norm)

    def certain(self, replicas: slice, order: Int[Tensor, "b d"], criterion: Certainty) -> Bool[Tensor, "b s s"]:
        """Return which pairs are certain among the first s documents of an order: those that can be shown.

        Distances to the best document are cheap. By the triangle inequality their sum bounds the distance of a pair. In
        a replica that needs fewer documents than another, the rest rank certainly below.
        """
        layers = tangents.chosen(tangents.rows(self.layers, replicas, slice(order.shape[1])), order)
        inverse = [weight[replicas] for weight in self.weights]
        sizes, most = criterion.lengths, order.shape[1]
        if criterion.positions is not None:
            distance = tangents.to_first(layers, inverse).sqrt_()
            sizes = criterion.needed((distance[:, :, None] + distance[:, None, :]).square_())
            most = int(sizes.max())
        certain = torch.ones(len(order), most, most, dtype=torch.bool, device=order.device).triu_(1)
        for size, group in by_size(sizes):
            some = tangents.rows(layers, group, slice(size))
            gram = tangents.gram(some, [weight[group] for weight in inverse])
            certain[group, :size, :size] = criterion.of(group).certain(squared_distances(gram))
        return certain

    def learn(self, preferences: Preferences, tangent: LayeredTangent) -> None:
        self._add(tangents.chosen(tangent.layers, tangents.in_turn(preferences)), preferences.valid)

    def _add(self, pairs: Layers, valid: Bool[Tensor, "B M"]) -> None:
        added = (tangents.pair_differences(pairs).square_() * valid[:, :, None]).sum(1)
        if self.discount < 1:
            for diagonal, factor in zip(self.kept, (self.discount, self.discount**2), strict=True):
                diagonal.mul_(factor).add_(added).add_((1 - factor) * self.l2)
            return
        self.kept[0] += added
        if self.window is not None:
            self.kept.append(added)
            if len(self.kept) > 1 + self.window:
                self.kept[0] = (self.kept[0] - self.kept.pop(1)).clamp_(min=self.l2)  # below by rounding

    def state(self) -> list[Any]:
        return list(self.kept)

    def restore(self, state: list[Any]) -> None:
        self.kept = [diagonal.to(self.device, copy=True) for diagonal in state]


class FullTangentCovariance:
    """A itself. Every replica has its own covariance, of its own valid pairs, which are read on the host."""

    def __init__(self, l2: float, context: RunContext, dtype: torch.dtype):
        self.l2, self.dtype, self.device = l2, dtype, context.device
        self.parts = [FullCovariance(l2) for _ in range(context.replicas)]
        self.solved: dict[int, tuple[Solution, Tensor]] = {}  # by replica: the latest solution, its order of documents

    def begin(self, tangent: LayeredTangent, pairs: Pairs | None) -> None:
        """Start a round; `certain` adds the pairs, because solving for them and the candidates together is cheaper."""
        self.layers, self.solved = tangents.in_precision(tangent.layers, self.dtype), {}
        self.pairs = None if pairs is None else (tangents.in_precision(pairs[0].layers, self.dtype), pairs[1])

    def certain(self, replicas: slice, order: Int[Tensor, "b d"], criterion: Certainty) -> Bool[Tensor, "b s s"]:
        """Solve for each replica. In one that needs fewer documents than another, the rest rank certainly below."""
        layers = tangents.chosen(tangents.rows(self.layers, replicas, slice(order.shape[1])), order)
        tables = []
        for place, replica in enumerate(range(len(self.parts))[replicas]):
            one = slice(place, place + 1)
            tables.append(self._solve(replica, tangents.rows(layers, one), order[one], criterion.of(one)))
        most = max(table.shape[1] for table in tables)
        certain = tables[0].new_ones(most, most).triu_(1).repeat(len(tables), 1, 1)
        for target, table in zip(certain, tables, strict=True):
            target[: table.shape[1], : table.shape[1]] = table[0]
        return certain

    def _solve(
        self, replica: int, layers: Layers, order: Int[Tensor, "1 d"], criterion: Certainty
    ) -> Bool[Tensor, "1 s s"]:
        """Return the certain pairs of one replica. Pairs that wait to be added are its first documents."""
        first = 0
        if self.pairs is not None:  # winner, loser, winner, loser, .. of the valid pairs of the previous round
            index = self.pairs[1][replica].repeat_interleave(2).nonzero()[:, 0]
            first = len(index)
            if first:
                waiting = tangents.chosen(tangents.rows(self.pairs[0], slice(replica, replica + 1)), index[None])
                layers = tangents.joined([waiting, layers])

        def narrow(residual: Tensor) -> int:
            return int(criterion.needed(squared_distances(residual).div_(self.l2)))

        solved = self.parts[replica].solve(layers, None if criterion.positions is None else narrow, first)
        if first:
            pair = cached_arange(first // 2, order.device)[None] * 2
            self.parts[replica].append(solved, pair, pair + 1)
        else:
            self.solved[replica] = solved, order
        return criterion.certain(squared_distances(solved.residual[:, first:, first:]).div_(self.l2))

    def learn(self, preferences: Preferences, tangent: LayeredTangent) -> None:
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
        for part, of_replica in zip(self.parts, state, strict=True):
            part.restore(of_replica, self.device)
