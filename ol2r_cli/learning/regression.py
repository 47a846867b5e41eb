"""Least squares over all documents shown so far: exactly for a linear score, by gradient steps for any model.

Both look for the parameters that minimise

    1/2 sum over shown documents of (f(x) - y)^2  +  m l2/2 |theta - theta_0|^2,

with m the width of the model (1 where it is linear) and theta_0 its initial parameters (0 where it is linear).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from ol2r_cli.host import on_host
from ol2r_cli.interfaces import Interaction, Sizes
from ol2r_cli.learning.inverse import add_outer_products
from ol2r_cli.learning.model import Model
from ol2r_cli.learning.refit import GradientRefit, Sample
from ol2r_cli.learning.room import ByRound
from ol2r_cli.random import Random
from ol2r_cli.rows import pick
from ol2r_cli.shapes import Bool, Float, Int


class RidgeRegression(nn.Module):
    """Of a linear score: theta = A^-1 b with A = l2 I + sum x x^T and b = sum y x, brought up to date in O(K F^2) a
    round. `l2` > 0."""

    theta: Tensor
    inverse: Tensor
    moment: Tensor

    def __init__(self, l2: float):
        super().__init__()
        self.l2 = l2

    def setup(self, sizes: Sizes, features: Float[Tensor, "N F"]) -> None:
        """Start at theta = 0."""
        place: dict[str, Any] = {"dtype": sizes.dtype, "device": sizes.device}
        self.register_buffer("theta", torch.zeros(sizes.replicas, 1, sizes.features, **place))
        self.register_buffer("moment", torch.zeros(sizes.replicas, sizes.features, **place))
        inverse = torch.eye(sizes.features, **place) / self.l2
        self.register_buffer("inverse", inverse.expand(sizes.replicas, -1, -1).clone())

    def learn(self, interaction: Interaction, target: Float[Tensor, "B K"], random: Random) -> None:
        """Add what was shown; `target` is 0 elsewhere."""
        rows = pick(interaction.candidates.features, interaction.ranking) * interaction.shown[:, :, None]
        add_outer_products(self.inverse, rows)
        self.moment += torch.bmm(target[:, None], rows).squeeze(1)
        torch.bmm(self.moment[:, None], self.inverse, out=self.theta)


class ShownDocuments(ByRound):
    """The squared loss over every document shown so far and its target, as `GradientRefit` wants it.

    Replica b owns the first count[b]; one place beyond takes what is not there.
    """

    chunk = 4096  # documents worked on at once when the whole history is
    by_round = ("document", "target")

    document: Tensor
    target: Tensor
    count: Tensor

    def setup(self, sizes: Sizes, features: Float[Tensor, "N F"]) -> None:
        """Reserve room for K documents in each of the run's rounds."""
        self.features = features.to(sizes.device)
        self.per_round = min(sizes.positions, sizes.documents)
        self.capacity = sizes.rounds * self.per_round
        shape = sizes.replicas, self.capacity + 1
        place: dict[str, Any] = {"device": sizes.device}
        self.register_buffer("document", torch.zeros(shape, dtype=torch.int32, **place))
        self.register_buffer("target", torch.zeros(shape, dtype=sizes.dtype, **place))
        self.register_buffer("count", torch.zeros(sizes.replicas, dtype=torch.int64, **place))
        self.replica = torch.arange(sizes.replicas, device=sizes.device)[:, None]

    @property
    def total(self) -> Int[Tensor, "B"]:
        """Number of documents."""
        return self.count

    def append(self, interaction: Interaction, target: Float[Tensor, "B K"]) -> Bool[Tensor, "B"]:
        """Remember what was shown; says where anything was."""
        shown = interaction.shown
        place = torch.where(shown, self.count[:, None] + shown.cumsum(1) - 1, self.capacity)
        self.document[self.replica, place] = interaction.candidates.document.gather(1, interaction.ranking).int()
        self.target[self.replica, place] = target
        self.count += shown.sum(1)
        return shown.any(1)

    def draw(self, random: Random, size: int, steps: int) -> Iterator[Sample]:
        """For each step `size` documents, each of them any with the same probability."""
        for part in random.uniform(size * steps, "batch").split(size, dim=1):
            yield self._sample((part * self.count[:, None]).long())

    def whole(self, rounds: int | None = None) -> Iterator[Sample]:
        """The whole history, in parts; who says how many rounds that is need not ask a GPU."""
        most = int(self.count.max()) if rounds is None or on_host(self.count) else rounds * self.per_round
        for start in range(0, most, self.chunk):
            index = torch.arange(start, min(start + self.chunk, most), device=self.count.device)
            yield self._sample(index.expand(len(self.count), -1))

    def _sample(self, index: Int[Tensor, "B X"]) -> Sample:
        valid, target = index < self.count[:, None], self.target[self.replica, index]

        def pull(scores: Float[Tensor, "B N X"]) -> Float[Tensor, "B N X"]:
            return (target[:, None] - scores) * valid[:, None]

        return Sample(self.document[self.replica, index], pull, valid.sum(1).to(torch.float32))


class GradientRegression(nn.Module):
    """Of any model, from its initial parameters: `refit` after every round, on all of the history or a draw from it."""

    theta: Tensor
    start: Tensor

    def __init__(self, model: Model, refit: GradientRefit):
        super().__init__()
        self.model, self.refit, self.history = model, refit, ShownDocuments()

    def setup(self, sizes: Sizes, features: Float[Tensor, "N F"]) -> None:
        """Start at the model's initial parameters."""
        initial = self.model.initial(sizes.random, sizes.features, 1)
        theta = initial.to(sizes.device, sizes.dtype).expand(sizes.replicas, -1, -1).contiguous()
        self.register_buffer("start", theta)
        self.register_buffer("theta", theta.clone())
        self.history.setup(sizes, features)

    def learn(self, interaction: Interaction, target: Float[Tensor, "B K"], random: Random) -> None:
        """Add what was shown, and take the steps."""
        some = self.history.append(interaction, target)
        self.refit(self.theta, self.start, self.model, self.history, random, some)
