"""Rankers that fit a network to all feedback so far: olRankNet and olLambdaRank (Jia and Wang, 2022, section 3)."""

from __future__ import annotations

import torch
from torch import Tensor

from ol2r_cli.feedback import check_pairs, most_pairs
from ol2r_cli.host import on_host
from ol2r_cli.interfaces import Interaction, Oracle, Sizes
from ol2r_cli.learning.lambdarank import LambdaRankLoss
from ol2r_cli.learning.model import Model
from ol2r_cli.learning.ranknet import RankNetLoss
from ol2r_cli.learning.refit import GradientRefit
from ol2r_cli.random import Random
from ol2r_cli.ranker.linear import ModelRanker
from ol2r_cli.shapes import Float

LOSSES: dict[str, type[RankNetLoss] | type[LambdaRankLoss]] = {"ranknet": RankNetLoss, "lambdarank": LambdaRankLoss}


class RefittedRanker(ModelRanker):
    """A model that takes gradient steps on the whole history after every `every`-th round, where it has grown since.

    `loss` is `ranknet` or `lambdarank`; `pairs` is how clicks become preferences (matching, adjacent, all); `steps`,
    `learning_rate`, `batch`, `restart`, `l2` and `reduction` as in `GradientRefit`.
    """

    members = 1

    theta: Tensor
    start: Tensor
    rounds: Tensor
    waiting: Tensor

    def __init__(
        self,
        model: Model,
        loss: str,
        pairs: str,
        l2: float,
        reduction: str,
        steps: int,
        learning_rate: float,
        batch: int | None,
        restart: bool,
        every: int,
    ):
        super().__init__(model)
        if loss not in LOSSES:
            raise ValueError(f"ranker.loss must be one of {', '.join(LOSSES)}, got {loss!r}")
        if every < 1:
            raise ValueError(f"ranker.every must be 1 or more, got {every}")
        self.pairs, self.every = check_pairs(pairs), every
        self.loss = LOSSES[loss]()
        self.refit = GradientRefit(steps, learning_rate, batch, restart, l2, reduction)

    def setup(self, sizes: Sizes, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """Every member starts at initial parameters of its own."""
        initial = self.model.initial(sizes.random, sizes.features, self.members)
        theta = initial.to(sizes.device, sizes.dtype).expand(sizes.replicas, -1, -1).contiguous()
        self.register_buffer("start", theta)
        self.register_buffer("theta", theta.clone())
        self.register_buffer("rounds", torch.zeros((), dtype=torch.int64))
        self.register_buffer("waiting", torch.zeros(sizes.replicas, dtype=torch.bool, device=sizes.device))
        self.loss.setup(sizes, features, most_pairs(self.pairs, sizes.positions))

    def weights(self) -> Float[Tensor, "B N P"]:
        """Parameters of every member."""
        return self.theta

    def learn(self, interaction: Interaction, random: Random) -> None:
        """Remember the round, and fit where there is something new to learn from."""
        self.waiting |= self.loss.append(interaction)
        self.rounds += 1
        if int(self.rounds) % self.every == 0 and (not on_host(self.waiting) or self.waiting.any()):
            self.refit(self.theta, self.start, self.model, self.loss, random, self.waiting)
            self.waiting.zero_()
