"""Products of a network's tangents that never write a gradient out: its empirical tangent kernel.

The gradient of a score is, layer by layer, the outer product of two vectors, so that an inner product of two gradients
is a sum over layers of products of short inner products: 2 (d + 4 m) multiplications where the gradient has m (d + m).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from ol2r_cli.rows import pick
from ol2r_cli.shapes import Float, Int

# Some documents' gradients: for each layer the vectors [b x c] whose outer product is the gradient.
Layers = list[tuple[Tensor, ...]]


def layers_of(factors: Iterable[tuple[Tensor, Tensor]], dtype: torch.dtype | None = None) -> Layers:
    """The factors of a `LayeredTangent`, in a precision; a delta of one number is multiplied into its hidden."""
    found: Layers = []
    for delta, hidden in factors:
        delta, hidden = delta.to(dtype or delta.dtype), hidden.to(dtype or hidden.dtype)
        found.append((hidden * delta,) if delta.shape[-1] == 1 else (delta, hidden))
    return found


def rows(layers: Layers, replicas: Tensor | slice, documents: slice = slice(None)) -> Layers:
    """The gradients of some replicas' first, last or middle documents."""
    return [tuple(vectors[replicas][:, documents] for vectors in layer) for layer in layers]


def chosen(layers: Layers, index: Int[Tensor, "b y"]) -> Layers:
    """The gradients of these documents, in this order."""
    return [tuple(pick(vectors, index) for vectors in layer) for layer in layers]


def joined(parts: Sequence[Layers]) -> Layers:
    """The documents of all parts, one part after the other."""
    return [tuple(torch.cat(vectors, 1) for vectors in zip(*layer, strict=True)) for layer in zip(*parts, strict=True)]


def kernel(left: Layers, right: Layers) -> Float[Tensor, "b x y"]:
    """k(i, j) = <gradient_i, gradient_j> = sum over layers of <delta_i, delta_j> <hidden_i, hidden_j>."""
    total: Tensor | None = None
    for layer, other in zip(left, right, strict=True):
        product, *more = [torch.bmm(a, b.mT) for a, b in zip(layer, other, strict=True)]
        for factor in more:
            product.mul_(factor)
        total = product if total is None else total.add_(product)
    assert total is not None
    return total


def written_out(layers: Layers) -> Float[Tensor, "b x P"]:
    """The gradients themselves, in the order of the parameters."""
    parts = [
        layer[0] if len(layer) == 1 else (layer[0][..., :, None] * layer[1][..., None, :]).flatten(2)
        for layer in layers
    ]
    return torch.cat(parts, -1)


def differences(pairs: Layers) -> Float[Tensor, "b k P"]:
    """Winner's less loser's gradient, written out, of winners and losers one after the other."""
    gradients = written_out(pairs)
    return gradients[:, 0::2] - gradients[:, 1::2]


def shapes(layers: Layers) -> list[torch.Size]:
    """The shape of each layer's gradient."""
    return [torch.Size(vectors.shape[2] for vectors in layer) for layer in layers]


def parameters(layers: Layers) -> int:
    """P, the length of a gradient."""
    return sum(shape.numel() for shape in shapes(layers))


def squared_distances(gram: Float[Tensor, "b x x"]) -> Float[Tensor, "b x x"]:
    """G_aa + G_bb - 2 G_ab, never below 0 for all the rounding."""
    own = gram.diagonal(dim1=1, dim2=2)
    return torch.add(own[:, :, None], own[:, None, :]).sub_(gram, alpha=2).clamp_(min=0)
