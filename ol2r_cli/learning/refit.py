"""Gradient descent on all feedback so far (olRankNet, 2022, equation 3.1 and Algorithm 1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from ol2r_cli.learning.model import Model
from ol2r_cli.random import Random
from ol2r_cli.shapes import Bool, Float, Int


class Sample(NamedTuple):
    """Some of what a loss is made of: documents, and how their scores should move to make it smaller."""

    document: Int[Tensor, "B X"]  # rows of the document table
    pull: Callable[[Tensor], Tensor]  # scores [B N X] to the gradient [B N X] of the log-likelihood
    pairs: Float[Tensor, "B"]  # how many pairs that is a sum over


@runtime_checkable
class Loss(Protocol):
    """A loss over all feedback so far, of every replica its own."""

    features: Tensor  # the document table

    @property
    def total(self) -> Int[Tensor, "B"]:
        """Number of pairs so far."""
        ...

    def draw(self, random: Random, size: int, steps: int) -> Iterator[Sample]:
        """For each step some of it, drawn at random."""
        ...

    def whole(self, rounds: int | None = None) -> Iterator[Sample]:
        """All of it, in parts; who says how many rounds that is need not ask a GPU."""
        ...


class GradientRefit:
    """J = `steps` steps down the loss + m l2/2 |theta - theta_0|^2, from where theta is or, with `restart`, theta_0.

    The loss is the mean over the pairs of a step; `l2` >= 0 is divided by the number n of pairs with `reduction` = sum
    (the paper's objective, over n), and taken as it is with `mean`. `batch` pairs (LambdaRank: lists) are drawn for
    every step; null takes the whole history. theta moves by `learning_rate`/m times the gradient: the step is taken in
    the coordinates sqrt(m) (theta - theta_0), in which a network's tangent is as large as its features.
    """

    def __init__(self, steps: int, learning_rate: float, batch: int | None, restart: bool, l2: float, reduction: str):
        if steps < 1:
            raise ValueError(f"ranker.steps must be 1 or more, got {steps}")
        if not learning_rate > 0:
            raise ValueError(f"ranker.learning_rate must be above 0, got {learning_rate}")
        if batch is not None and batch < 1:
            raise ValueError(f"ranker.batch must be 1 or more, or null for the whole history, got {batch}")
        if not l2 >= 0:
            raise ValueError(f"ranker.l2 must be 0 or more, got {l2}")
        if reduction not in ("sum", "mean"):
            raise ValueError(f"ranker.reduction must be 'sum' or 'mean', got {reduction!r}")
        self.steps, self.learning_rate, self.batch, self.restart = steps, learning_rate, batch, restart
        self.l2, self.reduction = l2, reduction

    def __call__(
        self,
        theta: Float[Tensor, "B N P"],
        start: Float[Tensor, "B N P"],
        model: Model,
        loss: Loss,
        random: Random,
        moved: Bool[Tensor, "B"],
    ) -> None:
        """Move theta in place, in the replicas that are `moved`; `start` is theta_0."""
        here = torch.where(moved[:, None, None], start, theta) if self.restart else theta
        rate = moved[:, None, None].to(theta.dtype) * (self.learning_rate / model.width)
        half = 0.5 * model.width / self.learning_rate  # of the way back: more in one step would overshoot
        back = self._pull_back(loss.total, model.width).to(theta.dtype).clamp(max=half)
        for samples in self._steps(loss, random):
            direction = _ascent(model, here, loss.features, samples)
            direction.addcmul_(here - start, back[:, None, None], value=-1)
            here = torch.addcmul(here, direction, rate)
        theta.copy_(here)

    def _pull_back(self, count: Int[Tensor, "B"], width: int) -> Float[Tensor, "B"]:
        """What theta - theta_0 is multiplied by in the gradient: m l2, over n with reduction = sum."""
        n = count.clamp(min=1) if self.reduction == "sum" else torch.ones_like(count)
        return width * self.l2 / n

    def _steps(self, loss: Loss, random: Random) -> Iterator[Iterable[Sample]]:
        """For every step the samples it is over."""
        if self.batch is None:
            return (loss.whole(random.round + 1) for _ in range(self.steps))
        return ([sample] for sample in loss.draw(random, self.batch, self.steps))


def _ascent(
    model: Model, theta: Float[Tensor, "B N P"], features: Float[Tensor, "R F"], samples: Iterable[Sample]
) -> Float[Tensor, "B N P"]:
    """The gradient of the mean log-likelihood of some samples."""
    total, pairs = torch.zeros_like(theta), torch.zeros_like(theta[:, 0, 0])
    for sample in samples:
        rows = features.index_select(0, sample.document.flatten()).unflatten(0, sample.document.shape)
        forward = model.forward(theta, rows.to(theta.dtype))
        total += forward.gradient(sample.pull(forward.scores))
        pairs += sample.pairs
    return total / pairs.clamp(min=1)[:, None, None]
