"""The interface of a ranker's score function: scores, and the gradients that learning needs."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from ol2r_cli.interfaces import Tangent
from ol2r_cli.tensor.shapes import Float
from ol2r_cli.tensor.streams import Random


@runtime_checkable
class Forward(Protocol):
    """The scores of some documents at some parameters, and the way back from scores to parameters."""

    @property
    def scores(self) -> Float[Tensor, "B N D"]:
        """One per member and document."""
        ...

    def gradient(self, weights: Float[Tensor, "B N D"]) -> Float[Tensor, "B N P"]:
        """Return the gradient of sum_d weights_d score_d with respect to each member's parameters."""
        ...

    def tangent(self) -> Tangent:
        """Return the gradient of each score of the first member; the same object at every call."""
        ...


@runtime_checkable
class Model(Protocol):
    """A score function of P parameters, without state of its own: flat parameters are an argument of every call."""

    linear: bool  # the parameters are the weights of a linear score
    dtype: torch.dtype  # the precision that it needs
    width: int  # m: the squared length of a gradient grows with it; 1 where steps are taken in theta itself

    def size(self, features: int) -> int:
        """Return P, for documents of this many features."""
        ...

    def initial(self, random: Random | None, features: int, members: int) -> Float[Tensor, "*B N P"]:
        """Return parameters to start from, float64, drawn for each member; without the axis B where they are not
        random."""
        ...

    def forward(self, parameters: Float[Tensor, "B N P"], features: Float[Tensor, "B D F"]) -> Forward:
        """Return scores of each replica's documents by each of its members."""
        ...

    def on_features(self, direction: Float[Tensor, "B N P"], matrix: Float[Tensor, "B F F"]) -> Float[Tensor, "B N P"]:
        """Return a direction in the parameters, whose part that acts on the features is multiplied by a symmetric
        matrix."""
        ...
