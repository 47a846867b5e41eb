"""A ReLU network in the parametrisation of the neural tangent kernel (olRankNet, 2022, section 3.1)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor

from ol2r_cli.config.ranges import Count
from ol2r_cli.learning.tangents import LayeredTangent, Layers
from ol2r_cli.tensor.shapes import Float
from ol2r_cli.tensor.streams import Random


class MLP:
    """f(x) = sqrt(m) w.relu(W_L .. relu(W_1 x)), with m = `width` and L = `hidden_layers`.

    `init` is `antisymmetric`, the paper's: W_1 = (W; W), W_l = (W, 0; 0, W) with entries N(0, 4/m), w = (v, -v) with
    entries N(0, 2/m), so that f = 0 at the start, up to rounding: whether the two halves of a matrix product are
    rounded alike depends on the processor. (The paper feeds (x, x) / sqrt 2 to W_1 = (W, 0; 0, W), which is the same
    function up to that factor.) It needs an even width. `standard`: all entries independent, of half the variance.

    `pytorch` is another network, that of `torch.nn.Linear` as it comes: a bias in every unit and in the score, no
    factor sqrt(m), and all parameters uniform within 1/sqrt(inputs of the layer). A layer's last input is the constant
    1, so that its biases are the last column of its matrix. There m counts as 1 wherever gradients are scaled by it.
    """

    group = "ranker.model"

    linear = False
    dtype = torch.float32

    def __init__(self, width: Count, hidden_layers: Count, init: Literal["antisymmetric", "standard", "pytorch"]):
        if init == "antisymmetric" and width % 2:
            raise ValueError(f"{self.group}.width must be even with {self.group}.init=antisymmetric, got {width}")
        self.units, self.hidden_layers, self.init = width, hidden_layers, init
        self.biased = init == "pytorch"
        self.width = 1 if self.biased else width  # m, by which steps and tangents are scaled

    def shapes(self, features: int) -> list[tuple[int, int]]:
        """Return rows and columns of W_1 .. W_L and of w, which has one row; a column more where there are biases."""
        inner = [(self.units, self.units + self.biased)] * (self.hidden_layers - 1)
        return [(self.units, features + self.biased), *inner, (1, self.units + self.biased)]

    def size(self, features: int) -> int:
        """Return md + (L - 1) m^2 + m; with biases also Lm + 1 of these."""
        return sum(rows * columns for rows, columns in self.shapes(features))

    def matrices(self, parameters: Float[Tensor, "*S P"], features: int) -> list[Float[Tensor, "*S r c"]]:
        """Return views of the parameters: W_1 .. W_L and w."""
        shapes = self.shapes(features)
        parts = parameters.split([rows * columns for rows, columns in shapes], dim=-1)
        return [part.unflatten(-1, shape) for part, shape in zip(parts, shapes, strict=True)]

    def initial(self, random: Random | None, features: int, members: int) -> Float[Tensor, "B N P"]:
        assert random is not None
        if self.biased:
            uniform = random.uniform(members * self.size(features), "network").unflatten(1, (members, -1))
            layers = self.matrices(2 * uniform - 1, features)
            return torch.cat([(layer / math.sqrt(layer.shape[-1] - 1)).flatten(-2) for layer in layers], -1)
        normal = random.normal(members * self.size(features), "network").unflatten(1, (members, -1))
        *hidden, last = self.matrices(normal, features)
        if self.init == "standard":
            parts = [matrix * math.sqrt(2 / self.width) for matrix in hidden] + [last * math.sqrt(1 / self.width)]
        else:
            half = self.width // 2
            block = torch.eye(2, dtype=normal.dtype, device=normal.device)
            first, *inner = [matrix[..., :half, :] * math.sqrt(4 / self.width) for matrix in hidden]
            parts = [torch.cat([first, first], -2), *(torch.kron(block, w[..., :half].contiguous()) for w in inner)]
            weights = last[..., :half] * math.sqrt(2 / self.width)
            parts.append(torch.cat([weights, -weights], -1))
        return torch.cat([part.flatten(-2) for part in parts], -1)

    def inputs(self, values: Float[Tensor, "*S D c"]) -> Float[Tensor, "*S D e"]:
        """Return what the next layer multiplies: the values of every document, and the constant 1 where there are
        biases."""
        return torch.nn.functional.pad(values, (0, 1), value=1.0) if self.biased else values

    def forward(self, parameters: Float[Tensor, "B N P"], features: Float[Tensor, "B D F"]) -> MLPForward:
        return MLPForward(self, parameters, features)

    def on_features(self, direction: Float[Tensor, "B N P"], matrix: Float[Tensor, "B F F"]) -> Float[Tensor, "B N P"]:
        """Multiply the parameters of W_1, which act on the features, except for its biases."""
        features = matrix.shape[-1]
        first, rest = direction.tensor_split([self.units * (features + self.biased)], dim=-1)
        weights, biases = first.unflatten(-1, (self.units, -1)).tensor_split([features], dim=-1)
        first = torch.cat([torch.matmul(weights, matrix[:, None]), biases], -1)
        return torch.cat([first.flatten(-2), rest], -1)


class MLPForward:
    """The network at some parameters on some documents; `parameters` must not change while it is in use."""

    def __init__(self, model: MLP, parameters: Float[Tensor, "B N P"], features: Float[Tensor, "B D F"]):
        self.model, self.parameters, self.features = model, parameters, features
        *self.hidden, self.last = model.matrices(parameters, features.shape[-1])
        self.layers = [model.inputs(features[:, None])]  # x, h_1 .. h_L: [B 1 D F], [B N D m] .., biases: one more
        for matrix in self.hidden:
            self.layers.append(model.inputs(torch.matmul(self.layers[-1], matrix.mT).relu_()))
        self.scale = math.sqrt(model.width)
        # Row by row, each half separately: where the layers agree, equal documents tie and antisymmetric halves cancel.
        parts = (self.layers[-1] * self.last).unflatten(-1, (1 if self.last.shape[-1] % 2 else 2, -1))
        sums = parts.sum(-1)
        if sums.dtype == torch.float64:
            # Rounded to 29 bits (Veltkamp's splitting), because a matrix product of this precision sums in an order
            # that depends on the row of a document and the column of a unit.
            large = sums * (2.0**24 + 1)
            sums = large - (large - sums)
        self.scores: Tensor = sums.sum(-1) * self.scale

    def gradient(self, weights: Float[Tensor, "B N D"]) -> Float[Tensor, "B N P"]:
        pull = weights * self.scale
        parts = [torch.matmul(pull[:, :, None], self.layers[-1]).flatten(2)]
        for delta, layer in _back(pull[..., None] * self.last, self.hidden, self.layers, self.model.units):
            parts.append(torch.matmul(delta.mT, layer).flatten(2))
        return torch.cat(parts[::-1], -1)

    def tangent(self) -> LayeredTangent:
        """Return phi = gradient / sqrt(m) of every score of the first member, layer by layer."""
        return self._tangent

    @cached_property
    def _tangent(self) -> LayeredTangent:
        layers, hidden = [layer[:, 0] for layer in self.layers], [matrix[:, 0] for matrix in self.hidden]
        last = self.last[:, 0].expand_as(layers[-1])
        backwards: Layers = [(layers[-1],), *_back(last, hidden, layers, self.model.units)]
        model, parameters = self.model, self.parameters[:, :1]
        return LayeredTangent(backwards[::-1], lambda features: model.forward(parameters, features).tangent())


def _back(
    delta: Float[Tensor, "*S e"], hidden: list[Tensor], layers: list[Tensor], units: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """Return what goes back through the ReLU of layer L .. 1, to the units that put something out, never the constant;
    and what that layer had multiplied."""
    for number in range(len(hidden) - 1, -1, -1):
        # Where the output is above 0, else 0: several times as fast as a product with a mask.
        delta = torch.ops.aten.threshold_backward(delta, layers[number + 1], 0)[..., :units]
        yield delta, layers[number]
        if number:
            delta = torch.matmul(delta, hidden[number])
