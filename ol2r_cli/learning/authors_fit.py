"""The fit of the code released by the authors of olRankNet (HCDM/OnlineLearningToRank at bfb9d70,
`models/mlpmodel.py`), to compare with curves that come from it: docs/algorithms/olranknet.md."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from ol2r_cli.config.ranges import Count, NonNegative, Positive, Steps
from ol2r_cli.learning.model import Model
from ol2r_cli.learning.refit import Adam, FeatureCovariance, HistoryLoss, Sample, ascent
from ol2r_cli.tensor.shapes import Bool, Float
from ol2r_cli.tensor.streams import Random

EPSILON = 1e-8  # of Adam, as PyTorch has it


class AuthorsFit:
    """Draws new initial parameters, then takes Adam's steps in `epochs` passes over the pairs so far.

    Every pass goes over a random partition of the pairs into batches of `batch` >= 1; the last batch may be smaller.
    The gradient of a step is that of the mean loss of its batch, plus `l2`/n theta, with `l2` >= 0 and n the number of
    all pairs so far. theta moves by `learning_rate` > 0 times Adam's step.
    """

    def __init__(self, learning_rate: Positive, l2: NonNegative, epochs: Steps, batch: Count):
        self.learning_rate, self.l2, self.epochs, self.batch = learning_rate, l2, epochs, batch

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
        """Replace theta in place, in the replicas that are `moved`; only these and the loss matter to the result."""
        here = model.initial(random, loss.features.shape[1], theta.shape[1]).to(theta).expand_as(theta)
        decay = (self.l2 / loss.terms().clamp(min=1)).to(theta.dtype)[:, None, None]
        adam = Adam(here, EPSILON)
        for sample, active in self._batches(loss, random, moved):
            direction = ascent(model, here, sample.rows(loss.features, here.dtype), sample)
            direction.addcmul_(here, decay, value=-1)
            step = torch.add(here, adam(direction), alpha=self.learning_rate)
            here = torch.where(active[:, None, None], step, here)
        theta.copy_(torch.where(moved[:, None, None], here, theta))

    def _batches(
        self, loss: HistoryLoss, random: Random, moved: Bool[Tensor, "B"]
    ) -> Iterator[tuple[Sample, Bool[Tensor, "B"]]]:
        """Return the batches of all passes, and which replicas take part in each. A replica takes its batches one after
        the other and then no more, so that all that take part have taken equally many steps.

        In pass e pair p of the history comes at the rank of the random number p x `epochs` + e.
        """
        places, count = loss.places(), loss.terms() * moved
        most = places.shape[1]
        ahead = 1 << (most - 1).bit_length()  # the next histories are longer: numbers drawn ahead serve them, too
        chance = random.uniform(ahead * self.epochs, "partition").unflatten(1, (ahead, self.epochs)).mT[..., :most]
        missing = torch.arange(most, device=count.device) >= count[:, None]
        order = chance.masked_fill(missing[:, None], 2.0).argsort(dim=2, stable=True)
        shuffled = places[:, None].expand_as(order).gather(2, order).flatten(1)
        whole, rest = count // self.batch, count % self.batch
        batches = whole + ((rest > 0) & ((rest >= loss.least_batch * self.batch) | (whole == 0)))
        slot = torch.arange(min(self.batch, most), device=count.device)
        for step in range(self.epochs * int(batches.max())):
            epoch, number = step // batches.clamp(min=1), step % batches.clamp(min=1)
            active = epoch < self.epochs * (batches > 0)
            rank = (number * self.batch)[:, None] + slot
            valid = (rank < count[:, None]) & active[:, None]
            size = int(valid.sum(1).max())  # the longest batch of the replicas may be shorter
            rank, valid = rank[:, :size], valid[:, :size]
            place = shuffled.gather(1, (epoch * most)[:, None] * active[:, None] + rank.clamp(max=most - 1))
            yield loss.pair_sample(place, valid), active
