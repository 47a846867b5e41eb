"""Distances between a network's tangents where the covariance matrix is reduced to its diagonal.

The inverse of the diagonal weighs every parameter by itself, so that an inner product of gradients no longer factorises
and costs as many operations as there are parameters. Distances to one document do factorise.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ol2r_cli.host import on_host
from ol2r_cli.learning.kernel import Layers, shapes
from ol2r_cli.shapes import Float

CHUNK = 1 << 18  # numbers of the gradients that are written out at once: they should stay in the cache of a CPU
CHUNK_GPU = 1 << 26


def weights(layers: Layers, diagonal: Float[Tensor, "b P"]) -> list[Tensor]:
    """1 / diagonal, in the form of each layer's gradient: [b r c], or [b c] where delta is a single number."""
    forms = shapes(layers)
    inverse = diagonal.reciprocal().to(layers[0][0].dtype).split([form.numel() for form in forms], 1)
    return [part.unflatten(1, form) for part, form in zip(inverse, forms, strict=True)]


def to_first(layers: Layers, inverse: list[Tensor]) -> Float[Tensor, "b x"]:
    """Squared distance of every document to the first, rounded up: |g_a|^2 + |g_e|^2 - 2 <g_a, g_e>, factorised."""
    own, product = (torch.zeros_like(layers[0][0][..., 0]) for _ in range(2))
    for layer, weight in zip(layers, inverse, strict=True):
        *delta, hidden = layer
        square, cross = hidden.square(), hidden * hidden[:, :1]
        if delta:
            own += (torch.bmm(delta[0].square(), weight) * square).sum(2)
            product += (torch.bmm(delta[0] * delta[0][:, :1], weight) * cross).sum(2)
        else:
            own += (square * weight[:, None]).sum(2)
            product += (cross * weight[:, None]).sum(2)
    lengths = own + own[:, :1]
    return (lengths - 2 * product).clamp_(min=0) + 16 * torch.finfo(own.dtype).eps * lengths


def gram(layers: Layers, inverse: list[Tensor]) -> Float[Tensor, "b x x"]:
    """Inner products of the gradients, written out a few of their rows at a time."""
    replicas, documents = layers[0][0].shape[:2]
    total = layers[0][0].new_zeros(replicas, documents, documents)
    room = CHUNK if on_host(total) else CHUNK_GPU
    for layer, weight in zip(layers, inverse, strict=True):
        *delta, hidden = layer
        if not delta:
            total.baddbmm_(hidden * weight[:, None], hidden.mT)
            continue
        step = max(1, room // hidden.numel())
        for start in range(0, weight.shape[1], step):
            some, root = delta[0][:, :, start : start + step], weight[:, None, start : start + step].sqrt()
            part = (some[..., None] * hidden[:, :, None]).mul_(root).flatten(2)
            total.baddbmm_(part, part.mT)
    return total
