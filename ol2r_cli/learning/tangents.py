"""Gradients of scores with respect to parameters ("tangents"), and their inner products.

The gradient of a network's score is, layer by layer, the outer product of two vectors. So an inner product of two
gradients is a sum over layers of products of short inner products: 2 (d + 4 m) multiplications, where the gradient has
m (d + m) numbers (the empirical tangent kernel). Nothing here writes a whole gradient out but `written_out`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ol2r_cli import loops
from ol2r_cli.interfaces import Candidates, Preferences
from ol2r_cli.learning import tangent_loops
from ol2r_cli.tensor.gather import gather
from ol2r_cli.tensor.shapes import Float, Int

# The gradients of some documents: for each layer the vectors [b x c] whose outer product is the gradient.
Layers = list[tuple[Tensor, ...]]

CHUNK = 1 << 26  # numbers of the gradients that `gram` writes out at once on a GPU


class LinearTangent:
    """The gradient of theta.x with respect to theta is x."""

    def __init__(self, features: Float[Tensor, "B D F"]):
        self.features = features

    def dense(self) -> Float[Tensor, "B D F"]:
        return self.features

    def differences(self, preferences: Preferences) -> Float[Tensor, "B M F"]:
        both = torch.cat([preferences.winner, preferences.loser], dim=1)
        winner, loser = gather(self.features, both).tensor_split(2, dim=1)
        return (winner - loser) * preferences.valid[:, :, None]


class TableTangent:
    """The same as `LinearTangent`, without features of all candidates: only those of pairs are read from the table."""

    def __init__(self, candidates: Candidates, dtype: torch.dtype):
        self.candidates, self.dtype = candidates, dtype

    def dense(self) -> Float[Tensor, "B D F"]:
        return self.candidates.features

    def differences(self, preferences: Preferences) -> Float[Tensor, "B M F"]:
        table, start, _ = self.candidates.in_table()
        pairs = preferences.winner, preferences.loser, preferences.valid
        rows = table.new_empty(*preferences.winner.shape, table.shape[1], dtype=self.dtype)
        loops.launch.launch(loops.single.subtract_losers, len(rows), 0, table, start, *pairs, rows)
        return rows


class LayeredTangent:
    """The gradient of a network's score, divided by sqrt(m).

    `layers` are delta [B D r] and hidden [B D c] of each layer, and hidden alone of the last one; the hidden of the
    first layer are the features. `at` maps features to the tangent of other documents at the same parameters.
    """

    def __init__(self, layers: Layers, at: Callable[[Tensor], LayeredTangent]):
        self.layers, self.at = layers, at

    def dense(self) -> Float[Tensor, "B D P"]:
        return written_out(self.layers)

    def differences(self, preferences: Preferences) -> Float[Tensor, "B M P"]:
        pairs = chosen(self.layers, in_turn(preferences))
        return pair_differences(pairs) * preferences.valid[:, :, None]


def in_turn(preferences: Preferences) -> Int[Tensor, "B X"]:
    """Return winner, loser, winner, loser, .. of all pairs."""
    return torch.stack([preferences.winner, preferences.loser], dim=2).flatten(1)


def in_precision(layers: Layers, dtype: torch.dtype) -> Layers:
    """Return the gradients in this precision."""
    return [tuple(vectors.to(dtype) for vectors in layer) for layer in layers]


def rows(layers: Layers, replicas: Tensor | slice, documents: slice = slice(None)) -> Layers:
    """Return the gradients of a range of documents of some replicas."""
    return [tuple(vectors[replicas][:, documents] for vectors in layer) for layer in layers]


def chosen(layers: Layers, index: Int[Tensor, "b y"]) -> Layers:
    """Return the gradients of these documents, in this order."""
    return [tuple(gather(vectors, index) for vectors in layer) for layer in layers]


def joined(parts: Sequence[Layers]) -> Layers:
    """Return the documents of all parts, one part after the other."""
    return [tuple(torch.cat(vectors, 1) for vectors in zip(*layer, strict=True)) for layer in zip(*parts, strict=True)]


def kernel(left: Layers, right: Layers) -> Float[Tensor, "b x y"]:
    """Return k(i, j) = <gradient_i, gradient_j> = sum over layers of <delta_i, delta_j> <hidden_i, hidden_j>."""
    total: Tensor | None = None
    for layer, other in zip(left, right, strict=True):
        product, *more = [torch.bmm(a, b.mT) for a, b in zip(layer, other, strict=True)]
        for factor in more:
            product.mul_(factor)
        total = product if total is None else total.add_(product)
    assert total is not None
    return total


def written_out(layers: Layers) -> Float[Tensor, "b x P"]:
    """Return the gradients, in the order of the parameters."""
    parts = [
        layer[0] if len(layer) == 1 else (layer[0][..., :, None] * layer[1][..., None, :]).flatten(2)
        for layer in layers
    ]
    return torch.cat(parts, -1)


def pair_differences(pairs: Layers) -> Float[Tensor, "b k P"]:
    """Return the winner's less the loser's gradient, written out; `pairs` holds winner, loser, winner, loser, .."""
    gradients = written_out(pairs)
    return gradients[:, 0::2] - gradients[:, 1::2]


def parameters(layers: Layers) -> int:
    """Return P, the length of a gradient."""
    return sum(math.prod(vectors.shape[2] for vectors in layer) for layer in layers)


def squared_distances(gram: Float[Tensor, "b x x"]) -> Float[Tensor, "b x x"]:
    """Return |g_a - g_b|^2 = G_aa + G_bb - 2 G_ab from the Gram matrix G; what rounding puts below 0 is 0."""
    lengths = gram.diagonal(dim1=1, dim2=2)
    return torch.add(lengths[:, :, None], lengths[:, None, :]).sub_(gram, alpha=2).clamp_(min=0)


def weights(layers: Layers, diagonal: Float[Tensor, "b P"]) -> list[Tensor]:
    """Return 1 / diagonal, in the shape of each layer's gradient: [b r c], or [b c] where delta is a single number."""
    forms = [[vectors.shape[2] for vectors in layer] for layer in layers]
    inverse = diagonal.reciprocal().to(layers[0][0].dtype).split([math.prod(form) for form in forms], 1)
    return [part.unflatten(1, form) for part, form in zip(inverse, forms, strict=True)]


def to_first(layers: Layers, inverse: list[Tensor]) -> Float[Tensor, "b x"]:
    """Return the squared distance of every document to the first in the norm of `inverse` (see `weights`), rounded
    up."""
    length, product = (torch.zeros_like(layers[0][0][..., 0]) for _ in range(2))
    for layer, weight in zip(layers, inverse, strict=True):
        *delta, hidden = layer
        square, cross = hidden.square(), hidden * hidden[:, :1]
        if delta:
            length += (torch.bmm(delta[0].square(), weight) * square).sum(2)
            product += (torch.bmm(delta[0] * delta[0][:, :1], weight) * cross).sum(2)
        else:
            length += (square * weight[:, None]).sum(2)
            product += (cross * weight[:, None]).sum(2)
    lengths = length + length[:, :1]
    return (lengths - 2 * product).clamp_(min=0) + 16 * torch.finfo(length.dtype).eps * lengths


def gram(layers: Layers, inverse: list[Tensor]) -> Float[Tensor, "b x x"]:
    """Return inner products of the gradients in the norm of `inverse` (see `weights`): by a loop on a CPU, and on a GPU
    of a few rows of a gradient at a time."""
    replicas, documents = layers[0][0].shape[:2]
    total = layers[0][0].new_zeros(replicas, documents, documents)
    for layer, weight in zip(layers, inverse, strict=True):
        *delta, hidden = layer
        if not delta:
            total.baddbmm_(hidden * weight[:, None], hidden.mT)
            continue
        if total.is_cpu:
            for arrays in zip(total.numpy(), delta[0].numpy(), hidden.numpy(), weight.numpy(), strict=True):
                tangent_loops.add_gram(*arrays)
            continue
        step = max(1, CHUNK // hidden.numel())
        for start in range(0, weight.shape[1], step):
            deltas, root = delta[0][:, :, start : start + step], weight[:, None, start : start + step].sqrt()
            part = (deltas[..., None] * hidden[:, :, None]).mul_(root).flatten(2)
            total.baddbmm_(part, part.mT)
    return total
