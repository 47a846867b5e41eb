"""From what happened to numbers, for many rounds at once: a metric of one round costs as much as one of sixty-four."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ol2r_cli.interfaces import Interaction, Sizes
from ol2r_cli.metrics.blocks import block_sizes, certain_ratio
from ol2r_cli.metrics.ndcg import dcg, ideal_lists, ndcg
from ol2r_cli.metrics.regret import regret
from ol2r_cli.shapes import Bool, Int

DISCOUNT = 0.9995  # of cumulative NDCG, per round (all five papers)
BLOCK_RANKS = (1, 5, 10)
TOP = 10

Measures = dict[str, Tensor]  # metric -> [R B], rounds by replicas


class Measurement(nn.Module):
    """Notes each round in preallocated room for `ROUNDS`, and turns the notes into measures when asked or when full.

    Its only lasting state is the cumulative NDCG and the cumulative unfairness so far. `judged` has query and label of
    every training document; `no_relevant` is zero or skip; `pairs` says whether the ranker learns from pairs, `blocks`
    and `regret` whether those metrics are wanted, `rearranged` whether lists may differ from drafts. NDCG is at 10, or
    at the number of positions where that is less.
    """

    ROUNDS = 64

    cumulative_ndcg: Tensor
    unfairness: Tensor

    def __init__(
        self,
        sizes: Sizes,
        judged: tuple[Tensor, Tensor],
        *,
        no_relevant: str = "zero",
        pairs: bool = True,
        blocks: bool = True,
        regret: bool = True,
        rearranged: bool = False,
    ):
        super().__init__()
        self.sizes, self.no_relevant = sizes, no_relevant
        self.pairs, self.blocks, self.regret = pairs, blocks, regret
        self.apart = rearranged or sizes.positions > TOP  # whether what is shown is not among a draft's first TOP
        room = self.ROUNDS, sizes.replicas
        place: dict[str, Any] = {"device": sizes.device}
        self.register_buffer("cumulative_ndcg", torch.zeros(sizes.replicas, dtype=torch.float64, **place))
        self.register_buffer("unfairness", torch.zeros(sizes.replicas, dtype=torch.float64, **place))
        self.ideal = dcg(ideal_lists(*judged, sizes.queries, min(TOP, sizes.positions)))  # [Q]
        self.rounds: list[tuple[Tensor, Tensor, Tensor]] = []  # query, mask, valid pairs
        self.grades = torch.zeros(*room, sizes.positions, dtype=torch.int8, **place)  # of what was shown
        self.clicks = torch.zeros(*room, sizes.positions, dtype=torch.bool, **place)
        self.labels = torch.zeros(*room, sizes.documents, dtype=torch.int8, **place)  # in list order, for the regret
        self.block = torch.zeros(*room, sizes.documents, dtype=torch.int16, **place)  # in the draft's order
        self.certain = torch.zeros(*room, TOP, TOP, dtype=torch.bool, **place)
        self.broken = torch.zeros(*room, dtype=torch.int16, **place)  # certain pairs, among the shown
        self.exposed = torch.zeros(*room, 2, dtype=torch.float64, **place)  # both groups
        self.first = 1
        self.has_blocks = self.has_certain = False

    def note(self, t: int, interaction: Interaction, labels: Int[Tensor, "B D"]) -> None:
        """Remember what round `t` (from 1) needs to be measured; rounds come one after the other."""
        if not self.rounds:
            self.first = t
        row, draft, candidates = len(self.rounds), interaction.draft, interaction.candidates
        documents, shown = labels.shape[1], interaction.ranking.shape[1]
        self.rounds.append((candidates.query, candidates.mask, interaction.preferences.valid))
        self.grades[row, :, :shown] = labels.gather(1, interaction.ranking)
        self.clicks[row, :, :shown] = interaction.clicks
        if self.sizes.exposure is not None and candidates.group is not None:
            group = candidates.group.gather(1, interaction.ranking)
            self.exposed[row] = self.sizes.exposure.of_groups(group, interaction.shown)
        if self.regret:
            self.labels[row, :, :documents] = labels.gather(1, interaction.order)
        if self.blocks and draft.block is not None:
            self.has_blocks = True
            self.block[row, :, :documents] = draft.block.gather(1, draft.order)
            if draft.certain is not None:
                self.has_certain = True
                pairs = _pairs(draft.certain, draft.order[:, :TOP])
                self.certain[row, :, : pairs.shape[1], : pairs.shape[1]] = pairs
                if self.apart:
                    self.broken[row] = _broken(_pairs(draft.certain, interaction.ranking))

    def full(self) -> bool:
        """Whether `measures` must be called before the next note."""
        return len(self.rounds) == self.ROUNDS

    def measures(self) -> tuple[int, Measures]:
        """The first round noted since the last call, and the measures [R B] from it on; empty where R is 0."""
        rounds, found = len(self.rounds), {}
        if not rounds:
            return self.first, {}
        queries, masks, valid = zip(*self.rounds, strict=True)
        self.rounds = []
        query = torch.stack(queries)
        ideal = self.ideal[query]
        online = ndcg(dcg(self.grades[:rounds, :, :TOP]), ideal)
        measures: Measures = {
            "query": query,
            "online_ndcg": online,
            "clicks": self.clicks[:rounds].sum(2),
            "cumulative_ndcg": self._accumulate(online),
        }
        if self.sizes.exposure is not None:
            exposed = self.exposed[:rounds].clone()
            steps = self.sizes.exposure.unfairness(exposed)
            steps[0] += self.unfairness  # so that where a run was interrupted does not show in the last digit
            sums = steps.cumsum(0)
            self.unfairness = sums[-1].clone()
            measures |= {"unfairness": sums, "exposure_0": exposed[..., 0], "exposure_1": exposed[..., 1]}
        if self.pairs:
            measures["pairs"] = torch.stack([pairs.sum(1) for pairs in valid])
        self.grades.zero_()  # a shorter list leaves room, which has label 0
        self.clicks.zero_()
        if self.regret:
            found["regret"] = regret(self.labels[:rounds].flatten(0, 1).long(), self.sizes.grades)
            self.labels.zero_()
        if self.has_blocks or self.has_certain:
            length = torch.stack([mask.sum(1) for mask in masks]).flatten()
            if self.has_blocks:
                found |= self._of_blocks(self.block[:rounds, :, : int(length.max())].flatten(0, 1).long(), length)
            if self.has_certain:
                certain, shown = self.certain[:rounds].flatten(0, 1), self.sizes.positions
                found["certain_top10"] = certain_ratio(certain, length)
                apart = self.broken[:rounds].flatten().long()
                found["violations"] = apart if self.apart else _broken(certain[:, :shown, :shown])
                self.certain.zero_()
        measures |= {name: values.unflatten(0, (rounds, -1)) for name, values in found.items()}
        if self.no_relevant == "skip":
            measures["online_ndcg"] = online.masked_fill(ideal == 0, torch.nan)
        return self.first, measures

    def _of_blocks(self, block: Int[Tensor, "X D"], length: Int[Tensor, "X"]) -> Measures:
        """Sizes at the ranks that are traced (a shorter query: of its last block), and how many blocks there are."""
        last = torch.arange(block.shape[1], device=block.device) >= length[:, None]
        block = block.masked_fill(last, -1)
        ranks = torch.tensor(BLOCK_RANKS, device=block.device)
        sizes = block_sizes(block, torch.minimum(ranks, length[:, None]))
        found = {f"block_size_{rank}": sizes[:, i] for i, rank in enumerate(BLOCK_RANKS)}
        return {"blocks": block.amax(1) + 1, **found}

    def _accumulate(self, online: Tensor) -> Tensor:
        rounds = torch.arange(self.first - 1, self.first - 1 + len(online), device=online.device, dtype=torch.float64)
        steps = online * (DISCOUNT**rounds)[:, None]
        steps[0] += self.cumulative_ndcg
        sums = steps.cumsum(0)
        self.cumulative_ndcg = sums[-1].clone()
        return sums


def sizes_at_every_rank(interaction: Interaction) -> Int[Tensor, "B D"] | None:
    """The block size at every rank of the draft, 0 on padding; None when the draft has no blocks."""
    draft, mask = interaction.draft, interaction.candidates.mask
    if draft.block is None:
        return None
    block = draft.block.gather(1, draft.order)
    ranks = torch.arange(1, block.shape[1] + 1, device=block.device).expand_as(block)
    real: Bool[Tensor, "B D"] = ranks <= mask.sum(1, keepdim=True)
    return block_sizes(block.masked_fill(~real, -1), ranks) * real


def _pairs(certain: Bool[Tensor, "B D D"], first: Int[Tensor, "B K"]) -> Bool[Tensor, "B K K"]:
    """[i, j]: whether the document at place i is certainly above the one at place j."""
    cell = first[:, :, None] * certain.shape[1] + first[:, None, :]
    return certain.flatten(1).gather(1, cell.flatten(1)).unflatten(1, cell.shape[1:])


def _broken(certain: Bool[Tensor, "*S K K"]) -> Int[Tensor, "*S"]:
    """How many of these pairs stand the other way round."""
    return certain.tril(-1).sum((-1, -2))
