"""LambdaRank's gradients over all rounds so far (Burges, Ragno and Le, NIPS 2006; olRankNet, 2022, section 5)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ol2r_cli.host import on_host
from ol2r_cli.interfaces import Interaction, Sizes
from ol2r_cli.learning.refit import Sample
from ol2r_cli.learning.room import ByRound
from ol2r_cli.metrics.ndcg import discounts
from ol2r_cli.random import Random
from ol2r_cli.rows import places
from ol2r_cli.shapes import Bool, Float, Int


class LambdaRankLoss(ByRound):
    """RankNet's gradient of every pair, times |delta NDCG| of swapping the two in their round's list.

    A list is what was shown, in the order of its present scores (equal ones: as shown); its gains are the clicks, 0 or
    1, and its ideal DCG is that of the same clicks. Rounds without a pair are not kept: replica b owns the first
    count[b] lists, and one beyond takes what is not.
    """

    chunk = 512  # lists worked on at once when the whole history is
    by_round: tuple[str, ...] = ("shown", "clicks", "pairs")

    shown: Tensor
    clicks: Tensor
    pairs: Tensor
    count: Tensor
    total: Tensor

    def setup(self, sizes: Sizes, features: Float[Tensor, "N F"], per_round: int) -> None:
        """Reserve room for a list of at most `per_round` pairs in each of the run's rounds."""
        self.features = features.to(sizes.device)
        self.capacity = sizes.rounds
        shape = sizes.replicas, sizes.rounds + 1, min(sizes.positions, sizes.documents)
        where: dict[str, Any] = {"device": sizes.device}
        self.register_buffer("shown", torch.full(shape, -1, dtype=torch.int32, **where))
        self.register_buffer("clicks", torch.zeros(shape, dtype=torch.bool, **where))
        self.register_buffer("pairs", torch.full((*shape[:2], per_round, 2), -1, dtype=torch.int8, **where))
        self.register_buffer("count", torch.zeros(sizes.replicas, dtype=torch.int64, **where))
        self.register_buffer("total", torch.zeros(sizes.replicas, dtype=torch.int64, **where))  # of pairs
        self.replica = torch.arange(sizes.replicas, device=sizes.device)

    def append(self, interaction: Interaction) -> Bool[Tensor, "B"]:
        """Remember the list, its clicks, and the places of the documents that the round's preferences compare; says
        where there were any."""
        ranking, preferences = interaction.ranking, interaction.preferences
        some, length = preferences.valid.any(1), ranking.shape[1]
        row = torch.where(some, self.count, self.capacity)
        document = interaction.candidates.document.gather(1, ranking).masked_fill(~interaction.shown, -1)
        self.shown[self.replica, row, :length] = document.int()
        self.shown[self.replica, row, length:] = -1
        self.clicks[self.replica, row, :length] = interaction.clicks
        both = torch.stack([preferences.winner, preferences.loser], dim=2)
        place = (ranking[:, None, None] == both[..., None]).int().argmax(3)
        most = place.shape[1]
        self.pairs[self.replica, row, :most] = place.masked_fill(~preferences.valid[..., None], -1).to(torch.int8)
        self.pairs[self.replica, row, most:] = -1
        self.count += some
        self.total += preferences.valid.sum(1)
        return some

    def draw(self, random: Random, size: int, steps: int) -> Iterator[Sample]:
        """For each step `size` lists of the history, each of them any with the same probability."""
        chance = random.uniform(size * steps, "batch")
        for part in chance.split(size, dim=1):
            yield self._sample((part * self.count[:, None]).long())

    def whole(self, rounds: int | None = None) -> Iterator[Sample]:
        """The whole history, in parts; who says how many rounds that is need not ask a GPU."""
        most = int(self.count.max()) if rounds is None or on_host(self.count) else rounds
        for start in range(0, most, self.chunk):
            index = torch.arange(start, min(start + self.chunk, most), device=self.count.device)
            yield self._sample(index.expand(len(self.count), -1))

    def _sample(self, index: Int[Tensor, "B X"]) -> Sample:
        replica = self.replica[:, None]
        shown, clicks = self.shown[replica, index], self.clicks[replica, index]
        pairs = self.pairs[replica, index].long()
        valid = (pairs[..., 0] >= 0) & (index < self.count[:, None])[..., None]
        winner, loser = pairs.clamp(min=0).unbind(-1)

        def pull(scores: Float[Tensor, "B N Y"]) -> Float[Tensor, "B N Y"]:
            lists = scores.unflatten(2, shown.shape[1:])
            members = lists.shape[1]
            standing = Standing.of(lists, clicks[:, None].to(scores.dtype), shown[:, None] >= 0)
            up, down = (end[:, None].expand(-1, members, -1, -1) for end in (winner, loser))
            lost = torch.sigmoid(lists.gather(3, down) - lists.gather(3, up))
            weight = lost * standing.delta_ndcg(up, down) * valid[:, None]
            return torch.zeros_like(lists).scatter_add_(3, up, weight).scatter_add_(3, down, -weight).flatten(2)

        return Sample(shown.clamp(min=0).flatten(1), pull, valid.sum((1, 2)).to(torch.float32))


class Standing(NamedTuple):
    """Where the documents of a list stand, by document: what each gains, by what its place multiplies it, and the DCG
    of the best order."""

    gain: Float[Tensor, "*S K"]
    discount: Float[Tensor, "*S K"]
    ideal: Float[Tensor, "*T 1"]

    @staticmethod
    def of(scores: Float[Tensor, "*S K"], gains: Float[Tensor, "*T K"], real: Bool[Tensor, "*T K"]) -> Standing:
        """In the order of their scores, equal ones as given; NDCG is over the whole list. Padding, not `real`, has gain
        0."""
        length = scores.shape[-1]
        order = scores.masked_fill(~real, float("-inf")).argsort(stable=True, dim=-1, descending=True)
        discount = discounts(length, scores.device).to(scores.dtype)
        place = torch.empty_like(order).scatter_(-1, order, places(length, order.device).expand_as(order))
        ideal = (gains.sort(-1, descending=True).values * discount).sum(-1, keepdim=True)
        return Standing(gains.expand_as(scores), discount[place], ideal)

    def delta_ndcg(self, first: Int[Tensor, "*S M"], second: Int[Tensor, "*S M"]) -> Float[Tensor, "*S M"]:
        """How much NDCG changes, either way, when two documents of the list change places; 0 where nothing gains."""
        gain = self.gain.gather(-1, first) - self.gain.gather(-1, second)
        discount = self.discount.gather(-1, first) - self.discount.gather(-1, second)
        return (gain * discount).abs() / self.ideal.clamp(min=torch.finfo(self.ideal.dtype).tiny)
