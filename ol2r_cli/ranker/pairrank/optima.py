"""Optima of a pairwise ranker's objective under label noise that is drawn anew for the whole history every round.

Labels 1 + gamma_i, gamma_i ~ N(0, nu^2), in place of 1 add -gamma.X theta to the objective of `newton` (P2NeurRank,
SIGIR 2022, equation 3.3), and X^T gamma ~ N(0, nu^2 X^T X): with a factor R^T R = X^T X the noise of any number of
pairs takes F normal numbers, identical in distribution.

Where old pairs are forgotten (`Forgetting`), the noise of pair i weighs w_i as well, and X^T W gamma has the variance
nu^2 X^T W^2 X. A discount multiplies the factor R; where pairs have left a window, every pair in it has its own noise.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ol2r_cli import loops
from ol2r_cli.interfaces import RunContext
from ol2r_cli.ranker.pairrank import optima_loops
from ol2r_cli.ranker.pairrank.newton import AnchoredNewton
from ol2r_cli.tensor.streams import Random


class PerturbedOptima(nn.Module):
    """Follows an `AnchoredNewton`: `update` after it, and `theta` [B N F] are the optima of `members` perturbed
    objectives f(theta) - z.theta, z = X^T gamma with variance nu^2 = `variance`. optima_loops.py finds them.

    With the Hessian at the anchor as a guide, a step or two lead from there to all optima at once; each step is checked
    by one pass over the history. While pairs are few the noise moves the optima far away, and with fewer pairs than
    features only l2 bounds theta, since labels may lie outside [0, 1]. Then each member goes its own way by BFGS, with
    a detour along larger l2 where that takes too many steps.

    Guarantee, every round (tests compare with an exact solver), f being the unperturbed objective at the anchor:
    f(theta) - z.theta is at most 1e-3 + 1e-5 f above its minimum.
    """

    theta: Tensor
    factor: Tensor
    factored: Tensor
    solver: AnchoredNewton

    def __init__(self, members: int, variance: float):
        super().__init__()
        self.members, self.variance = members, variance

    def setup(self, context: RunContext, solver: AnchoredNewton) -> None:
        """Start at theta = 0 with no pairs."""
        object.__setattr__(self, "solver", solver)  # not as a submodule: it belongs to the ranker's state
        self.history = solver.history
        place: dict[str, Any] = {"dtype": torch.float64, "device": context.device}
        shape = context.replicas, self.members, context.features
        self.register_buffer("theta", torch.zeros(shape, dtype=context.dtype, device=context.device))
        square = context.replicas, context.features, context.features
        self.register_buffer("factor", torch.zeros(square, **place))
        self.register_buffer("factored", torch.zeros(context.replicas, dtype=torch.int64, device=context.device))

    def state(self) -> Any:
        """Return what the loops know of it, `perturbed_optima.PerturbedState`."""
        history, fit = self.history, self.solver.state()
        variance = torch.full_like(self.solver.objective, self.variance)
        weights = variance.new_zeros(len(variance), 0)
        if history.forgetting.discount < 1:
            weights = history.weights(slice(None), slice(int(history.count.max()))).contiguous()
        counted = history.first, history.mass, weights
        return optima_loops.PerturbedState(self.theta, fit, self.factor, self.factored, variance, *counted)

    def room(self) -> int:
        """Return how many numbers the loops take of their workspace."""
        features, capacity = self.theta.shape[2], self.history.capacity
        new = features + self.history.per_round
        drawn = capacity if self.history.forgetting.window is not None else new
        return optima_loops.room_of_members(self.members, capacity, features, new, drawn)

    def update(self, random: Random) -> None:
        """Draw the noise of this round and move to the optima."""
        if self.history.forgetting.discount < 1:
            self.factor.mul_(self.history.forgetting.discount)
        draws = [random.draw(name) for name in ("factor", "pairs", "every pair")]
        moved = *draws, self.history.features, self.state()
        loops.launch.launch(optima_loops.moves_members, len(self.theta), self.room(), *moved)
