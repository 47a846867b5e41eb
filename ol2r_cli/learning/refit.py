"""Gradient descent on all feedback so far (olRankNet, 2022, equation 3.1 and Algorithm 1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from ol2r_cli.learning.history import CountedBuffer
from ol2r_cli.learning.model import Model
from ol2r_cli.learning.preconditioner import Preconditioner
from ol2r_cli.tensor.shapes import Bool, Float, Int
from ol2r_cli.tensor.streams import Random
from ol2r_cli.tensor.synchronisation import is_host_readable


class Sample(NamedTuple):
    """Some terms of a loss: their documents, and how the documents' scores should move to make the loss smaller."""

    document: Int[Tensor, "B X"]  # rows of the document table
    pull: Callable[[Tensor], Tensor]  # scores [B N X] to the gradient [B N X] of the log-likelihood
    pairs: Float[Tensor, "B"]  # number of pairs (regression: documents) in the sample, or what they weigh


class HistoryLoss(CountedBuffer):
    """A loss over all feedback so far. An entry is a pair, a list or a document; replicas have histories of their own.

    A subclass says in `sample` what some entries pull. One whose terms are pairs inferred from clicks says in `places`
    and `pair_sample` what single pairs pull, whatever its entries are: `AuthorsFit` needs it.
    """

    chunk = 4096  # entries worked on at once when the whole history is used
    least_batch = 0.0  # the last batch of an epoch of `AuthorsFit` is left out below this share, unless it is the first

    features: Tensor  # the document table [N F]

    def terms(self) -> Int[Tensor, "B"] | Float[Tensor, "B"]:
        """Number of terms of the loss so far: pairs, or documents of a regression; what they weigh, if pairs are
        forgotten."""
        return self.mass

    def draw(self, random: Random, size: int, steps: int) -> Iterator[Sample]:
        """For each step `size` entries of the history, drawn uniformly with replacement; with a window, of it."""
        first = self.first[:, None] if self.forgets else 0
        for part in random.uniform(size * steps, "batch").split(size, dim=1):
            yield self.sample(first + (part * (self.count[:, None] - first)).long())

    def whole(self, rounds: int | None = None) -> Iterator[Sample]:
        """The whole history, in parts of `chunk` entries. With `rounds`, the number played, no GPU is read."""
        most = self.most(rounds)
        first = int(self.first.min()) if self.forgets and is_host_readable(self.count) else 0
        for start in range(first, most, self.chunk):
            index = torch.arange(start, min(start + self.chunk, most), device=self.count.device)
            yield self.sample(index.expand(len(self.count), -1))

    def sample(self, index: Int[Tensor, "B X"]) -> Sample:
        """The entries with these numbers; those from `count` on pull nothing."""
        raise NotImplementedError

    def places(self, rounds: int) -> Int[Tensor, "B C"]:
        """Where the pairs of the history are stored, in the order of their rounds; what comes after the first `terms()`
        is arbitrary. C is the largest number of them. On a GPU, which is not read, it may be larger."""
        raise NotImplementedError

    def pair_sample(self, place: Int[Tensor, "B X"], valid: Bool[Tensor, "B X"]) -> Sample:
        """The pairs stored at these `places`; those that are not `valid` pull nothing."""
        raise NotImplementedError


class GradientRefit:
    """Takes J = `steps` steps down the loss + m l2/2 |theta - theta_0|^2, from theta or, with `restart`, from theta_0.

    The loss is the mean over the pairs of a step. `l2` >= 0 is divided by the number n of pairs with `reduction` = sum
    (the paper's objective, over n), and taken as it is with `mean`. `batch` entries of the history are drawn for every
    step; None takes the whole history. With u = theta - theta_0, g the gradient of the log-likelihood, r =
    `learning_rate`/m and b the factor of u in the gradient of the penalty, a step is

        u <- (I + r b P)^-1 (u + r P g),

    that is u + r P (g - b u') where u' is the result: the penalty is taken at the end of the step, so that it never
    overshoots theta_0. The division by m makes it a step in the coordinates sqrt(m) u, in which a network's tangent is
    as large as its features. P is a preconditioner, which also scales r, or I.
    """

    def __init__(self, steps: int, learning_rate: float, batch: int | None, restart: bool, l2: float, reduction: str):
        self.steps, self.learning_rate, self.batch, self.restart = steps, learning_rate, batch, restart
        self.l2, self.reduction = l2, reduction

    def __call__(
        self,
        theta: Float[Tensor, "B N P"],
        start: Float[Tensor, "B N P"],
        model: Model,
        loss: HistoryLoss,
        random: Random,
        moved: Bool[Tensor, "B"],
        precondition: Preconditioner | None = None,
    ) -> None:
        """Move theta in place, in the replicas that are `moved`; `start` is theta_0."""
        rate = torch.full_like(loss.terms(), self.learning_rate / model.width, dtype=torch.float64)
        if precondition is not None:
            rate *= precondition.scale
        pull = rate * self._pull_back(loss.terms(), model.width)
        keep, gain = (factor.to(theta.dtype)[:, None, None] for factor in (1 / (1 + pull), rate / (1 + pull)))
        matrices = () if precondition is None else precondition.matrices(pull, theta.dtype)
        moving = torch.zeros_like(theta) if self.restart else theta - start
        for samples in self._steps(loss, random):
            slope = ascent(model, start + moving, loss.features, samples)
            if matrices:
                moving, slope = model.on_features(moving, matrices[0]), model.on_features(slope, matrices[1])
            moving = moving * keep + slope * gain
        theta.copy_(torch.where(moved[:, None, None], start + moving, theta))

    def _pull_back(self, count: Int[Tensor, "B"] | Float[Tensor, "B"], width: int) -> Float[Tensor, "B"]:
        """The factor of theta - theta_0 in the gradient: m l2, over n with reduction = sum."""
        n = torch.where(count > 0, count, 1) if self.reduction == "sum" else torch.ones_like(count)
        return width * self.l2 / n

    def _steps(self, loss: HistoryLoss, random: Random) -> Iterator[Iterable[Sample]]:
        """The samples of each step."""
        if self.batch is None:
            return (loss.whole(random.round + 1) for _ in range(self.steps))
        return ([sample] for sample in loss.draw(random, self.batch, self.steps))


def ascent(
    model: Model, theta: Float[Tensor, "B N P"], features: Float[Tensor, "R F"], samples: Iterable[Sample]
) -> Float[Tensor, "B N P"]:
    """The gradient of the mean log-likelihood of some samples, weighted where these are."""
    total, pairs = torch.zeros_like(theta), torch.zeros_like(theta[:, 0, 0])
    for sample in samples:
        rows = features.index_select(0, sample.document.flatten()).unflatten(0, sample.document.shape)
        forward = model.forward(theta, rows.to(theta.dtype))
        total += forward.gradient(sample.pull(forward.scores))
        pairs += sample.pairs
    return total / torch.where(pairs > 0, pairs, 1)[:, None, None]
