"""Newton's method on many pairwise objectives at once, in a fixed number of steps: no GPU is waited for."""

from __future__ import annotations

import math
from functools import cache

import torch
from torch import Tensor
from torch.nn.functional import softplus

from ol2r_cli.tensor.shapes import Float

PART = 4096  # rows worked on at once
# Lengths of a step that are tried, in units of Newton's and of the damped one, which descends from anywhere (`newton`).
OF_NEWTON = tuple(2.0**power for power in range(-5, 4))
OF_DAMPED = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)  # 0: where nothing descends any more


def descend(
    theta: Float[Tensor, "B N F"],
    rows: Float[Tensor, "B n F"],
    tilt: Float[Tensor, "B N F"],
    l2: Float[Tensor, "B"],
    steps: int,
    weights: Float[Tensor, "B n"] | None = None,
) -> Float[Tensor, "B N F"]:
    """Take `steps` steps from `theta` to the minimum of sum_i w_i log(1 + exp(-x_i.theta)) + l2/2 |theta|^2 -
    tilt.theta.

    The rows x and their `weights` w, all 1 if None, are shared by a replica's N objectives; rows of zeros change
    nothing. The direction of a step is that of
    Newton's method, its length the best of fifteen. No branch depends on a value.
    """
    l2 = l2.to(theta.dtype)[:, None, None]
    for _ in range(steps):
        scores = torch.bmm(theta, rows.mT)
        step = _newton_step(theta, scores, rows, tilt, l2, weights)
        theta = theta - _best_length(theta, scores, step, rows, tilt, l2, weights) * step
    return theta


def descend_by_way(
    theta: Float[Tensor, "B N F"],
    rows: Float[Tensor, "B n F"],
    tilt: Float[Tensor, "B N F"],
    l2: Float[Tensor, "B"],
    least: float,
    weights: Float[Tensor, "B n"] | None = None,
) -> Float[Tensor, "B N F"]:
    """Come near the minimum from any distance, along the minima for larger l2: from 1 on, halved until it is `l2`,
    which must be `least` or more.

    Where labels outside [0, 1] leave only l2 to bound theta, Newton's method itself takes hundreds of steps. Two steps
    for every half of l2 suffice (calibrated: one does not, with 136 features or separable pairs).
    """
    for halvings in range(math.ceil(math.log2(max(1 / least, 1)))):
        theta = descend(theta, rows, tilt, l2.clamp(min=0.5**halvings), 2, weights)
    return theta


def steps_after(pairs: int, features: int) -> int:
    """Number of steps of `descend` that lead from the optimum of the round before to within 1e-3 + 1e-5 f of the
    minimum f of the unperturbed objective, with at most this many pairs.

    Calibrated, also on separable pairs: with up to about ten pairs per feature the new pairs of a round take up to 10
    steps, later up to 6.
    """
    return 16 if pairs <= 50 * features else 8


def _newton_step(
    theta: Tensor,
    scores: Float[Tensor, "B N n"],
    rows: Tensor,
    tilt: Tensor,
    l2: Float[Tensor, "B 1 1"],
    weights: Float[Tensor, "B n"] | None,
) -> Float[Tensor, "B N F"]:
    """H^-1 gradient; zero where rounding makes H indefinite or a value infinite."""
    gradient = l2 * theta - tilt
    hessian = torch.zeros(*theta.shape, theta.shape[2], dtype=theta.dtype, device=theta.device)
    hessian.diagonal(dim1=2, dim2=3).copy_(l2)
    for start in range(0, rows.shape[1], PART):
        part, push = rows[:, start : start + PART], torch.sigmoid(-scores[..., start : start + PART])
        curvature = torch.addcmul(push, push, push, value=-1)
        if weights is not None:
            counts = weights[:, None, start : start + PART]
            push, curvature = push * counts, curvature * counts
        gradient.baddbmm_(push, part, alpha=-1)
        for member, weight in enumerate(curvature.unbind(1)):
            hessian[:, member].baddbmm_(part.mT * weight[:, None], part)
    factor, failed = torch.linalg.cholesky_ex(hessian)
    step = torch.cholesky_solve(gradient[..., None], factor).squeeze(3)
    return step.masked_fill(failed[..., None] > 0, 0).nan_to_num(0, 0, 0)


def _best_length(
    theta: Tensor,
    scores: Float[Tensor, "B N n"],
    step: Tensor,
    rows: Tensor,
    tilt: Tensor,
    l2: Float[Tensor, "B 1 1"],
    weights: Float[Tensor, "B n"] | None,
) -> Float[Tensor, "B N 1"]:
    """The length of the step, of those tried, at which the objective is least."""
    change = torch.bmm(step, rows.mT)
    longest = change.abs().amax(2, keepdim=True).clamp(min=torch.finfo(change.dtype).eps)
    of_newton, of_damped = _tried(theta.dtype, theta.device)
    lengths = torch.cat([of_newton.expand(*theta.shape[:2], -1), of_damped * (longest.log1p() / longest)], 2)
    slope, bend = (step * (tilt - l2 * theta)).sum(2, keepdim=True), (l2 * step * step).sum(2, keepdim=True)
    value = lengths * slope + lengths**2 * bend / 2
    for start in range(0, rows.shape[1], PART):
        score, added = (values[:, :, None, start : start + PART] for values in (scores, change))
        loss = softplus(lengths[..., None] * added - score)
        if weights is not None:
            loss *= weights[:, None, None, start : start + PART]
        value += loss.sum(3)
    return lengths.gather(2, value.argmin(2, keepdim=True))


@cache
def _tried(dtype: torch.dtype, device: torch.device) -> tuple[Float[Tensor, "L"], Float[Tensor, "M"]]:
    """Both kinds of lengths, made without a copy from the host; shared, not to be written to."""
    newton, damped = ([torch.full((), x, dtype=dtype, device=device) for x in kind] for kind in (OF_NEWTON, OF_DAMPED))
    return torch.stack(newton), torch.stack(damped)
