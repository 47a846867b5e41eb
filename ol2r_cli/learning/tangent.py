"""The gradient of a score with respect to the parameters, kept in whatever form makes its Gram matrix cheap."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from ol2r_cli.shapes import Float


class Tangent(Protocol):
    """One gradient per candidate. What a round serves is fixed before anything learns from it."""

    def dense(self) -> Float[Tensor, "B D P"]:
        """The gradients, written out."""
        ...


class LinearTangent:
    """The gradient of theta.x with respect to theta is x."""

    def __init__(self, features: Float[Tensor, "B D F"]):
        self.features = features

    def dense(self) -> Float[Tensor, "B D F"]:
        """The features themselves."""
        return self.features
