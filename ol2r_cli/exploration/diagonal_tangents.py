"""Certain pairs by the diagonal of the tangents' covariance matrix, inverted entry by entry: the papers' way."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ol2r_cli.exploration.survey import Pairs, Survey
from ol2r_cli.interfaces import Preferences, Sizes
from ol2r_cli.learning.diagonal import gram, to_first, weights
from ol2r_cli.learning.kernel import Layers, chosen, differences, layers_of, parameters, rows, squared_distances
from ol2r_cli.learning.tangent import LayeredTangent
from ol2r_cli.shapes import Bool, Int


class DiagonalTangents:
    """The diagonal of A alone, as a weight per parameter."""

    def __init__(self, l2: float, sizes: Sizes):
        self.l2, self.device, self.replicas = l2, sizes.device, sizes.replicas
        self.diagonal: Tensor | None = None  # [B P], float64

    def begin(self, tangent: LayeredTangent, pairs: Pairs | None) -> None:
        """Weigh every parameter."""
        self.layers = layers_of(tangent.factors)
        if self.diagonal is None:
            shape = self.replicas, parameters(self.layers)
            self.diagonal = torch.full(shape, self.l2, dtype=torch.float64, device=self.device)
        if pairs is not None:
            self._add(layers_of(pairs[0].factors), pairs[1])
        self.weights = weights(self.layers, self.diagonal)

    def certain(self, some: Tensor | slice, order: Int[Tensor, "b d"], survey: Survey) -> Bool[Tensor, "b s s"]:
        """Two documents are at most as far apart as both are from the best one together: that is cheap to know."""
        layers = chosen(rows(self.layers, some, slice(order.shape[1])), order)
        inverse = [weight[some] for weight in self.weights]
        if survey.positions is not None:
            distance = to_first(layers, inverse).sqrt_()
            kept = survey.kept((distance[:, :, None] + distance[:, None, :]).square_())
            layers = rows(layers, slice(None), slice(kept))
        return survey.certain(squared_distances(gram(layers, inverse)))

    def learn(self, preferences: Preferences) -> None:
        """Add the squares."""
        both = torch.stack([preferences.winner, preferences.loser], 2).flatten(1)
        self._add(chosen(self.layers, both), preferences.valid)

    def _add(self, pairs: Layers, valid: Bool[Tensor, "B M"]) -> None:
        assert self.diagonal is not None
        self.diagonal += (differences(pairs).square_() * valid[:, :, None]).sum(1)

    def state(self) -> list[Any]:
        """The diagonal."""
        return [] if self.diagonal is None else list(self.diagonal.clone())

    def restore(self, state: list[Any]) -> None:
        """Take over the diagonal."""
        self.diagonal = torch.stack(state).to(self.device) if state else None
