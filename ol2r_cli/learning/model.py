"""What a ranker's score function has to offer: scores, and the gradients that every way of learning is made of."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from ol2r_cli.learning.tangent import Tangent
from ol2r_cli.random import Random
from ol2r_cli.shapes import Float


@runtime_checkable
class Forward(Protocol):
    """What a model makes of some documents at some parameters, with what is needed to go back from scores to them."""

    @property
    def scores(self) -> Float[Tensor, "B N D"]:
        """One per member and document."""
        ...

    def gradient(self, weights: Float[Tensor, "B N D"]) -> Float[Tensor, "B N P"]:
        """The gradient of sum_d weights_d score_d with respect to each member's parameters."""
        ...

    def tangent(self) -> Tangent:
        """The gradients of the first member's scores, one by one; the same object every time."""
        ...


@runtime_checkable
class Model(Protocol):
    """A score function of P parameters, without state of its own: parameters are flat, and given with every call."""

    linear: bool  # the parameters are the weights of a linear score
    dtype: torch.dtype  # the precision that it needs
    width: int  # m: the squared length of a gradient grows with it

    def size(self, features: int) -> int:
        """P, for documents of this many features."""
        ...

    def initial(self, random: Random | None, features: int, members: int) -> Float[Tensor, "*B N P"]:
        """Parameters before anything has been learned, float64, for every member its own; B is missing where they are
        not random."""
        ...

    def forward(self, parameters: Float[Tensor, "B N P"], features: Float[Tensor, "B D F"]) -> Forward:
        """Scores of documents, the replica's own, by every member."""
        ...
