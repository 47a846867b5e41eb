"""RankNet's and LambdaRank's gradients over whole lists with their true labels: what the skylines learn from.

Burges, "From RankNet to LambdaRank to LambdaMART: An Overview" (2010), sections 2 and 4; olLambdaRank GT of olRankNet
(2022), section 5.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ol2r_cli.host import on_host
from ol2r_cli.interfaces import Interaction, Oracle, Sizes
from ol2r_cli.learning.lambdarank import LambdaRankLoss, Standing
from ol2r_cli.learning.refit import Sample
from ol2r_cli.metrics.ndcg import gains
from ol2r_cli.rows import places
from ol2r_cli.shapes import Bool, Float, Int

CELLS = 1 << 18  # pairs of documents worked on at once: they should fit a cache


class LabelledLists:
    """The training queries, each a list of all its documents; any two of different labels are a pair.

    `weighed` tells LambdaRank, whose pairs count |delta NDCG|, from RankNet, whose pairs count 1. `pairs` [Q] is how
    many of them a query has.
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
        slots = places(max(1, int(length.max())) if on_host(length) else self.longest, query.device)
        real = slots < length[..., None]
        document = (self.start[query][..., None] + slots) * real
        return document, self.labels[document].masked_fill(~real, -1)

    def sample(self, query: Int[Tensor, "B X"], counted: Bool[Tensor, "B X"]) -> Sample:
        """What these queries pull at the scores of their documents, where they are `counted`."""
        document, label = self.rows(query, counted)

        def pull(scores: Float[Tensor, "B N Y"]) -> Float[Tensor, "B N Y"]:
            lists = scores.unflatten(2, label.shape[1:])
            at_once = max(1, CELLS // (len(lists) * lists.shape[1] * lists.shape[3] ** 2))
            parts = zip(lists.split(at_once, 2), label[:, None].split(at_once, 2), strict=True)
            return torch.cat([_forces(some, labels, self.weighed) for some, labels in parts], 2).flatten(2)

        return Sample(document.flatten(1), pull, (self.pairs[query] * counted).sum(1).to(torch.float32))


class LabelledLoss(LambdaRankLoss):
    """The loss over the lists of the queries served so far, one list a round: served twice, a query counts twice.

    Queries without a pair are not kept: replica b owns served[b, : count[b]], and one beyond takes what is not.
    """

    chunk = 64  # lists worked on at once when the whole history is
    by_round = ("served",)

    served: Tensor

    def __init__(self, oracle: Oracle, weighed: bool):
        super().__init__()
        self.oracle, self.weighed = oracle, weighed

    def setup(self, sizes: Sizes, features: Float[Tensor, "N F"], per_round: int) -> None:
        """Reserve room for one query in each of the run's rounds."""
        self.features, self.capacity = features.to(sizes.device), sizes.rounds
        self.lists = LabelledLists(self.oracle, self.weighed, sizes.device)
        shape = sizes.replicas, sizes.rounds + 1
        self.register_buffer("served", torch.zeros(shape, dtype=torch.int32, device=sizes.device))
        self.register_buffer("count", torch.zeros(sizes.replicas, dtype=torch.int64, device=sizes.device))
        self.register_buffer("total", torch.zeros(sizes.replicas, dtype=torch.int64, device=sizes.device))  # of pairs
        self.replica = torch.arange(sizes.replicas, device=sizes.device)

    def append(self, interaction: Interaction) -> Bool[Tensor, "B"]:
        """Remember which query was served, and say whether it has a pair; what was shown and clicked is nobody's
        business."""
        query = interaction.candidates.query
        some = self.lists.pairs[query] > 0
        self.served[self.replica, torch.where(some, self.count, self.capacity)] = query.int()
        self.count += some
        self.total += self.lists.pairs[query]
        return some

    def _sample(self, index: Int[Tensor, "B X"]) -> Sample:
        query = self.served[self.replica[:, None], index].long()
        return self.lists.sample(query, index < self.count[:, None])


def _pairs(oracle: Oracle) -> Int[Tensor, "Q"]:
    """How many pairs of different labels each query has: of all n (n - 1) / 2, those of a grade g are not."""
    slots = torch.arange(int(oracle.length.max()))
    real = slots < oracle.length[:, None]
    label = oracle.labels[(oracle.start[:, None] + slots) * real].masked_fill(~real, -1)
    equal = sum((label == grade).sum(1) ** 2 for grade in range(int(label.max()) + 1))
    return (oracle.length**2 - equal) // 2


def _forces(scores: Float[Tensor, "B N X D"], label: Int[Tensor, "B 1 X D"], weighed: bool) -> Float[Tensor, "B N X D"]:
    """How much each score should rise: sigma(s_j - s_i) for every pair (i, j) that the document wins, less those that
    it loses; `weighed` by |delta NDCG|."""
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
