"""A sum of regression trees as a flat tensor of parameters, and its scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ol2r_cli.tensor.shapes import Float

CELLS = 1 << 17  # documents x trees worked on at once: they should fit a cache


class RegressionTree(NamedTuple):
    """A binary tree, grown from leaf 0 by its splits in their order, and the value of each leaf.

    A split (leaf, feature, threshold) sends the documents of a leaf with x[feature] > threshold to a new leaf; the
    leaf that the k-th split makes, from 0, is leaf k + 1.
    """

    splits: Sequence[tuple[int, int, float]]
    values: Sequence[float]


class RegressionTrees:
    """Up to `trees` trees of up to `leaves` leaves each.

    The parameters are leaf, feature and threshold of every split, tree by tree, and then the values of the leaves:
    P = trees x (4 leaves - 3). Unused splits are of leaf -1, in which no document is. Thresholds are rounded down to
    float32, which no document notices, because features are float32 numbers; so they are the same in either precision.
    """

    def __init__(self, trees: int, leaves: int):
        self.trees, self.splits, self.leaves = trees, leaves - 1, leaves

    def parameters(self, trees: Sequence[RegressionTree]) -> Float[Tensor, "P"]:
        """These trees, in float64; trees that are not there have the value 0."""
        split, value = torch.zeros(3, self.trees, self.splits).double(), torch.zeros(self.trees, self.leaves).double()
        split[0] = -1
        for number, tree in enumerate(trees):
            if tree.splits:
                split[:, number, : len(tree.splits)] = torch.tensor(tree.splits, dtype=torch.float64).T
            value[number, : len(tree.values)] = torch.tensor(tree.values, dtype=torch.float64)
        split[2] = _rounded_down(split[2])
        return torch.cat([split.flatten(), value.flatten()])

    def scores(self, parameters: Float[Tensor, "P"], features: Float[Tensor, "N F"]) -> Float[Tensor, "N"]:
        """The sum over the trees of the value of the leaf that each document falls into, added tree by tree."""
        at_once = max(1, CELLS // self.trees)
        return torch.cat([self._scores(parameters, part) for part in features.split(at_once)])

    def _scores(self, parameters: Float[Tensor, "P"], features: Float[Tensor, "N F"]) -> Float[Tensor, "N"]:
        split = parameters[: 3 * self.trees * self.splits].view(3, self.trees, self.splits)
        value = parameters[split.numel() :].view(self.trees, self.leaves)
        leaf, feature, threshold = split[0].long(), split[1].long(), split[2]
        column = features.T.contiguous()
        place = torch.zeros(self.trees, len(features), dtype=torch.int64, device=features.device)
        for k in range(self.splits):
            goes = column.index_select(0, feature[:, k]) > threshold[:, k, None]
            place.masked_fill_(goes & (place == leaf[:, k, None]), k + 1)
        return value.gather(1, place).cumsum(0)[-1]  # in sequence: equal documents get equal scores to the last bit


def _rounded_down(threshold: Float[Tensor, "*S"]) -> Float[Tensor, "*S"]:
    """The largest float32 numbers that are not above these, as float64."""
    nearest = threshold.float()
    below = torch.nextafter(nearest, torch.full_like(nearest, -torch.inf))
    return torch.where(nearest.double() > threshold, below, nearest).double()
