"""Losses over all preferences so far: RankNet (Burges et al., ICML 2005; olRankNet, 2022, equation 3.1) and LambdaRank
(Burges, Ragno and Le, NIPS 2006; Burges, 2010), on preferences inferred from clicks or on true labels."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ol2r_cli.interfaces import Interaction, Oracle, RunContext
from ol2r_cli.learning.history import PairLog
from ol2r_cli.learning.refit import HistoryLoss, Sample
from ol2r_cli.metrics.ranking import discounts, gains
from ol2r_cli.tensor.gather import cached_arange
from ol2r_cli.tensor.shapes import Bool, Float, Int

GUARD = 10.0  # difference of scores from which label noise no longer pulls: else the loss has no lower bound


class RankNetLoss(PairLog, HistoryLoss):
    """Cross-entropies -log sigma(s_winner - s_loser), each with the label 1, or 1 + noise where `noise` is given.

    `noise` maps pairs [B X], by their number in the history, to label noise [B N X]. The entries are pairs.
    """

    noise: Callable[[Tensor], Tensor] | None = None

    def append(self, interaction: Interaction) -> Bool[Tensor, "B"]:
        """Remember the round's preferences; returns the replicas that have any."""
        self.remember(interaction.candidates.document, interaction.preferences, self.rows)
        return interaction.preferences.valid.any(1)

    def sample(self, index: Int[Tensor, "B X"]) -> Sample:
        """Return pairs of the history: first all winners, then all losers."""
        valid = (index < self.count[:, None])[:, None]
        if self.forgets:
            valid = valid * self.weights(self.replica, index)[:, None]
        document = self.pairs[self.replica, index].mT.flatten(1)
        noise = None if self.noise is None else self.noise(index)

        def pull(scores: Float[Tensor, "B N Y"]) -> Float[Tensor, "B N Y"]:
            winner, loser = scores.tensor_split(2, dim=2)
            push = torch.sigmoid(loser - winner)
            if noise is not None:
                push = push + noise * ((winner - loser).abs() < GUARD)
            push = push * valid
            return torch.cat([push, -push], dim=2)

        return Sample(document, pull, valid.sum((1, 2)).to(torch.float32))


class LambdaRankLoss(HistoryLoss):
    """RankNet's gradient of every pair, times |delta NDCG| of swapping the two in the list of their round.

    A list holds the documents shown, in the order of their present scores (equal ones as they were shown); its gains
    are the clicks, 0 or 1, and its ideal DCG is that of the same clicks. The entries are lists; rounds without a pair
    are not kept.
    """

    chunk = 512

    shown: Tensor
    clicks: Tensor
    pairs: Tensor
    total: Tensor  # number of pairs

    def setup(self, context: RunContext, features: Float[Tensor, "N F"], per_round: int) -> None:
        """Reserve room for a list of at most `per_round` pairs in each of the run's rounds."""
        self.features = features.to(context.device)
        self.reserve(context, context.rounds, 1)
        positions = min(context.positions, context.documents)
        self.register_entries("shown", torch.int32, positions, fill=-1)
        self.register_entries("clicks", torch.bool, positions)
        self.register_entries("pairs", torch.int8, per_round, 2, fill=-1)
        self.register_buffer("total", torch.zeros_like(self.count))

    def terms(self) -> Int[Tensor, "B"] | Float[Tensor, "B"]:
        """Return the number of pairs, or what they weigh: each as its list."""
        if not self.forgets:
            return self.total
        weights = self.weights(slice(None), slice(self.capacity)).double()
        kept = cached_arange(self.capacity, self.count.device) < self.count[:, None]
        terms = ((self.pairs[:, : self.capacity, :, 0] >= 0).sum(2) * (weights * kept)).sum(1)
        return terms if self.forgetting.discount < 1 else terms.long()

    def append(self, interaction: Interaction) -> Bool[Tensor, "B"]:
        """Remember the list, its clicks, and the places of the documents that the round's preferences compare; returns
        the replicas that have preferences."""
        ranking, preferences = interaction.ranking, interaction.preferences
        has_pairs, length = preferences.valid.any(1), ranking.shape[1]
        replica, row = self.replica[:, 0], torch.where(has_pairs, self.count, self.capacity)
        document = interaction.candidates.document.gather(1, ranking).masked_fill(~interaction.shown, -1)
        self.shown[replica, row, :length] = document.int()
        self.shown[replica, row, length:] = -1
        self.clicks[replica, row, :length] = interaction.clicks
        both = torch.stack([preferences.winner, preferences.loser], dim=2)
        place = (ranking[:, None, None] == both[..., None]).int().argmax(3)
        most = place.shape[1]
        self.pairs[replica, row, :most] = place.masked_fill(~preferences.valid[..., None], -1).to(torch.int8)
        self.pairs[replica, row, most:] = -1
        self.count += has_pairs
        self.total += preferences.valid.sum(1)
        if self.forgets:
            self.pass_round(has_pairs[:, None])
        return has_pairs

    def sample(self, index: Int[Tensor, "B X"]) -> Sample:
        counted = (self.pairs[self.replica, index, :, 0] >= 0) & (index < self.count[:, None])[..., None]
        if self.forgets:  # a pair counts as its list
            counted = counted * self.weights(self.replica, index)[..., None]
        shown, clicks = self.shown[self.replica, index], self.clicks[self.replica, index]
        winner, loser = self.pairs[self.replica, index].long().clamp(min=0).unbind(-1)
        gain = clicks.to(self.dtype)
        worth = (gain.gather(2, winner) - gain.gather(2, loser)).abs_() * counted / largest_dcg(gain)

        def pull(scores: Float[Tensor, "B N Y"]) -> Float[Tensor, "B N Y"]:
            lists = scores.unflatten(2, shown.shape[1:])
            up, down = (end[:, None].expand(-1, lists.shape[1], -1, -1) for end in (winner, loser))
            discount = discounts_of(lists, (shown >= 0)[:, None])
            weight = torch.sigmoid(lists.gather(3, down) - lists.gather(3, up)) * worth[:, None]
            weight *= (discount.gather(3, up) - discount.gather(3, down)).abs_()
            return torch.zeros_like(lists).scatter_add_(3, up, weight).scatter_add_(3, down, -weight).flatten(2)

        return Sample(shown.clamp(min=0).flatten(1), pull, counted.sum((1, 2)).to(torch.float32))


# If two documents of a list swap places, its NDCG changes by the product of the differences of their gains and of their
# discounts, over the ideal DCG.


def discounts_of(scores: Float[Tensor, "*S K"], real: Bool[Tensor, "*T K"]) -> Float[Tensor, "*S K"]:
    """Return each document's discount at its rank by score, equal ones in the order given and those that are not `real`
    last."""
    length = scores.shape[-1]
    order = scores.masked_fill(~real, float("-inf")).argsort(stable=True, dim=-1, descending=True)
    discount = discounts(length, scores.device).to(scores.dtype).expand_as(scores)
    return torch.empty_like(scores).scatter_(-1, order, discount)


def largest_dcg(gains: Float[Tensor, "*T K"]) -> Float[Tensor, "*T 1"]:
    """Return the largest DCG of any order, above 0; padding has gain 0."""
    discount = discounts(gains.shape[-1], gains.device).to(gains.dtype)
    ideal = (gains.sort(-1, descending=True).values * discount).sum(-1, keepdim=True)
    return ideal.clamp(min=torch.finfo(ideal.dtype).tiny)


CELLS = 1 << 18  # pairs of documents worked on at once: they should fit a cache


class LabelledLists:
    """The training queries, each a list of all its documents; any two documents of different labels are a pair.

    `weighed` selects LambdaRank, in which a pair counts |delta NDCG|; in RankNet it counts 1. `pairs` [Q] is the number
    of pairs of each query.
    """

    def __init__(self, oracle: Oracle, weighed: bool, device: torch.device):
        self.weighed = weighed
        self.labels = oracle.labels.to(device)
        self.start, self.length = oracle.start.to(device), oracle.length.to(device)
        slots = torch.arange(int(oracle.length.max()))
        real = slots < oracle.length[:, None]
        label = oracle.labels[(oracle.start[:, None] + slots) * real].masked_fill(~real, -1)
        equal = sum((label == grade).sum(1) ** 2 for grade in range(int(label.max()) + 1))
        self.pairs = ((oracle.length**2 - equal) // 2).to(device)  # all pairs less those within each grade

    def rows(
        self, query: Int[Tensor, "B X"], counted: Bool[Tensor, "B X"]
    ) -> tuple[Int[Tensor, "B X D"], Int[Tensor, "B X D"]]:
        """Return documents and labels of some queries; padding, and lists that are not `counted`, have label -1."""
        length = self.length[query] * counted
        slots = cached_arange(max(1, int(length.max())), query.device)
        real = slots < length[..., None]
        document = (self.start[query][..., None] + slots) * real
        return document, self.labels[document].masked_fill(~real, -1)

    def sample(self, query: Int[Tensor, "B X"], counted: Bool[Tensor, "B X"]) -> Sample:
        """Return the terms of these queries; those that are not `counted` pull nothing."""
        document, label = self.rows(query, counted)

        def pull(scores: Float[Tensor, "B N Y"]) -> Float[Tensor, "B N Y"]:
            lists = scores.unflatten(2, label.shape[1:])
            at_once = max(1, CELLS // (len(lists) * lists.shape[1] * lists.shape[3] ** 2))
            parts = zip(lists.split(at_once, 2), label[:, None].split(at_once, 2), strict=True)
            return torch.cat([_forces(score, labels, self.weighed) for score, labels in parts], 2).flatten(2)

        return Sample(document.flatten(1), pull, (self.pairs[query] * counted).sum(1).to(torch.float32))


class LabelledLoss(HistoryLoss):
    """The loss over the lists of the queries served so far. A query that is served twice counts twice.

    The entries are queries; those without a pair are not kept.
    """

    chunk = 64

    served: Tensor
    total: Tensor  # number of pairs

    def __init__(self, oracle: Oracle, weighed: bool):
        super().__init__()
        self.oracle, self.weighed = oracle, weighed

    def setup(self, context: RunContext, features: Float[Tensor, "N F"], per_round: int) -> None:
        self.features = features.to(context.device)
        self.reserve(context, context.rounds, 1)
        self.lists = LabelledLists(self.oracle, self.weighed, context.device)
        self.register_entries("served", torch.int32)
        self.register_buffer("total", torch.zeros_like(self.count))

    def terms(self) -> Int[Tensor, "B"]:
        return self.total

    def append(self, interaction: Interaction) -> Bool[Tensor, "B"]:
        """Remember the query served, whatever was shown and clicked; returns the replicas whose query has a pair."""
        query = interaction.candidates.query
        has_pairs = self.lists.pairs[query] > 0
        self.served[self.replica[:, 0], torch.where(has_pairs, self.count, self.capacity)] = query.int()
        self.count += has_pairs
        self.total += self.lists.pairs[query]
        return has_pairs

    def sample(self, index: Int[Tensor, "B X"]) -> Sample:
        query = self.served[self.replica, index].long()
        return self.lists.sample(query, index < self.count[:, None])


def _forces(scores: Float[Tensor, "B N X D"], label: Int[Tensor, "B 1 X D"], weighed: bool) -> Float[Tensor, "B N X D"]:
    """Return the gradient of the log-likelihood with respect to each score: the sum of sigma(s_j - s_i) over the pairs
    (i, j) that the document wins, less the sum over those that it loses; `weighed` by |delta NDCG|."""
    real = label >= 0
    pair = (label[..., :, None] > label[..., None, :]) & real[..., None, :]
    weight = torch.sigmoid(scores[..., None, :] - scores[..., :, None]) * pair
    if weighed:
        worth = gains(label.clamp(min=0)).to(scores.dtype)
        gain, discount = (value[..., :, None] - value[..., None, :] for value in (worth, discounts_of(scores, real)))
        weight *= (gain * discount).abs_() / largest_dcg(worth)[..., None]
    return weight.sum(-1) - weight.sum(-2)
