"""BatchRank: Zoghi, Tunys, Ghavamzadeh, Kveton, Szepesvari and Wen, "Online Learning to Rank in Stochastic Click
Models", ICML 2017, algorithms 1 to 4."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ol2r_cli.interfaces import Candidates, Interaction, Oracle, Prediction, RunContext
from ol2r_cli.ranker.bandits import kl_upper_bound
from ol2r_cli.ranker.model_ranker import ParameterFree, predicted
from ol2r_cli.tensor.shapes import Bool, Float, Int
from ol2r_cli.tensor.streams import Random

Documents = Int[Tensor, "B D"]


class BatchRank(ParameterFree):
    """Sorts the documents of each query by splitting batches of them where their click rates certainly differ.

    A batch owns documents and consecutive places, on which it shows its least displayed documents in random order. When
    each was displayed ceil(16 4^stage log T) times, their rates get bounds [L, U] with N KL <= log T + 3 log log T. By
    descending L, the batch is split below the last of its places above which every L exceeds every U further down.
    Without a split, documents whose U is below the L of the batch's last place are dropped for good, and the next stage
    begins. T is the number of rounds.

    It learns nothing about queries never served: there is no offline evaluation. It keeps 11 bytes for each document of
    the dataset and replica. Whether a batch is complete is read on the host.
    """

    generalises = False
    pairs = "none"

    first: Tensor
    stage: Tensor
    displays: Tensor
    clicks: Tensor

    def setup(self, context: RunContext, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        super().setup(context, features)
        self.positions = context.positions
        self.log = math.log(max(context.rounds, 2))
        self.budget = max(0.0, self.log + 3 * math.log(self.log))
        zero = torch.zeros(context.replicas, len(features), dtype=torch.int32, device=context.device)
        self.register_buffer("first", zero.short())  # the first place of a document's batch; `positions`: dropped
        self.register_buffer("stage", zero.char())
        self.register_buffer("displays", zero)  # N of this stage
        self.register_buffer("clicks", zero.clone())  # of these

    def predict(self, candidates: Candidates, random: Random) -> Prediction:
        """Return falling scores by place: batches in order, and of each its least displayed documents, shuffled."""
        first, displays = (buffer.gather(1, candidates.document).long() for buffer in (self.first, self.displays))
        first, width = first.masked_fill(~candidates.mask, self.positions), first.shape[1]
        least = _order(first * 2**32 + displays, random.uniform(width, "documents"))[:, : self.positions]
        # Batches above have a place for each document.
        shown = torch.zeros_like(candidates.mask).scatter_(1, least, True)
        order = _order(first.masked_fill(~shown, self.positions + 1), random.uniform(width, "places"))
        scores = torch.zeros_like(order).scatter_(1, order, -torch.arange(width, device=order.device).expand_as(order))
        return predicted(scores.to(self.nothing.dtype), candidates)

    def learn(self, interaction: Interaction, random: Random) -> None:
        mask, document = interaction.candidates.mask, interaction.candidates.document
        buffers = self.first, self.stage, self.displays, self.clicks
        before = [buffer.gather(1, document) for buffer in buffers]
        first, stage, displays, clicks = (values.long() for values in before)
        inside = mask & (first < self.positions)
        same = (first[:, :, None] == first[:, None]) & inside[:, None] & inside[:, :, None]
        shown = torch.zeros_like(mask).scatter_(1, interaction.ranking, interaction.shown)
        clicked = torch.zeros_like(mask).scatter_(1, interaction.ranking, interaction.clicks)
        counts = shown & inside & (displays == _least(displays, same))
        displays, clicks = displays + counts, clicks + (counts & clicked)
        complete = inside & (_least(displays, same) >= (16 * self.log * 4.0 ** stage.double()).ceil())
        if bool(complete.any()):
            places = mask.sum(1, keepdim=True).clamp(max=self.positions)
            first, stage = self._next(first, stage, clicks / displays.clamp(min=1), displays, same, complete, places)
            displays, clicks = displays.masked_fill(complete, 0), clicks.masked_fill(complete, 0)
        for buffer, own, new in zip(buffers, before, (first, stage, displays, clicks), strict=True):
            buffer.scatter_add_(1, document, (new.to(own.dtype) - own) * mask)

    def _next(
        self,
        first: Documents,
        stage: Documents,
        rate: Float[Tensor, "B D"],
        displays: Documents,
        same: Bool[Tensor, "B D D"],
        complete: Bool[Tensor, "B D"],
        places: Int[Tensor, "B 1"],
    ) -> tuple[Documents, Documents]:
        """Return first places and stages after complete batches were split, or their worst documents dropped."""
        budget = self.budget / displays.clamp(min=1)
        upper, lower = kl_upper_bound(rate, budget), 1 - kl_upper_bound(1 - rate, budget)
        number = torch.arange(first.shape[1], device=first.device)
        above = (lower[:, None] > lower[:, :, None]) | (
            (lower[:, None] == lower[:, :, None]) & (number < number[:, None])
        )
        rank = 1 + (same & above).sum(2)  # within the batch, by descending L
        below = same & (rank[:, None] > rank[:, :, None])
        further = same.any(2)[:, None] & (first[:, None] > first[:, :, None])
        end = _least(first, further).minimum(places)  # where the next batch begins
        size = end - first
        separates = complete & (rank < size) & (lower > _most(upper, below))
        split = _most((rank * separates).double(), same).clamp(min=0).long()  # 0: the batch stays whole
        last = _most(lower, same & (rank == size)[:, None])
        moved, dropped = complete & (split > 0) & (rank > split), complete & (split == 0) & (upper < last)
        stage = torch.where(complete, (stage + 1) * (split == 0), stage)
        return (first + split * moved).masked_fill(dropped, self.positions), stage


def _order(key: Documents, ties: Float[Tensor, "B D"]) -> Documents:
    """Return the documents in ascending order of a key, equal ones at random."""
    shuffled = ties.argsort(dim=1)
    return shuffled.gather(1, key.gather(1, shuffled).argsort(dim=1, stable=True))


def _least(values: Documents, among: Bool[Tensor, "B D D"]) -> Documents:
    """Return for each document the smallest value among others; without any, the largest number."""
    none = torch.iinfo(values.dtype).max
    return values[:, None].expand_as(among).masked_fill(~among, none).amin(2)


def _most(values: Float[Tensor, "B D"], among: Bool[Tensor, "B D D"]) -> Float[Tensor, "B D"]:
    """Return for each document the largest value among others; without any, -inf."""
    return values[:, None].expand_as(among).masked_fill(~among, -math.inf).amax(2)
