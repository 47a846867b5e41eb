"""The optimum of a linear pairwise ranker's objective after every round, at almost no cost.

Objective in sum form (PairRank, WWW 2021, equation 1), rows x = x_winner - x_loser, label 1:
    f(theta) = sum_i log(1 + exp(-x_i.theta)) + l2_n / 2 |theta|^2,
with l2_n = l2 (`reduction: sum`, the paper) or 2 n l2 (`reduction: mean`, the authors' code: mean cross-entropy plus
l2 |theta|^2, times n).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from ol2r_cli.interfaces import Sizes
from ol2r_cli.learning.history import PairHistory
from ol2r_cli.learning.inverse import add_outer_products
from ol2r_cli.random import Random
from ol2r_cli.shapes import Bool, Float, Int


class AnchoredNewton(nn.Module):
    """Newton's method around an anchor whose gradient is exact for the whole history.

    A new pair adds one row to the gradient and one outer product to the Hessian, both exact at the anchor, so the step
    theta = anchor - H^-1 g takes O(F^2) a round. The squared length q = g.H^-1 g of that step, in the norm of the
    Hessian, tells when it is no longer good enough: then the anchor moves to theta, which takes one pass over the
    history for the gradient; the Hessian is corrected only by the pairs whose score has drifted since they were last
    weighted. A step that changes some pair's score by r > `drift` is damped by log(1 + r) / r, which makes it descend
    from anywhere (Sun and Tran-Dinh, Generalized self-concordant functions, 2019, for the order 2 of logistic losses).

    Guarantee, every round (tests compare with an exact solver): f(theta) - min f <= 1e-3 + 1e-5 f(theta).
    """

    theta: Tensor
    anchor: Tensor
    gradient: Tensor
    objective: Tensor
    hessian: Tensor
    inverse: Tensor
    scores: Tensor
    base_scores: Tensor
    base_l2: Tensor
    history: PairHistory

    drift = 0.3  # in units of score: every pair's weight in the Hessian is then within a factor exp(0.3) of the truth
    passes = 100  # at most, in one round: rounding could keep float32 from ever reaching the tolerance

    def __init__(self, l2: float, reduction: str):
        super().__init__()
        self.l2, self.reduction = l2, reduction

    def setup(self, sizes: Sizes, history: PairHistory) -> None:
        """Start at theta = 0 with no pairs."""
        object.__setattr__(self, "history", history)  # not as a submodule: it belongs to the ranker's state
        place: dict[str, Any] = {"dtype": sizes.dtype, "device": sizes.device}
        shape = sizes.replicas, sizes.features
        for name in "theta", "anchor", "gradient":
            self.register_buffer(name, torch.zeros(shape, **place))
        self.register_buffer("objective", torch.zeros(sizes.replicas, **place))
        self.register_buffer("base_l2", self._l2(history.count).to(**place))
        identity = torch.eye(sizes.features, **place) * self.base_l2[:, None, None]
        self.register_buffer("hessian", identity)
        self.register_buffer("inverse", identity / self.base_l2.square().clamp(min=1e-300)[:, None, None])
        for name in "scores", "base_scores":  # of every pair, at the anchor and when last weighted in the Hessian
            self.register_buffer(name, torch.zeros(sizes.replicas, history.capacity + 1, **place))

    def _l2(self, count: Int[Tensor, "*B"]) -> Float[Tensor, "*B"]:
        """The multiplier of |theta|^2 / 2 in the sum form of the objective."""
        count = count.double()  # an integer tensor times a number would be float32
        return torch.full_like(count, self.l2) if self.reduction == "sum" else 2 * self.l2 * count

    def update(self, added: Float[Tensor, "B M F"], valid: Bool[Tensor, "B M"], random: Random) -> None:
        """Move `theta` to the optimum of the history, whose last rows are `added` (zero where not `valid`)."""
        scores = (added @ self.anchor[:, :, None]).squeeze(2)
        lost = torch.sigmoid(-scores)
        self.gradient -= (lost[:, None] @ added).squeeze(1)
        if self.reduction == "mean":
            self.gradient += 2 * self.l2 * valid.to(added.dtype).sum(1, keepdim=True) * self.anchor
        self.objective += (softplus(-scores) * valid).sum(1)
        weighted = added * (lost * (1 - lost)).sqrt()[:, :, None]
        self.hessian.baddbmm_(weighted.mT, weighted)
        add_outer_products(self.inverse, weighted)
        self._remember(scores, valid)
        step = -(self.inverse @ self.gradient[:, :, None]).squeeze(2)
        poor = self._poor(-(step * self.gradient).sum(1), self.objective, self.history.count, self.base_l2)
        for replica in poor.nonzero().flatten().tolist():
            step[replica] = self._move_anchor(replica)
        self.theta = self.anchor + step

    def _remember(self, scores: Float[Tensor, "B M"], valid: Bool[Tensor, "B M"]) -> None:
        """The scores of the new pairs, which are those at which their outer products were weighted."""
        count = self.history.count[:, None] - valid.sum(1, keepdim=True)
        place = torch.where(valid, count + valid.cumsum(1) - 1, -1)
        self.scores[self.history.replica, place] = scores
        self.base_scores[self.history.replica, place] = scores

    def _poor(self, q: Tensor, objective: Tensor, count: Tensor, base_l2: Tensor) -> Tensor:
        """Whether the step from the anchor may miss the guarantee.

        The gap left by a step is of higher order in q, the more so the more evidence there is per parameter: q may
        exceed the tolerated gap 100-fold then, but not at all while pairs are few or separable (calibrated; see
        docs/algorithms/pairrank.md). `reduction: mean` also needs a new Hessian when its l2 term has grown by a tenth.
        """
        evidence = objective / (3 * self.theta.shape[1])
        trust = (20 * evidence.square()).clamp(1, 100)
        return (q > trust * (1e-3 + 1e-5 * objective)) | (self._l2(count) > 1.1 * base_l2)

    def _move_anchor(self, replica: int) -> Float[Tensor, "F"]:
        """Move one replica's anchor until the step from it is good enough, and return that step."""
        count, factor = self.history.count[replica], None
        for _ in range(self.passes):
            gradient = self.gradient[replica]
            if factor is None:
                step = -(self.inverse[replica] @ gradient)
            else:
                step = -torch.cholesky_solve(gradient[:, None], factor).squeeze(1)
            q = -(step @ gradient)
            if not self._poor(q, self.objective[replica], count, self.base_l2[replica]):
                break
            change = self.history.rows[replica, :count] @ step
            longest = change.abs().max()
            damping = torch.log1p(longest) / longest if longest > self.drift else 1.0
            self.anchor[replica] += damping * step
            self.scores[replica, :count] += damping * change
            if self._expand(replica, int(count)):
                factor = torch.linalg.cholesky(self.hessian[replica])
        if factor is not None:
            self.inverse[replica] = torch.cholesky_inverse(factor)
        return step

    def _expand(self, replica: int, count: int) -> bool:
        """Recompute one replica's gradient at its anchor, and correct its Hessian for the pairs that have drifted.

        Returns whether there was anything to correct.
        """
        theta, rows = self.anchor[replica], self.history.rows[replica, :count]
        scores, base = self.scores[replica, :count], self.base_scores[replica, :count]
        l2 = self._l2(self.history.count[replica])
        lost = torch.sigmoid(-scores)
        self.gradient[replica] = l2 * theta - lost @ rows
        self.objective[replica] = softplus(-scores).sum() + l2 / 2 * theta @ theta
        drifted = ((scores - base).abs() > self.drift).nonzero().squeeze(1)
        if not len(drifted) and l2 == self.base_l2[replica]:
            return False
        before, after = torch.sigmoid(base[drifted]), lost[drifted]
        moved, hessian = rows[drifted], self.hessian[replica]
        hessian.addmm_(moved.mT * (after * (1 - after) - before * (1 - before)), moved)
        hessian.diagonal().add_(l2 - self.base_l2[replica])
        base[drifted] = scores[drifted]
        self.base_l2[replica] = l2
        return True
