"""The optimum of a linear pairwise ranker's objective, kept up to date after every round.

Objective in sum form (PairRank, WWW 2021, equation 1), rows x = x_winner - x_loser, label 1:
    f(theta) = sum_i log(1 + exp(-x_i.theta)) + l2_n / 2 |theta|^2,
with l2_n = l2 (`reduction: sum`, the paper) or 2 n l2 (`reduction: mean`, the authors' code: mean cross-entropy plus
l2 |theta|^2, times n). Where old pairs are forgotten (`Forgetting`), pair i counts w_i times, by its age, and n is the
sum of the weights.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from ol2r_cli import loops
from ol2r_cli.interfaces import RunContext
from ol2r_cli.learning.descent import descend, steps_after
from ol2r_cli.learning.history import PairHistory
from ol2r_cli.tensor.gather import cached_arange
from ol2r_cli.tensor.shapes import Bool, Float, Int
from ol2r_cli.tensor.streams import Random
from ol2r_cli.tensor.synchronisation import is_host_readable


class AnchoredNewton(nn.Module):
    """Newton's method around an anchor whose gradient is exact for the whole history.

    A new pair adds one row to the gradient, exact at the anchor, so the step theta = anchor - H^-1 g takes O(F^2) a
    round. The squared length q = g.H^-1 g of that step, in the norm of the Hessian, tells when it is no longer good
    enough: then the anchor moves to theta, which takes one pass over the history for the gradient. The Hessian is only
    a guide: it lacks at most the latest `growth` of the pairs, and is corrected for those whose score has drifted. A
    step that changes some pair's score by r > `drift` is damped by log(1 + r) / r, which makes it descend from
    anywhere (Sun and Tran-Dinh, Generalized self-concordant functions, 2019, for the order 2 of logistic losses).

    Each of these decisions depends on values, which a GPU would have to be waited for. There `descend` takes a number
    of steps over the whole history that depends on the round alone.

    At the anchor forgetting is exact as well: gradient and Hessian of the pairs are multiplied by the discount in every
    round, and what a pair that leaves the window has added to them is subtracted.

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
    base_count: Tensor
    base_first: Tensor
    base_mass: Tensor
    base_round: Tensor
    cleared: Tensor
    history: PairHistory

    drift = 0.3  # in units of score: every pair's weight in the Hessian is then within a factor exp(0.3) of the truth
    growth = 1.05
    passes = 100  # at most, in one round: rounding could keep float32 from ever reaching the tolerance

    def __init__(self, l2: float, reduction: str, exact: bool = False):
        super().__init__()
        self.l2, self.reduction, self.exact = l2, reduction, exact

    def setup(self, context: RunContext, history: PairHistory) -> None:
        """Start at theta = 0 with no pairs."""
        self.loops = context.loops
        object.__setattr__(self, "history", history)  # not as a submodule: it belongs to the ranker's state
        place: dict[str, Any] = {"dtype": context.dtype, "device": context.device}
        shape = context.replicas, context.features
        for name in "theta", "anchor", "gradient":
            self.register_buffer(name, torch.zeros(shape, **place))
        self.register_buffer("objective", torch.zeros(context.replicas, **place))
        for name in "hessian", "inverse":  # H without any pair is not needed: the first pair outgrows it
            self.register_buffer(name, torch.zeros(*shape, context.features, **place))
        self.hessian.diagonal(dim1=1, dim2=2).add_(self.l2_for(history.count)[:, None])
        for name in "scores", "base_scores":  # of every pair, at the anchor and when last weighted in the Hessian
            self.register_buffer(name, torch.zeros(context.replicas, history.capacity + 1, **place))
        self.register_buffer("base_count", torch.zeros_like(history.count))  # the pairs that the Hessian holds
        self.forgets, self.discount = history.forgets, history.forgetting.discount
        if self.forgets:  # the first pair that the Hessian holds, what these pairs weighed then, and when that was
            for name in "base_first", "base_round", "cleared":
                self.register_buffer(name, torch.zeros_like(history.count))
            self.register_buffer("base_mass", torch.zeros_like(history.mass))

    def l2_for(self, count: Int[Tensor, "*B"] | Float[Tensor, "*B"]) -> Float[Tensor, "*B"]:
        """The multiplier of |theta|^2 / 2 in the sum form of the objective, for so many pairs, or their weight."""
        count = count.double()  # an integer tensor times a number would be float32
        return torch.full_like(count, self.l2) if self.reduction == "sum" else 2 * self.l2 * count

    def l2_for_now(self) -> Float[Tensor, "B"]:
        """`l2_for` the pairs that count, and above 0 without any: then theta returns to 0."""
        mass = self.history.mass
        return self.l2_for(mass) + self.l2 * (mass == 0)

    def for_loops(self) -> Any:
        """The state for rounds that are played together, after which `attend` must be called."""
        history = self.history
        self._step, self._attend = np.empty_like(self.anchor.numpy()), np.zeros(len(self.anchor), np.int64)
        return loops.play.Newton(
            self.l2,
            self.reduction == "mean",
            self.growth,
            history.count.numpy(),
            history.pairs.numpy(),
            history.rows.numpy(),
            self.anchor.numpy(),
            self.gradient.numpy(),
            self.objective.numpy(),
            self.inverse.numpy(),
            self.scores.numpy(),
            self.base_count.numpy(),
            self._step,
            self._attend,
        )

    def attend(self) -> None:
        """Move the anchors from which a step is not good enough, after rounds that were played together."""
        for replica in np.flatnonzero(self._attend).tolist():
            step = self._move_anchor(replica, int(self.history.count[replica]), bool(self._attend[replica] == 2))
            torch.add(self.anchor[replica], step, out=self.theta[replica])

    def update(self, added: Float[Tensor, "B M F"], valid: Bool[Tensor, "B M"], random: Random) -> None:
        """Move `theta` to the optimum of the history, whose last rows are `added` (zero where not `valid`)."""
        if not is_host_readable(self.theta):
            self._descend(random.round + 1)
            return
        if self.forgets:
            self._forget()
        count = self.history.count
        step, q = self._add_by_loops(added, valid) if self.loops else self._add(added, valid)
        state = zip(q, self.objective.tolist(), count.tolist(), self.base_count.tolist(), strict=True)
        for replica, (size, objective, now, held) in enumerate(state):
            if self.forgets and now == int(self.history.first[replica]):
                self._restart(replica, now)
                step[replica] = 0
                continue
            outgrown = self._outgrown(replica, now, held)
            if outgrown or self._poor(size, objective):
                step[replica] = self._move_anchor(replica, now, outgrown)
        torch.add(self.anchor, step, out=self.theta)

    def _forget(self) -> None:
        """Make gradient and objective at the anchor those of the pairs before this round, as they count now.

        Pairs that a discount drops have no weight to speak of and stay as they are.
        """
        history, anchor, gradient, objective = self.history, self.anchor, self.gradient, self.objective
        if self.discount < 1:
            gradient.mul_(self.discount)
            objective.mul_(self.discount)
            if self.reduction == "sum":  # with `mean` the penalty weighs as much as the pairs
                gradient.add_(anchor, alpha=(1 - self.discount) * self.l2)
                objective.add_(anchor.square().sum(1), alpha=(1 - self.discount) * self.l2 / 2)
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
                gradient[replica] -= 2 * self.l2 * dropped * anchor[replica]

    def _restart(self, replica: int, count: int) -> None:
        """Start one replica again at theta = 0: all its pairs have been forgotten."""
        for values in self.anchor, self.gradient, self.objective, self.hessian, self.inverse, self.base_mass:
            values[replica] = 0
        self.hessian[replica].diagonal().add_(self.l2_for(self.history.mass[replica]))
        self.base_count[replica] = self.base_first[replica] = self.cleared[replica] = count
        self.base_round[replica] = self.history.rounds

    def _outgrown(self, replica: int, count: int, held: int) -> bool:
        """Whether the Hessian lacks, or still has, too much of what the pairs weigh."""
        if not self.forgets:
            return count > self.growth * held
        now, base = float(self.history.mass[replica]), float(self.base_mass[replica])
        shared = float(held - int(self.history.first[replica]))
        if self.discount < 1:
            shared = base * self.discount ** int(self.history.rounds - self.base_round[replica])
        return max(now, base) > self.growth * shared

    def _add(
        self, added: Float[Tensor, "B M F"], valid: Bool[Tensor, "B M"]
    ) -> tuple[Float[Tensor, "B F"], list[float]]:
        """Add a round's pairs at the anchor. Return the step from it, and q of every replica."""
        scores = torch.bmm(added, self.anchor[:, :, None]).squeeze(2)
        gradient = self.gradient
        gradient -= torch.bmm(torch.sigmoid(-scores)[:, None], added).squeeze(1)
        new = valid.sum(1, keepdim=True)
        if self.reduction == "mean":
            gradient += 2 * self.l2 * new.to(added.dtype) * self.anchor
        self.objective += (softplus(-scores) * valid).sum(1)
        count = self.history.count
        place = torch.where(valid, count[:, None] - new + valid.cumsum(1) - 1, -1)
        self.scores[self.history.replica, place] = scores
        step = -torch.bmm(self.inverse, gradient[:, :, None]).squeeze(2)
        return step, (-(step * gradient).sum(1)).tolist()

    def _add_by_loops(
        self, added: Float[Tensor, "B M F"], valid: Bool[Tensor, "B M"]
    ) -> tuple[Float[Tensor, "B F"], list[float]]:
        """Return what `_add` does."""
        step = torch.empty_like(self.anchor)
        q = loops.updates.newton_step(
            added.numpy(),
            valid.numpy(),
            self.l2,
            self.reduction == "mean",
            self.history.count.numpy(),
            self.anchor.numpy(),
            self.gradient.numpy(),
            self.objective.numpy(),
            self.inverse.numpy(),
            self.scores.numpy(),
            step.numpy(),
        )
        return step, q.tolist()

    def _descend(self, rounds: int) -> None:
        """On a GPU: as many steps as the round says, for all replicas together, over the whole history.

        The anchor follows. A Hessian is not kept; one from a run on a CPU stays true.
        """
        count, l2 = self.history.most(rounds), self.l2_for_now()
        rows = self.history.rows[:, :count]
        weights = self.history.weights(slice(None), slice(count)) if self.forgets else None
        nothing = torch.zeros_like(self.theta)
        steps = steps_after(int(min(count, self._most_at_once())), rows.shape[2])
        self.anchor.copy_(descend(self.anchor[:, None], rows, nothing[:, None], l2, steps, weights)[:, 0])
        scores = torch.bmm(rows, self.anchor[:, :, None]).squeeze(2)
        self.scores[:, :count] = scores
        real = cached_arange(count, rows.device) < self.history.count[:, None]
        l2 = l2.to(rows.dtype)
        push, loss = torch.sigmoid(-scores), softplus(-scores) * real
        if weights is not None:
            push, loss = push * weights, loss * weights
        self.gradient.copy_(l2[:, None] * self.anchor - torch.bmm(push[:, None], rows)[:, 0])
        self.objective.copy_(loss.sum(1) + l2 / 2 * self.anchor.square().sum(1))
        self.theta.copy_(self.anchor)

    def _most_at_once(self) -> float:
        """The largest number of pairs that count at once, as many as weigh 1."""
        window = self.history.forgetting.window or math.inf
        return self.history.per_round * (window if self.discount == 1 else 1 / (1 - self.discount))

    def _poor(self, q: float, objective: float) -> bool:
        """Whether the step from the anchor may miss the guarantee.

        The gap left by a step is of higher order in q, the more so the more evidence there is per parameter: q may
        exceed the tolerated gap 100-fold then, but not at all while pairs are few or separable (calibrated; see
        docs/algorithms/pairrank.md).
        """
        if self.exact:
            return q > torch.finfo(self.theta.dtype).eps
        evidence = objective / (3 * self.theta.shape[1])
        trust = min(max(20 * evidence**2, 1), 100)
        return q > trust * (1e-3 + 1e-5 * objective)

    def _move_anchor(self, replica: int, count: int, outgrown: bool) -> Float[Tensor, "F"]:
        """Move one replica's anchor until the step from it is good enough, and return that step."""
        first = int(self.history.first[replica]) if self.forgets else 0
        factor = self._correct(replica, first, count) if outgrown else None
        for _ in range(self.passes):
            gradient = self.gradient[replica]
            if factor is None:
                step = -(self.inverse[replica] @ gradient)
            else:
                step = -torch.cholesky_solve(gradient[:, None], factor).squeeze(1)
            if not self._poor(-float(step @ gradient), float(self.objective[replica])):
                break
            change = self.history.rows[replica, first:count] @ step
            longest = float(change.abs().max())
            damping = math.log1p(longest) / longest if longest > self.drift else 1.0
            self.anchor[replica] += damping * step
            self.scores[replica, first:count] += damping * change
            self._expand(replica, first, count)
            corrected = self._correct(replica, first, count)
            factor = factor if corrected is None else corrected
        if factor is not None:
            self.inverse[replica] = torch.cholesky_inverse(factor)
        return step

    def _expand(self, replica: int, first: int, count: int) -> None:
        """Recompute one replica's gradient and objective at its anchor."""
        theta, scores = self.anchor[replica], self.scores[replica, first:count]
        l2 = self.l2_for(self.history.mass[replica])
        push, loss = torch.sigmoid(-scores), softplus(-scores)
        if self.discount < 1:
            weights = self.history.weights(replica, slice(first, count))
            push, loss = push * weights, loss * weights
        self.gradient[replica] = l2 * theta - push @ self.history.rows[replica, first:count]
        self.objective[replica] = loss.sum() + l2 / 2 * theta @ theta

    def _correct(self, replica: int, first: int, count: int) -> Float[Tensor, "F F"] | None:
        """Bring one replica's Hessian up to date, for pairs that have drifted, new ones and forgotten ones: its
        Cholesky factor.

        None where no pair has drifted: then the others wait as well.
        """
        hessian, held = self.hessian[replica], int(self.base_count[replica])
        start = int(self.base_first[replica]) if self.forgets else 0
        scores, base = self.scores[replica, start:count], self.base_scores[replica, start:count]
        stale = (scores - base).abs() > self.drift
        if not stale[first - start : max(held, first) - start].any() and not self._outgrown(replica, count, held):
            return None
        if self.forgets and first - int(self.cleared[replica]) > count - first:
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
        weight, lost = after * (1 - after), before * (1 - before) * (moved < held)
        if self.forgets:
            weight *= moved >= first
            shift = self._fade(replica)
        else:
            shift = self.l2_for(self.history.count[replica]) - self.l2_for(self.base_count[replica])
        weight -= lost
        if self.discount < 1:
            weight *= self.history.weights(replica, moved)
        rows = self.history.rows[replica, moved]
        hessian.addmm_(rows.mT * weight, rows)
        hessian.diagonal().add_(shift)
        self.base_count[replica] = count
        return torch.linalg.cholesky(hessian)

    def _fade(self, replica: int) -> Float[Tensor, ""]:
        """Discount what one replica's Hessian holds, to the present round; return what its diagonal lacks of l2."""
        history, hessian = self.history, self.hessian[replica]
        held, l2 = self.l2_for(self.base_mass[replica]), self.l2_for(history.mass[replica])
        if self.discount < 1:
            hessian.diagonal().sub_(held)
            hessian.mul_(self.discount ** int(history.rounds - self.base_round[replica]))
            held.zero_()
        self.base_first[replica], self.base_mass[replica] = history.first[replica], history.mass[replica]
        self.base_round[replica] = history.rounds
        return l2 - held
