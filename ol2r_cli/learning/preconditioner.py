"""A preconditioner of gradient steps: the damped inverse of how the features of a query's documents vary.

Features are correlated: most of their variation is along one direction, which limits the length of a step, so that
plain gradient descent hardly moves along the others. The preconditioner is the factor of the inputs in a
Kronecker-factored curvature (Martens and Grosse, Optimizing Neural Networks with Kronecker-factored Approximate
Curvature, ICML 2015, section 3).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from ol2r_cli.interfaces import Candidates, RunContext
from ol2r_cli.tensor.shapes import Float

SQUARINGS = 10  # of a matrix whose largest eigenvalue is sought


class Preconditioner(NamedTuple):
    """P = (1 + d) M^-1 for the parameters that act on the features, M = C / c + d I, and `scale` = 1 / c for all."""

    damped: Float[Tensor, "B F F"]  # M
    scale: Float[Tensor, "B"]
    damping: float

    def matrices(self, pull: Float[Tensor, "B"], dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """(I + pull P)^-1 and (I + pull P)^-1 P [B F F], both times 1 + pull: see `GradientRefit`."""
        shifted = self.damped.clone()
        shifted.diagonal(dim1=1, dim2=2).add_(pull[:, None] * (1 + self.damping))
        root = torch.linalg.cholesky_ex(shifted).L
        identity = torch.eye(root.shape[1], dtype=root.dtype, device=root.device).expand_as(root)
        half = torch.linalg.solve_triangular(root, identity, upper=False)
        inverse = torch.bmm(half.mT, half) * (1 + pull)[:, None, None]
        return torch.bmm(self.damped, inverse).to(dtype), (inverse * (1 + self.damping)).to(dtype)


class FeatureCovariance(nn.Module):
    """C, the second moment of the difference between the features of two documents of a query, over the rounds so far:
    twice their covariance within a query, averaged over rounds. Clicks have no part in it.

    `damping` is d > 0 of the `Preconditioner`, in units of c, the largest eigenvalue of C to within .04 %. The step
    along the direction in which documents differ most is 1 / c, so that a learning rate means the same whatever the
    scale of the features; along one in which they hardly differ it is (1 + d) / d times as long.
    """

    total: Tensor
    rounds: Tensor

    def __init__(self, damping: float):
        super().__init__()
        self.damping = damping

    def setup(self, context: RunContext) -> None:
        """Start without documents."""
        shape = context.replicas, context.features, context.features
        self.register_buffer("total", torch.zeros(shape, dtype=torch.float64, device=context.device))
        self.register_buffer("rounds", torch.zeros((), dtype=torch.int64))

    def observe(self, candidates: Candidates) -> None:
        """Add the candidates of a round."""
        mask = candidates.mask[:, :, None]
        count = mask.sum(1, keepdim=True)
        features = candidates.features * mask
        centred = (features - features.sum(1, keepdim=True) / count) * mask
        self.total += 2 * torch.bmm(centred.mT, centred) / (count - 1).clamp(min=1)
        self.rounds += 1

    def preconditioner(self) -> Preconditioner:
        """The preconditioner at this time; where no two documents have differed yet c is 1."""
        moment = self.total / max(1, int(self.rounds))
        largest = _largest_eigenvalue(moment)
        largest = torch.where(largest > 0, largest, 1.0)
        damped = moment / largest[:, None, None]
        damped.diagonal(dim1=1, dim2=2).add_(self.damping)
        return Preconditioner(damped, largest.reciprocal(), self.damping)


def _largest_eigenvalue(matrix: Float[Tensor, "B F F"]) -> Float[Tensor, "B"]:
    """tr A^(n+1) / tr A^n for n = 2^`SQUARINGS`, which no GPU has to be waited for; A is symmetric, none is below 0."""
    power = _of_trace_one(matrix)
    for _ in range(SQUARINGS):
        power = _of_trace_one(torch.bmm(power, power))
    return (matrix * power).sum((1, 2))


def _of_trace_one(matrix: Float[Tensor, "B F F"]) -> Float[Tensor, "B F F"]:
    trace = matrix.diagonal(dim1=1, dim2=2).sum(1)[:, None, None]
    return matrix / torch.where(trace > 0, trace, 1.0)
