"""RankNet and LambdaRank on true labels: what skylines learn from (Burges, "From RankNet to LambdaRank to LambdaMART",
2010)."""

from __future__ import annotations

import torch
from torch import Tensor

from ol2r_cli.interfaces import Interaction, Oracle, RunContext
from ol2r_cli.learning.losses import Standing
from ol2r_cli.learning.refit import HistoryLoss, Sample
from ol2r_cli.metrics.ranking import gains
from ol2r_cli.tensor.gather import cached_arange
from ol2r_cli.tensor.shapes import Bool, Float, Int
from ol2r_cli.tensor.synchronisation import is_host_readable

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
        self.longest = int(oracle.length.max())
        self.pairs = _pairs(oracle).to(device)

    def rows(
        self, query: Int[Tensor, "B X"], counted: Bool[Tensor, "B X"]
    ) -> tuple[Int[Tensor, "B X D"], Int[Tensor, "B X D"]]:
        """Documents and labels of some queries; padding, and lists that are not `counted`, have label -1."""
        length = self.length[query] * counted
        slots = cached_arange(max(1, int(length.max())) if is_host_readable(length) else self.longest, query.device)
        real = slots < length[..., None]
        document = (self.start[query][..., None] + slots) * real
        return document, self.labels[document].masked_fill(~real, -1)

    def sample(self, query: Int[Tensor, "B X"], counted: Bool[Tensor, "B X"]) -> Sample:
        """The terms of these queries; those that are not `counted` pull nothing."""
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
        """Reserve room for one query in each of the run's rounds."""
        self.features = features.to(context.device)
        self.reserve(context, context.rounds, 1)
        self.lists = LabelledLists(self.oracle, self.weighed, context.device)
        shape, device = (context.replicas, context.rounds + 1), context.device
        self.register_buffer("served", torch.zeros(shape, dtype=torch.int32, device=device))
        self.register_buffer("total", torch.zeros(context.replicas, dtype=torch.int64, device=device))

    def terms(self) -> Int[Tensor, "B"]:
        """Number of pairs."""
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
        """Lists of the queries served, one after the other."""
        query = self.served[self.replica, index].long()
        return self.lists.sample(query, index < self.count[:, None])


def _pairs(oracle: Oracle) -> Int[Tensor, "Q"]:
    """Number of pairs of different labels of each query: n (n - 1) / 2 less the pairs within each grade."""
    slots = torch.arange(int(oracle.length.max()))
    real = slots < oracle.length[:, None]
    label = oracle.labels[(oracle.start[:, None] + slots) * real].masked_fill(~real, -1)
    equal = sum((label == grade).sum(1) ** 2 for grade in range(int(label.max()) + 1))
    return (oracle.length**2 - equal) // 2


def _forces(scores: Float[Tensor, "B N X D"], label: Int[Tensor, "B 1 X D"], weighed: bool) -> Float[Tensor, "B N X D"]:
    """The gradient of the log-likelihood with respect to each score: the sum of sigma(s_j - s_i) over the pairs (i, j)
    that the document wins, less the sum over those that it loses; `weighed` by |delta NDCG|."""
    real = label >= 0
    pair = (label[..., :, None] > label[..., None, :]) & real[..., None, :]
    weight = torch.sigmoid(scores[..., None, :] - scores[..., :, None]) * pair
    if weighed:
        standing = Standing.of(scores, gains(label.clamp(min=0)).to(scores.dtype), real)
        swap = _differences(standing.gain) * _differences(standing.discount)
        weight *= swap.abs_() / standing.ideal[..., None].clamp(min=torch.finfo(scores.dtype).tiny)
    return weight.sum(-1) - weight.sum(-2)


def _differences(values: Float[Tensor, "*S D"]) -> Float[Tensor, "*S D D"]:
    """[.., i, j]: v_i - v_j."""
    return values[..., :, None] - values[..., None, :]
