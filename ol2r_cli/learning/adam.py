"""The steps of Adam (Kingma and Ba, ICLR 2015)."""

from __future__ import annotations

import torch
from torch import Tensor

from ol2r_cli.tensor.shapes import Float


class Adam:
    """Steps of about 1 in every parameter: the moving mean of the gradient over the root of its moving mean square.

    `epsilon` > 0 is added to the root. It keeps steps small where all gradients have been smaller than that.
    """

    MEAN, SQUARE = 0.9, 0.999  # beta_1 and beta_2

    def __init__(self, like: Float[Tensor, "*P"], epsilon: float):
        self.mean, self.square, self.steps = torch.zeros_like(like), torch.zeros_like(like), 0
        self.epsilon = epsilon

    def __call__(self, gradient: Float[Tensor, "*P"]) -> Float[Tensor, "*P"]:
        """The next step, both means being corrected for their start at 0."""
        self.steps += 1
        self.mean.lerp_(gradient, 1 - self.MEAN)
        self.square.lerp_(gradient.square(), 1 - self.SQUARE)
        root = (self.square / (1 - self.SQUARE**self.steps)).sqrt_()
        return self.mean / (1 - self.MEAN**self.steps) / root.add_(self.epsilon)
