"""Optima of a pairwise ranker's objective under label noise that is drawn anew for the whole history every round.

Labels 1 + gamma_i, gamma_i ~ N(0, nu^2), in place of 1 add -gamma.X theta to the objective of `newton` (P2NeurRank,
SIGIR 2022, equation 3.3), and X^T gamma ~ N(0, nu^2 X^T X): with a factor R^T R = X^T X the noise of any number of
pairs takes F normal numbers, identical in distribution.

Where old pairs are forgotten (`Forgetting`), the noise of pair i weighs w_i as well, and X^T W gamma has the variance
nu^2 X^T W^2 X. A discount multiplies the factor R; where pairs have left a window, every pair in it has its own noise.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from ol2r_cli import loops
from ol2r_cli.interfaces import RunContext
from ol2r_cli.learning.newton import AnchoredNewton, descend
from ol2r_cli.tensor.shapes import Float
from ol2r_cli.tensor.streams import Random

PART = 1024  # rows that a cache holds


class PerturbedOptima(nn.Module):
    """Follows an `AnchoredNewton`: `update` after it, and `theta` [B N F] are the optima of `members` perturbed
    objectives f(theta) - z.theta, z = X^T gamma with variance nu^2 = `variance`.

    With the Hessian at the anchor as a guide, a step or two lead from there to all optima at once; each step is checked
    by one pass over the history. While pairs are few the noise moves the optima far away, and with fewer pairs than
    features only l2 bounds theta, since labels may lie outside [0, 1]. Then each member goes its own way by
    `quasi_newton`, with a detour along larger l2 where that takes too many steps.

    These decisions depend on values, so this is the form of the loops. In the form of tensors every pair has a noise of
    its own, and all members always make the detour, in a number of steps that depends on l2 alone.

    Guarantee, every round (tests compare with an exact solver), f being the unperturbed objective at the anchor
    (with tensors, at the unperturbed optimum):
    f(theta) - z.theta is at most 1e-3 + 1e-5 f above its minimum.
    """

    theta: Tensor
    factor: Tensor
    factored: Tensor
    solver: AnchoredNewton

    passes = 4  # with the anchor's Hessian
    contraction = 0.3  # of the squared Newton decrement per pass, at least; else members go on by themselves
    steps = 16  # of tensors, after the detour
    margin = 0.02  # of the tolerated gap: next to separable pairs curvature fades, and the decrement says too little

    def __init__(self, members: int, variance: float):
        super().__init__()
        self.members, self.variance = members, variance

    def setup(self, context: RunContext, solver: AnchoredNewton, per_round: int) -> None:
        """Start at theta = 0 with no pairs; a round adds at most `per_round`."""
        object.__setattr__(self, "solver", solver)  # not as a submodule: it belongs to the ranker's state
        self.history, self.waiting = solver.history, context.features + per_round
        self.discounted = context.forgetting.discount < 1
        place: dict[str, Any] = {"dtype": solver.history.dtype, "device": context.device}
        shape = context.replicas, self.members, context.features
        self.register_buffer("theta", torch.zeros(shape, dtype=context.dtype, device=context.device))
        if not solver.loops:
            return
        square = context.replicas, context.features, context.features
        self.register_buffer("factor", torch.zeros(square, **place))
        self.register_buffer("factored", torch.zeros(context.replicas, dtype=torch.int64, device=context.device))

    def update(self, random: Random) -> None:
        """Draw the noise of this round and move to the optima."""
        if not self.solver.loops:
            self._descend(random)
            return
        if self.discounted:
            self.factor.mul_(self.history.forgetting.discount)
        features = self.theta.shape[2]
        first = self.history.first.tolist()
        known = random.normal(self.members * features, "factor").unflatten(1, (self.members, features))
        new = random.normal(self.waiting * self.members, "pairs").unflatten(1, (self.waiting, self.members))
        counts = self.history.count.tolist()
        apart = any(first) and not self.discounted
        most = max(count - begin for count, begin in zip(counts, first, strict=True)) if apart else 0
        each = random.normal(most * self.members, "every pair").unflatten(1, (most, self.members)) if most else None
        for replica, (count, held, begin) in enumerate(zip(counts, self.factored.tolist(), first, strict=True)):
            if begin and each is not None:
                rows = self.history.rows[replica, begin:count]
                noise = each[replica, : count - begin].to(rows.dtype).mT @ rows
            else:
                rows = self.history.rows[replica, held:count]
                if self.discounted:
                    rows = rows * self.history.weights(replica, slice(held, count))[:, None]
                noise = known[replica].to(rows.dtype) @ self.factor[replica]
                noise += new[replica, : count - held].to(rows.dtype).mT @ rows
                if count - held > features:  # new pairs become part of the factor of the old ones
                    self.factor[replica] = torch.linalg.qr(torch.cat([self.factor[replica], rows]), mode="r").R
                    self.factored[replica] = count
            if count > begin:
                self.theta[replica] = self._optima(replica, count, noise * self.variance**0.5)
            else:
                self.theta[replica] = self.solver.start[replica]

    def _descend(self, random: Random) -> None:
        """Move all replicas and members together, over the whole history.

        Where labels outside [0, 1] leave only l2 to bound theta, Newton's method itself takes hundreds of steps. So the
        way goes along the minima for larger l2: from 1 on, halved until it is the setting. Two steps for every half
        suffice (calibrated: one does not, with 136 features or separable pairs).
        """
        count, solver = (random.round + 1) * self.history.per_round, self.solver
        rows, l2 = self.history.rows[:, :count], solver.l2_for_now()
        weights = self.history.weights(slice(None), slice(count)) if self.history.forgets else None
        gamma = random.normal(count * self.members, "every pair").unflatten(1, (count, self.members)).to(rows.dtype)
        if weights is not None:
            gamma = gamma * weights[:, :, None]
        tilt = torch.bmm(gamma.mT, rows) * self.variance**0.5 + (l2[:, None] * solver.start).to(rows.dtype)[:, None]
        theta = solver.theta[:, None].expand(-1, self.members, -1)
        for halvings in range(math.ceil(math.log2(max(1 / solver.l2, 1)))):
            theta = descend(theta, rows, tilt, l2.clamp(min=0.5**halvings), 2, weights)
        self.theta.copy_(descend(theta, rows, tilt, l2, self.steps, weights))

    def _optima(self, replica: int, count: int, noise: Float[Tensor, "N F"]) -> Float[Tensor, "N F"]:
        """All members together by steps with the anchor's Hessian; where these do not contract, each by itself: from
        the anchor if this takes few steps, else along larger l2, each optimum the start of the next."""
        solver, used = self.solver, slice(int(self.history.first[replica]), count)
        rows = self.history.rows[replica, used]
        weights = self.history.weights(replica, used) if self.discounted else torch.ones_like(rows[:, 0])
        inverse, l2 = solver.inverse[replica], float(solver.l2_for(self.history.mass[replica]))
        tolerated = 1e-3 + 1e-5 * float(solver.objective[replica])
        theta = solver.anchor[replica].repeat(self.members, 1)
        residual, noise = solver.gradient[replica] - noise, noise + l2 * solver.start[replica]
        before = None
        for _ in range(self.passes):
            step = residual @ inverse
            now = (step * residual).sum(1)
            if before is not None and (now > self.contraction * before).any():
                break
            theta -= step
            if before is not None and (now * now <= self.margin * tolerated * before).all():
                return theta  # the next decrement is smaller still
            residual = l2 * theta - noise
            for start in range(0, len(rows), PART):  # read once from memory for both products
                part = rows[start : start + PART]
                residual -= torch.sigmoid(-(part @ theta.mT)).mT * weights[start : start + PART] @ part
            before = now
        optima, stages = [], [l2]
        while stages[-1] < 1:
            stages.append(10 * stages[-1])
        for tilt in noise:
            anchor = solver.anchor[replica]
            one, reached = quasi_newton(rows, anchor, inverse, tilt, l2, tolerated, 40, weights)
            if not reached:
                one = torch.zeros_like(anchor)
                for stage in reversed(stages):
                    near = tolerated if stage == l2 else 0.1 * len(rows) ** 0.5
                    guide = inverse_hessian(rows, rows @ one, stage, weights)
                    one, _ = quasi_newton(rows, one, guide, tilt, stage, near, 300, weights)
            optima.append(one)
        return torch.stack(optima)


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
    weights: Float[Tensor, "n"],
) -> tuple[Float[Tensor, "F"], bool]:
    """Minimise f(theta) = sum_i w_i log(1 + exp(-x_i.theta)) + l2/2 |theta|^2 - tilt.theta in at most `steps` steps
    from `theta`, where `inverse` is about that of the Hessian. Return theta, and whether f is within `gap` of its
    minimum.

    BFGS (Nocedal and Wright, Numerical Optimization, 2006, equation 6.17) corrects the inverse by the change of the
    gradient in every step. Its decrement g.H^-1 g, by which it stops, can be far too small where it has not been yet:
    next to separable pairs curvature fades on the way. But if no score has changed by more than r since a Hessian H_0
    was computed, the weight sigma'(s) of no pair has fallen by more than a factor e^r, so g.H^-1 g <= e^r g.H_0^-1 g.
    The method stops by this bound, and computes the Hessian again where r is large or many steps have not sufficed.
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
        along = scores.numpy(), change.numpy(), weights.numpy()
        length = loops.updates.step_length(*along, slope, bend, FLAT * decrement)
        step *= -length
        theta, scores = theta + step, torch.add(scores, change, alpha=-length)
        before, gradient = gradient, _gradient(theta, scores, rows, tilt, l2, weights)
        turn = gradient - before
        if (product := float(step @ turn)) > 0:  # else by rounding
            turned = guide @ turn  # `guide` shall map the change of the gradient to the step
            half = step * ((1 + float(turn @ turned) / product) / (2 * product)) - turned / product
            guide.addmm_(torch.stack([step, half], 1), torch.stack([half, step]))
    return theta, False


def inverse_hessian(
    rows: Float[Tensor, "n F"], scores: Float[Tensor, "n"], l2: float, weights: Float[Tensor, "n"]
) -> Float[Tensor, "F F"]:
    """Return the inverse of sum_i w_i sigma'(s_i) x_i x_i^T + l2 I."""
    push = torch.sigmoid(-scores)
    hessian = (rows.mT * (push * (1 - push) * weights)) @ rows
    hessian.diagonal().add_(l2)
    return torch.cholesky_inverse(torch.linalg.cholesky(hessian))


def _gradient(
    theta: Tensor, scores: Tensor, rows: Tensor, tilt: Tensor, l2: float, weights: Tensor
) -> Float[Tensor, "F"]:
    return l2 * theta - torch.sigmoid(-scores) * weights @ rows - tilt
