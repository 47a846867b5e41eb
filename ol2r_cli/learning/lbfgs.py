"""The authors' fit: L-BFGS-B every round from a random start, stopped early. Only to compare published curves."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ol2r_cli.host import on_host
from ol2r_cli.interfaces import Sizes
from ol2r_cli.learning.history import PairHistory
from ol2r_cli.random import Random
from ol2r_cli.shapes import Bool, Float


class RestartedLBFGS(nn.Module):
    """scipy's L-BFGS-B on the objective of `newton`, restarted from uniform(0, 1) weights, ftol 1e-6.

    Not quite the optimum: where features tend to point upwards, the start acts as a prior while pairs are few.
    """

    theta: Tensor
    history: PairHistory

    def __init__(self, l2: float, reduction: str):
        super().__init__()
        self.l2, self.reduction = l2, reduction

    def setup(self, sizes: Sizes, history: PairHistory) -> None:
        """Start at theta = 0 with no pairs. numpy's and scipy's linear algebra gets as many threads as torch's.

        ValueError on a GPU: scipy computes on the host.
        """
        if not on_host(history.count):
            raise ValueError("ranker.solver must be newton on a GPU, got lbfgs_restart (or use device=cpu)")
        import scipy.optimize  # noqa: F401  (loads its linear algebra, which is then limited)
        from threadpoolctl import threadpool_limits

        threadpool_limits(torch.get_num_threads(), user_api="blas")
        object.__setattr__(self, "history", history)  # not as a submodule: it belongs to the ranker's state
        self.register_buffer(
            "theta", torch.zeros(sizes.replicas, sizes.features, dtype=sizes.dtype, device=sizes.device)
        )

    def update(self, added: Float[Tensor, "B M F"], valid: Bool[Tensor, "B M"], random: Random) -> None:
        """Fit again wherever the round brought a pair."""
        start = random.uniform(added.shape[2], "start")
        for replica in valid.any(1).nonzero().flatten().tolist():
            self.theta[replica] = self._fit(replica, start[replica])

    def _fit(self, replica: int, start: Float[Tensor, "F"]) -> Float[Tensor, "F"]:
        import numpy as np
        from scipy.optimize import minimize

        count = int(self.history.count[replica])
        rows = self.history.rows[replica, :count].double().cpu().numpy()
        weight, l2 = (1.0, self.l2 / 2) if self.reduction == "sum" else (1 / count, self.l2)

        def objective(theta: np.ndarray) -> tuple[float, np.ndarray]:
            scores = rows @ theta
            lost = 1 / (1 + np.exp(np.clip(scores, -500, 500)))
            value = weight * np.logaddexp(0, -scores).sum() + l2 * theta @ theta
            return float(value), 2 * l2 * theta - weight * (lost @ rows)

        fitted = minimize(objective, start.cpu().numpy(), jac=True, method="L-BFGS-B", options={"ftol": 1e-6}).x
        return torch.from_numpy(fitted).to(self.theta)
