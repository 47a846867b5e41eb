"""The gradient of a score with respect to the parameters, kept in whatever form makes its products cheap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import torch
from torch import Tensor

from ol2r_cli.learning.kernel import chosen, differences, layers_of, written_out
from ol2r_cli.rows import pick
from ol2r_cli.shapes import Float

if TYPE_CHECKING:
    from ol2r_cli.interfaces import Preferences


@runtime_checkable
class Tangent(Protocol):
    """One gradient per candidate. What a round serves is fixed before anything learns from it."""

    def dense(self) -> Float[Tensor, "B D P"]:
        """The gradients, written out."""
        ...

    def differences(self, preferences: Preferences) -> Float[Tensor, "B M P"]:
        """Winner's less loser's gradient of each pair, zero where it is not valid."""
        ...


class LinearTangent:
    """The gradient of theta.x with respect to theta is x."""

    def __init__(self, features: Float[Tensor, "B D F"]):
        self.features = features
        self._latest: tuple[Preferences, Tensor] | None = None

    def dense(self) -> Float[Tensor, "B D F"]:
        """The features themselves."""
        return self.features

    def differences(self, preferences: Preferences) -> Float[Tensor, "B M F"]:
        """x_winner - x_loser; remembered, because ranker and exploration ask for the same."""
        if self._latest is None or self._latest[0] is not preferences:
            both = torch.cat([preferences.winner, preferences.loser], dim=1)
            won, lost = pick(self.features, both).tensor_split(2, dim=1)
            self._latest = preferences, (won - lost) * preferences.valid[:, :, None]
        return self._latest[1]


class LayeredTangent:
    """The gradient of a network's score, divided by sqrt(m): the outer product delta hidden^T for each layer.

    `factors` has delta [B D r] and hidden [B D c] of each layer, the features being the hidden of the first; `at` has
    the tangent of other documents at the same parameters.
    """

    def __init__(self, factors: Sequence[tuple[Tensor, Tensor]], at: Callable[[Tensor], LayeredTangent]):
        self.factors, self.at = list(factors), at

    def dense(self) -> Float[Tensor, "B D P"]:
        """The gradients, written out in the order of the parameters."""
        return written_out(layers_of(self.factors))

    def differences(self, preferences: Preferences) -> Float[Tensor, "B M P"]:
        """Winner's less loser's, written out."""
        pairs = torch.stack([preferences.winner, preferences.loser], dim=2).flatten(1)
        return differences(chosen(layers_of(self.factors), pairs)) * preferences.valid[:, :, None]
