"""The optimum of a linear pairwise ranker's objective, kept up to date after every round.

Objective in sum form (PairRank, WWW 2021, equation 1), rows x = x_winner - x_loser, label 1:
    f(theta) = sum_i log(1 + exp(-x_i.theta)) + l2_n / 2 |theta|^2,
with l2_n = l2 (`reduction: sum`, the paper) or 2 n l2 (`reduction: mean`, the authors' code: mean cross-entropy plus
l2 |theta|^2, times n). After a warm start from theta_0 it has |theta - theta_0|^2. Where old pairs are forgotten
(`Forgetting`), pair i counts w_i times, by its age, and n is the sum of the weights.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from ol2r_cli import loops
from ol2r_cli.interfaces import RunContext
from ol2r_cli.learning.history import PairHistory
from ol2r_cli.ranker.pairrank import newton_loops
from ol2r_cli.tensor.shapes import Bool, Float, Int


class AnchoredNewton(nn.Module):
    """Newton's method around an anchor whose gradient is exact for the whole history.

    A new pair adds one row to the gradient, exact at the anchor, so the step theta = anchor - H^-1 g takes O(F^2) a
    round. The squared length q = g.H^-1 g of that step, in the norm of the Hessian, tells when it is no longer good
    enough: then the anchor moves to theta, which takes one pass over the history for the gradient. The Hessian is only
    a guide: it lacks at most the latest `growth` of the pairs, and is corrected for those whose score has drifted. A
    step that changes some pair's score by r > `DRIFT` is damped by log(1 + r) / r, which makes it descend from
    anywhere (Sun and Tran-Dinh, Generalized self-concordant functions, 2019, for the order 2 of logistic losses).

    This is what newton_loops.py does. Where old pairs are forgotten, the same decisions are made here, one
    replica after the other, in tensors on any device. At the anchor forgetting is exact as well: gradient and Hessian
    of the pairs are multiplied by the discount in every round, and what a pair that leaves the window has added to them
    is subtracted.

    Guarantee, every round (tests compare with an exact solver): f(theta) - min f <= 1e-3 + 1e-5 f(theta). If `exact`,
    the anchor moves until q is a rounding error.
    """

    theta: Tensor
    anchor: Tensor
    gradient: Tensor
    objective: Tensor
    hessian: Tensor
    inverse: Tensor
    scores: Tensor
    base_scores: Tensor
    base_count: Tensor  # the pairs that the Hessian holds
    base_first: Tensor  # the first of them
    base_mass: Tensor  # what they weighed then
    base_round: Tensor  # and when that was
    cleared: Tensor
    history: PairHistory

    growth = 1.05

    def __init__(self, l2: float, reduction: str, exact: bool = False):
        super().__init__()
        self.l2, self.reduction, self.exact = l2, reduction, exact

    def setup(self, context: RunContext, history: PairHistory) -> None:
        object.__setattr__(self, "history", history)  # not as a submodule: it belongs to the ranker's state
        shape = context.replicas, context.features
        self.discount = history.forgetting.discount
        self.register_buffer("theta", torch.zeros(shape, dtype=context.dtype, device=context.device))
        place: dict[str, Any] = {"dtype": torch.float64, "device": context.device}
        self.start = torch.zeros(shape, **place)  # theta_0: a setting, not state
        for name in "anchor", "gradient":
            self.register_buffer(name, torch.zeros(shape, **place))
        self.register_buffer("objective", torch.zeros(context.replicas, **place))
        for name in "hessian", "inverse":  # H without any pair is not needed: the first pair outgrows it
            self.register_buffer(name, torch.zeros(*shape, context.features, **place))
        self.hessian.diagonal(dim1=1, dim2=2).add_(self.l2_for(history.count)[:, None])
        for name in "scores", "base_scores":  # of every pair, at the anchor and when last weighted in the Hessian
            self.register_buffer(name, torch.zeros(context.replicas, history.capacity + 1, **place))
        for name in "base_count", "base_first", "base_round", "cleared":
            self.register_buffer(name, torch.zeros_like(history.count))
        self.register_buffer("base_mass", torch.zeros_like(history.mass))

    def start_from(self, theta: Float[Tensor, "B F"]) -> None:
        """Begin with theta_0, the minimum of the objective without pairs."""
        for values in (self.theta, self.start, self.anchor):
            values.copy_(theta)

    def l2_for(self, count: Int[Tensor, "*B"] | Float[Tensor, "*B"]) -> Float[Tensor, "*B"]:
        """Return the multiplier of |theta|^2 / 2 in the sum form of the objective, for so many pairs, or their
        weight."""
        count = count.double()  # an integer tensor times a number would be float32
        return torch.full_like(count, self.l2) if self.reduction == "sum" else 2 * self.l2 * count

    def state(self) -> Any:
        """Return what the loops know of it, `anchored_newton.PairwiseState`."""
        history = self.history
        one = torch.ones_like(self.objective)
        l2, l2_of_pair = (self.l2, 0.0) if self.reduction == "sum" else (0.0, 2 * self.l2)
        fitted = self.theta, self.start, self.anchor, self.gradient, self.objective, self.hessian, self.inverse
        of_pairs = self.scores, self.base_scores, self.base_count, history.count, history.pairs, history.rows
        settings = one * l2, one * l2_of_pair, one * self.growth, one * float(self.exact)
        return newton_loops.PairwiseState(*fitted, *of_pairs, *settings)

    def room(self, pairs: int) -> int:
        """Return how many numbers the loops take of their workspace, for so many pairs in a round."""
        return newton_loops.room_of_newton(self.history.capacity + 1, self.theta.shape[1], pairs)

    def update(self, added: Float[Tensor, "B M F"], valid: Bool[Tensor, "B M"]) -> None:
        """Move `theta` to the optimum of the history, whose last rows are `added` (zero where not `valid`)."""
        replicas, room, rows = len(self.theta), self.room(added.shape[1]), added.contiguous()
        if not self.history.forgets:
            arguments = rows, valid, self.history.features, self.state()
            loops.launch.launch(newton_loops.learns_from_rows, replicas, room, *arguments)
            return
        self._forget()
        step, sizes = torch.empty_like(self.anchor), torch.empty_like(self.objective)
        written = rows, valid, step, sizes, self.state()
        loops.launch.launch(newton_loops.adds_rows_at_anchor, replicas, room, *written)
        counts, held = self.history.count.tolist(), self.base_count.tolist()
        state = zip(sizes.tolist(), self.objective.tolist(), counts, held, strict=True)
        for replica, (size, objective, now, held) in enumerate(state):
            if now == int(self.history.first[replica]):
                self._restart(replica, now)
                step[replica] = 0
                continue
            outgrown = self._outgrown(replica, now, held)
            if outgrown or self._poor(size, objective):
                step[replica] = self._move_anchor(replica, now, outgrown)
        torch.sub(self.anchor, step, out=self.theta)

    def _forget(self) -> None:
        """Make gradient and objective at the anchor those of the pairs before this round, as they count now.

        Pairs that a discount drops have no weight to speak of and stay as they are.
        """
        history, gradient, objective = self.history, self.gradient, self.objective
        moved = self.anchor - self.start
        if self.discount < 1:
            gradient.mul_(self.discount)
            objective.mul_(self.discount)
            if self.reduction == "sum":  # with `mean` the penalty weighs as much as the pairs
                gradient.add_(moved, alpha=(1 - self.discount) * self.l2)
                objective.add_(moved.square().sum(1), alpha=(1 - self.discount) * self.l2 / 2)
            return
        for replica, dropped in enumerate(history.dropped.tolist()):
            if not dropped:
                continue
            first = int(history.first[replica])
            left = slice(first - dropped, first)
            scores, rows = self.scores[replica, left], history.rows[replica, left]
            gradient[replica] += torch.sigmoid(-scores) @ rows
            objective[replica] -= softplus(-scores).sum()
            if self.reduction == "mean":
                gradient[replica] -= 2 * self.l2 * dropped * moved[replica]

    def _restart(self, replica: int, count: int) -> None:
        """Start one replica again at theta_0: all its pairs have been forgotten."""
        self.anchor[replica] = self.start[replica]
        for values in self.gradient, self.objective, self.hessian, self.inverse, self.base_mass:
            values[replica] = 0
        self.hessian[replica].diagonal().add_(self.l2_for(self.history.mass[replica]))
        self.base_count[replica] = self.base_first[replica] = self.cleared[replica] = count
        self.base_round[replica] = self.history.rounds

    def _outgrown(self, replica: int, count: int, held: int) -> bool:
        """Return whether the Hessian lacks, or still has, too much of what the pairs weigh."""
        now, base = float(self.history.mass[replica]), float(self.base_mass[replica])
        shared = float(held - int(self.history.first[replica]))
        if self.discount < 1:
            shared = base * self.discount ** int(self.history.rounds - self.base_round[replica])
        return max(now, base) > self.growth * shared

    def _poor(self, q: float, objective: float) -> bool:
        """Return whether the step from the anchor may miss the guarantee."""
        return bool(newton_loops.is_poor(q, objective, self.theta.shape[1], self.exact))

    def _move_anchor(self, replica: int, count: int, outgrown: bool) -> Float[Tensor, "F"]:
        """Move one replica's anchor until the step to the optimum is good enough; return it: it is to be subtracted."""
        first = int(self.history.first[replica])
        factor = self._correct(replica, first, count) if outgrown else None
        for _ in range(newton_loops.PASSES):
            gradient = self.gradient[replica]
            if factor is None:
                step = self.inverse[replica] @ gradient
            else:
                step = torch.cholesky_solve(gradient[:, None], factor).squeeze(1)
            if not self._poor(float(step @ gradient), float(self.objective[replica])):
                break
            change = self.history.rows[replica, first:count] @ step
            longest = float(change.abs().max())
            damping = math.log1p(longest) / longest if longest > newton_loops.DRIFT else 1.0
            self.anchor[replica] -= damping * step
            scores = self.scores[replica, first:count].sub_(damping * change)
            moved, l2 = self.anchor[replica] - self.start[replica], self.l2_for(self.history.mass[replica])
            push, loss = torch.sigmoid(-scores), softplus(-scores)
            if self.discount < 1:
                weights = self.history.weights(replica, slice(first, count))
                push, loss = push * weights, loss * weights
            self.gradient[replica] = l2 * moved - push @ self.history.rows[replica, first:count]
            self.objective[replica] = loss.sum() + l2 / 2 * moved @ moved
            corrected = self._correct(replica, first, count)
            if corrected is not None:
                factor = corrected
        if factor is not None:
            self.inverse[replica] = torch.cholesky_inverse(factor)
        return step

    def _correct(self, replica: int, first: int, count: int) -> Float[Tensor, "F F"] | None:
        """Bring one replica's Hessian up to date, for pairs that have drifted, new ones and forgotten ones: its
        Cholesky factor.

        None where no pair has drifted: then the others wait as well.
        """
        history, hessian, held = self.history, self.hessian[replica], int(self.base_count[replica])
        start = int(self.base_first[replica])
        scores, base = self.scores[replica, start:count], self.base_scores[replica, start:count]
        stale = (scores - base).abs() > newton_loops.DRIFT
        if not stale[first - start : max(held, first) - start].any() and not self._outgrown(replica, count, held):
            return None
        if first - int(self.cleared[replica]) > count - first:
            # As many pairs have left as there are: start again, so that what they leave behind by rounding stays small.
            hessian.zero_().diagonal().add_(self.l2_for(self.base_mass[replica]))
            scores, base, stale = (values[first - start :] for values in (scores, base, stale))
            self.cleared[replica] = held = start = first
        stale[: first - start] = True
        stale[held - start :] = True
        moved = stale.nonzero().squeeze(1)
        before, after = torch.sigmoid(base[moved]), torch.sigmoid(scores[moved])
        base[moved] = scores[moved]
        moved += start
        weight = after * (1 - after) * (moved >= first) - before * (1 - before) * (moved < held)
        lacks = self.l2_for(history.mass[replica])  # of l2, on the diagonal
        if self.discount < 1:  # what the Hessian holds becomes what it is in the present round
            hessian.diagonal().sub_(self.l2_for(self.base_mass[replica]))
            hessian.mul_(self.discount ** int(history.rounds - self.base_round[replica]))
            weight *= history.weights(replica, moved)
        else:
            lacks -= self.l2_for(self.base_mass[replica])
        rows = history.rows[replica, moved]
        hessian.addmm_(rows.mT * weight, rows)
        hessian.diagonal().add_(lacks)
        self.base_count[replica], self.base_first[replica] = count, first
        self.base_mass[replica], self.base_round[replica] = history.mass[replica], history.rounds
        return torch.linalg.cholesky(hessian)
