"""Gradient descent on all feedback so far (olRankNet, 2022, equation 3.1 and Algorithm 1): plain steps, preconditioned
ones, and the steps of Adam (Kingma and Ba, ICLR 2015)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ol2r_cli.interfaces import Candidates, RunContext
from ol2r_cli.learning.covariance import inverse_of
from ol2r_cli.learning.history import CountedBuffer
from ol2r_cli.learning.model import Model
from ol2r_cli.tensor.gather import unique_rows
from ol2r_cli.tensor.shapes import Bool, Float, Int
from ol2r_cli.tensor.streams import Random


class Adam:
    """Steps of about 1 in every parameter: the moving mean of the gradient over the root of its moving mean square.

    `epsilon` > 0 is added to the root. It keeps steps small where all gradients have been smaller than that.
    """

    MEAN, SQUARE = 0.9, 0.999  # beta_1 and beta_2

    def __init__(self, like: Float[Tensor, "*P"], epsilon: float):
        self.mean, self.square, self.steps = torch.zeros_like(like), torch.zeros_like(like), 0
        self.epsilon = epsilon

    def __call__(self, gradient: Float[Tensor, "*P"]) -> Float[Tensor, "*P"]:
        """Return the next step, both means being corrected for their start at 0."""
        self.steps += 1
        self.mean.lerp_(gradient, 1 - self.MEAN)
        self.square.lerp_(gradient.square(), 1 - self.SQUARE)
        root = (self.square / (1 - self.SQUARE**self.steps)).sqrt_()
        return self.mean / (1 - self.MEAN**self.steps) / root.add_(self.epsilon)


SQUARINGS = 10  # of a matrix whose largest eigenvalue is sought


class FeatureCovariance(nn.Module):
    """C, the second moment of the difference between the features of two documents of a query, over the rounds so far:
    twice their covariance within a query, averaged over rounds. Clicks have no part in it.

    The preconditioner is P = (1 + d) M^-1 with M = C / c + d I, d = `damping` > 0 and c the largest eigenvalue of C to
    within .04 %; rates are divided by c. The step along the direction in which documents differ most is 1 / c, so that
    a learning rate means the same whatever the scale of the features; along one in which they hardly differ it is
    (1 + d) / d times as long.
    """

    total: Tensor
    rounds: Tensor

    def __init__(self, damping: float):
        super().__init__()
        self.damping = damping

    def setup(self, context: RunContext) -> None:
        shape = context.replicas, context.features, context.features
        self.register_buffer("total", torch.zeros(shape, dtype=torch.float64, device=context.device))
        self.register_buffer("rounds", torch.zeros((), dtype=torch.int64))

    def observe(self, candidates: Candidates) -> None:
        mask = candidates.mask[:, :, None]
        count = mask.sum(1, keepdim=True)
        features = candidates.features * mask
        centred = (features - features.sum(1, keepdim=True) / count) * mask
        self.total += 2 * torch.bmm(centred.mT, centred) / (count - 1).clamp(min=1)
        self.rounds += 1

    def damped(self) -> tuple[Float[Tensor, "B F F"], Float[Tensor, "B"]]:
        """Return M and 1 / c; where no two documents have differed yet c is 1.

        c is tr C^(n+1) / tr C^n for n = 2^`SQUARINGS`, which no GPU has to be waited for.
        """
        moment = self.total / max(1, int(self.rounds))
        power = moment
        for squaring in range(SQUARINGS + 1):
            power = torch.bmm(power, power) if squaring else power
            trace = power.diagonal(dim1=1, dim2=2).sum(1)[:, None, None]
            power = power / torch.where(trace > 0, trace, 1.0)
        largest = (moment * power).sum((1, 2))
        largest = torch.where(largest > 0, largest, 1.0)
        damped = moment / largest[:, None, None]
        damped.diagonal(dim1=1, dim2=2).add_(self.damping)
        return damped, largest.reciprocal()


class Sample(NamedTuple):
    """Some terms of a loss: their documents, and how the documents' scores should move to make the loss smaller."""

    document: Int[Tensor, "B X"]  # rows of the document table
    pull: Callable[[Tensor], Tensor]  # scores [B N X] to the gradient [B N X] of the log-likelihood
    pairs: Float[Tensor, "B"]  # number of pairs (regression: documents) in the sample, or what they weigh

    def rows(self, features: Float[Tensor, "R F"], dtype: torch.dtype) -> Float[Tensor, "B X F"]:
        """Return the documents' features."""
        return features.index_select(0, self.document.flatten()).unflatten(0, self.document.shape).to(dtype)


class HistoryLoss(CountedBuffer):
    """A loss over all feedback so far. An entry is a pair, a list or a document; replicas have histories of their own.

    A subclass says in `sample` what some entries pull.
    """

    chunk = 4096  # entries worked on at once when the whole history is used

    features: Tensor  # the document table [N F]

    def terms(self) -> Int[Tensor, "B"] | Float[Tensor, "B"]:
        """Return the number of terms of the loss so far: pairs, or documents of a regression; what they weigh, if pairs
        are forgotten."""
        return self.mass

    def draw(self, random: Random, size: int, steps: int) -> Iterator[Sample]:
        """Yield for each step `size` entries of the history, drawn uniformly with replacement; with a window, of it."""
        first = self.first[:, None]
        for part in random.uniform(size * steps, "batch").split(size, dim=1):
            yield self.sample(first + (part * (self.count[:, None] - first)).long())

    def whole(self) -> Iterator[Sample]:
        """Yield the whole history, in parts of `chunk` entries."""
        most = int(self.count.max())
        for start in range(int(self.first.min()), most, self.chunk):
            index = torch.arange(start, min(start + self.chunk, most), device=self.count.device)
            yield self.sample(index.expand(len(self.count), -1))

    def once(self) -> Sample:
        """Return the whole history, with each document once: however many terms it is in, the network has one pass over
        it."""
        parts = list(self.whole()) or [self.sample(self.first[:, None][:, :0])]
        document, place_of_each = unique_rows(torch.cat([part.document for part in parts], 1))
        places = place_of_each.split([part.document.shape[1] for part in parts], 1)

        def pull(scores: Float[Tensor, "B N X"]) -> Float[Tensor, "B N X"]:
            total = torch.zeros_like(scores)
            for part, place in zip(parts, places, strict=True):
                index = place[:, None].expand(-1, scores.shape[1], -1)
                total.scatter_add_(2, index, part.pull(scores.gather(2, index)))
            return total

        return Sample(document, pull, torch.stack([part.pairs for part in parts]).sum(0))

    def sample(self, index: Int[Tensor, "B X"]) -> Sample:
        """Return the entries with these numbers; those from `count` on pull nothing."""
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
    as large as its features. P is that of a `FeatureCovariance`, which also scales r, or I.
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
        covariance: FeatureCovariance | None = None,
    ) -> None:
        """Move theta in place, in the replicas that are `moved`; `start` is theta_0."""
        count = loss.terms()
        rate = torch.full_like(count, self.learning_rate / model.width, dtype=torch.float64)
        if covariance is not None:
            damped, scale = covariance.damped()
            rate *= scale
        n = torch.where(count > 0, count, 1) if self.reduction == "sum" else torch.ones_like(count)
        pull = rate * (model.width * self.l2 / n)  # r b
        gain, back = (factor.to(theta.dtype)[:, None, None] for factor in (rate / (1 + pull), pull / (1 + pull)))
        if covariance is not None:  # (1 + r b) (I + r b P)^-1 P
            damped.diagonal(dim1=1, dim2=2).add_(pull[:, None] * (1 + covariance.damping))
            gaining = (inverse_of(damped) * ((1 + pull) * (1 + covariance.damping))[:, None, None]).to(theta.dtype)
        moving = torch.zeros_like(theta) if self.restart else theta - start
        drawn: Iterable[Sample] = [loss.once()] if self.batch is None else loss.draw(random, self.batch, self.steps)
        looked_up = ((sample, sample.rows(loss.features, theta.dtype)) for sample in drawn)
        for sample, rows in looked_up if self.batch is not None else repeat(next(looked_up), self.steps):
            step = ascent(model, start + moving, rows, sample) * gain - moving * back
            moving = moving + (step if covariance is None else model.on_features(step, gaining))
        theta.copy_(torch.where(moved[:, None, None], start + moving, theta))


AT_ONCE = 2048  # documents whose hidden layers are worked on together: they should fit a cache


def ascent(
    model: Model, theta: Float[Tensor, "B N P"], rows: Float[Tensor, "B X F"], sample: Sample
) -> Float[Tensor, "B N P"]:
    """Return the gradient of the mean log-likelihood of a sample, weighted where it is; `rows` are its documents'
    features."""
    parts = [model.forward(theta, part) for part in rows.split(AT_ONCE, 1)]
    pull = sample.pull(torch.cat([part.scores for part in parts], 2)).split(AT_ONCE, 2)
    slope = sum(part.gradient(weights) for part, weights in zip(parts, pull, strict=True))
    return slope / torch.where(sample.pairs > 0, sample.pairs, 1)[:, None, None]
