"""The authors' fit: L-BFGS-B every round from a random start, stopped early. Only to compare published curves."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from ol2r_cli.interfaces import RunContext
from ol2r_cli.learning.history import PairHistory
from ol2r_cli.tensor.shapes import Bool, Float
from ol2r_cli.tensor.streams import Random


def limit_threads() -> None:
    """Give numpy's and scipy's linear algebra as many threads as torch has, for the rest of the process."""
    import scipy.optimize  # noqa: F401  (loads its linear algebra, which is then limited)
    from threadpoolctl import threadpool_limits

    threadpool_limits(torch.get_num_threads(), user_api="blas")


class RestartedLBFGS(nn.Module):
    """scipy's L-BFGS-B on the objective of `newton`, restarted every round from uniform(0, 1) weights, ftol 1e-6.

    The result is not quite the optimum: where features tend to grow with relevance, the start acts as a prior while
    pairs are few. It runs on the CPU only, because scipy does.
    """

    theta: Tensor
    history: PairHistory

    def __init__(self, l2: float, reduction: str):
        super().__init__()
        self.l2, self.reduction = l2, reduction

    def setup(self, context: RunContext, history: PairHistory) -> None:
        """Start at theta = 0 with no pairs."""
        limit_threads()
        object.__setattr__(self, "history", history)  # not as a submodule: it belongs to the ranker's state
        shape = context.replicas, context.features
        self.register_buffer("theta", torch.zeros(shape, dtype=context.dtype, device=context.device))

    def update(self, added: Float[Tensor, "B M F"], valid: Bool[Tensor, "B M"], random: Random) -> None:
        """Fit again in the replicas in which the round brought a pair."""
        start = random.uniform(added.shape[2], "start")
        for replica in valid.any(1).nonzero().flatten().tolist():
            self.theta[replica] = self._fit(replica, start[replica])

    def _fit(self, replica: int, start: Float[Tensor, "F"]) -> Float[Tensor, "F"]:
        from scipy.optimize import minimize

        count = int(self.history.count[replica])
        rows = self.history.rows[replica, :count].double().cpu().numpy()
        weight, l2 = (1.0, self.l2 / 2) if self.reduction == "sum" else (1 / count, self.l2)

        def objective(theta: np.ndarray) -> tuple[float, np.ndarray]:
            scores = rows @ theta
            push = 1 / (1 + np.exp(np.clip(scores, -500, 500)))
            value = weight * np.logaddexp(0, -scores).sum() + l2 * theta @ theta
            return float(value), 2 * l2 * theta - weight * (push @ rows)

        fitted = minimize(objective, start.cpu().numpy(), jac=True, method="L-BFGS-B", options={"ftol": 1e-6}).x
        return torch.from_numpy(fitted).to(self.theta)
