"""The quasi-Newton method BFGS on one pairwise objective, from a Hessian that is nearly right.

A step costs two passes over the pairs, where a step of Newton's method costs one for every feature.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ol2r_cli import loops
from ol2r_cli.tensor.shapes import Float

FAR = 4.0  # change of a score after which a Hessian says little about the curvature
PATIENCE = 8  # steps before the Hessian is computed again
CLOSE = 0.05  # of the gap, where it stops: members that stop short of their optima would be too much alike
FLAT = 0.1  # a step is long enough where the slope along it has fallen to this share


def quasi_newton(
    rows: Float[Tensor, "n F"],
    theta: Float[Tensor, "F"],
    inverse: Float[Tensor, "F F"],
    tilt: Float[Tensor, "F"],
    l2: float,
    gap: float,
    steps: int,
    compiled: bool,
    weights: Float[Tensor, "n"] | None = None,
) -> tuple[Float[Tensor, "F"], bool]:
    """Minimise f(theta) = sum_i w_i log(1 + exp(-x_i.theta)) + l2/2 |theta|^2 - tilt.theta in at most `steps` steps
    from `theta`, where `inverse` is about that of the Hessian; the `weights` w are 1 if None. Return theta, and whether
    f is within `gap` of its minimum.

    BFGS (Nocedal and Wright, Numerical Optimization, 2006, equation 6.17) corrects the inverse by the change of the
    gradient in every step. Its decrement g.H^-1 g, by which it stops, can be far too small where it has not been yet:
    next to separable pairs curvature fades on the way. But if no score has changed by more than r since a Hessian H_0
    was computed, the weight sigma'(s) of no pair has fallen by more than a factor e^r, so g.H^-1 g <= e^r g.H_0^-1 g.
    The method stops by this bound, and computes the Hessian again where r is large or many steps have not sufficed.
    With `compiled`, a compiled loop finds the length of a step, where there are no weights.
    """
    scores = known = rows @ theta  # of every pair, now and where `inverse` is from
    gradient = _gradient(theta, scores, rows, tilt, l2, weights)
    guide, waited = inverse.clone(), 0  # `inverse` with the corrections
    for _ in range(steps):
        step = guide @ gradient
        decrement = float(step @ gradient)
        near = decrement <= CLOSE * gap
        if near or waited == PATIENCE:
            drift = float((scores - known).abs().max())
            if near and math.exp(min(drift, 99)) * float(gradient @ inverse @ gradient) <= CLOSE * gap:
                return theta, True
            if not near or drift > FAR:
                inverse, known, waited = inverse_hessian(rows, scores, l2, weights), scores, 0
                guide = inverse.clone()
                continue
        waited += 1
        change = rows @ step
        slope, bend = float(tilt @ step) - l2 * float(theta @ step), l2 * float(step @ step)
        if compiled and weights is None:
            length = _length_by_loops(scores, change, slope, bend, FLAT * decrement)
        else:
            length = _length(scores, change, slope, bend, FLAT * decrement, weights)
        step *= -length
        theta, scores = theta + step, torch.add(scores, change, alpha=-length)
        before, gradient = gradient, _gradient(theta, scores, rows, tilt, l2, weights)
        _correct(guide, step, gradient - before)
    return theta, False


def inverse_hessian(
    rows: Float[Tensor, "n F"], scores: Float[Tensor, "n"], l2: float, weights: Float[Tensor, "n"] | None = None
) -> Float[Tensor, "F F"]:
    """Return the inverse of sum_i w_i sigma'(s_i) x_i x_i^T + l2 I."""
    push = torch.sigmoid(-scores)
    curvature = push * (1 - push)
    hessian = (rows.mT * (curvature if weights is None else curvature * weights)) @ rows
    hessian.diagonal().add_(l2)
    return torch.cholesky_inverse(torch.linalg.cholesky(hessian))


def _gradient(
    theta: Tensor, scores: Tensor, rows: Tensor, tilt: Tensor, l2: float, weights: Tensor | None
) -> Float[Tensor, "F"]:
    push = torch.sigmoid(-scores)
    return l2 * theta - (push if weights is None else push * weights) @ rows - tilt


def _length(
    scores: Tensor, change: Tensor, slope: float, bend: float, flat: float, weights: Tensor | None = None
) -> float:
    """Return a > 0 where the objective, as a function of the length a of -step, has a slope of at most `flat`.

    Newton's method in one dimension, kept between the lengths known to be too short and too long.
    """
    length, short, long = 1.0, 0.0, math.inf
    for _ in range(60):
        push = torch.sigmoid(torch.add(-scores, change, alpha=length))
        moved = push * change
        pushed = moved if weights is None else moved * weights
        rise = slope + length * bend + float(pushed.sum())
        if abs(rise) <= flat:
            break
        short, long = (length, long) if rise < 0 else (short, length)
        length -= rise / (bend + float(pushed @ change - pushed @ moved))
        if not short < length < long:
            length = 2 * short if long == math.inf else (short + long) / 2
    return length


def _length_by_loops(scores: Tensor, change: Tensor, slope: float, bend: float, flat: float) -> float:
    """Return what `_length` does."""
    return loops.updates.step_length(scores.numpy(), change.numpy(), slope, bend, flat)


def _correct(inverse: Float[Tensor, "F F"], step: Float[Tensor, "F"], turn: Float[Tensor, "F"]) -> None:
    """Make the inverse map the change of the gradient, `turn`, to the step (BFGS)."""
    product = float(step @ turn)
    if product <= 0:  # by rounding
        return
    turned = inverse @ turn
    half = step * ((1 + float(turn @ turned) / product) / (2 * product)) - turned / product
    inverse.addmm_(torch.stack([step, half], 1), torch.stack([half, step]))
