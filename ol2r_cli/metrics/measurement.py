"""The metrics of each round, computed for 64 rounds at once: one round costs as much as sixty-four."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ol2r_cli.interfaces import Interaction, RunContext
from ol2r_cli.metrics.ranking import block_sizes, certain_ratio, dcg, ideal_lists, ndcg, regret
from ol2r_cli.tensor.shapes import Bool, Float, Int

DISCOUNT = 0.9995  # of cumulative NDCG, per round (all five papers)
BLOCK_RANKS = (1, 5, 10)  # ranks whose block size is traced
TOP = 10  # places of NDCG and of certain pairs

Measures = dict[str, Tensor]  # metric -> values [R B] of R rounds and B replicas


class NonFiniteScores(ArithmeticError):
    """Scores of a ranker are NaN or infinite. `round` is the first such round, `replicas` has those that are."""

    def __init__(self, round: int, replicas: list[int]):
        self.round, self.replicas = round, replicas
        super().__init__(f"the scores of the ranker are not finite in round {round}, replicas {replicas}")


class Measurement(nn.Module):
    """Records up to `ROUNDS` rounds in preallocated tensors and computes their metrics together.

    Its only lasting state is the cumulative NDCG and the cumulative unfairness. `judged` has query and label of every
    training document; `no_relevant` is zero or skip; `pairs` says whether the ranker learns from pairs, `blocks` and
    `regret` whether to compute these metrics, `reranked` whether a fairness may change proposed orders. NDCG is at 10,
    or at the number of positions if that is smaller.
    """

    ROUNDS = 64

    cumulative_ndcg: Tensor
    unfairness: Tensor

    def __init__(
        self,
        context: RunContext,
        judged: tuple[Tensor, Tensor],
        *,
        no_relevant: str,
        pairs: bool,
        blocks: bool,
        regret: bool,
        reranked: bool,
    ):
        super().__init__()
        self.context, self.no_relevant = context, no_relevant
        self.pairs, self.blocks, self.regret = pairs, blocks, regret
        # Whether shown documents may be outside the first TOP of the proposal, for which certain pairs are recorded.
        self.counts_violations = reranked or context.positions > TOP
        self.register_buffer("cumulative_ndcg", self._zeros(torch.float64)[0])
        self.register_buffer("unfairness", self._zeros(torch.float64)[0])
        self.ideal = dcg(ideal_lists(*judged, context.queries, min(TOP, context.positions)))  # [Q]
        self.rounds: list[tuple[Tensor, Tensor, Tensor]] = []  # query, mask, valid pairs
        self.grades = self._zeros(torch.int8, context.positions)  # of the shown documents
        self.clicks = self._zeros(torch.bool, context.positions)
        self.labels = self._zeros(torch.int8, context.documents)  # in list order, for the regret
        self.block = self._zeros(torch.int16, context.documents)  # in proposed order
        self.certain = self._zeros(torch.bool, TOP, TOP)
        self.broken = self._zeros(torch.int16)  # certain pairs among the shown documents
        self.exposed = self._zeros(torch.float64, 2)  # both groups
        self.total = self._zeros(torch.float64)  # of all scores: NaN or infinite if one of them is
        self.first = 1
        self.has_blocks = self.has_certain = False

    def _zeros(self, dtype: torch.dtype, *shape: int) -> Tensor:
        """Return zeros [ROUNDS, B, *shape]."""
        return torch.zeros(self.ROUNDS, self.context.replicas, *shape, dtype=dtype, device=self.context.device)

    def record(self, t: int, interaction: Interaction, labels: Int[Tensor, "B D"]) -> None:
        """Record what the metrics of round `t` (from 1) need. Rounds must be consecutive."""
        if not self.rounds:
            self.first = t
        row, proposal, candidates = len(self.rounds), interaction.proposal, interaction.candidates
        documents, shown = labels.shape[1], interaction.ranking.shape[1]
        torch.sum(interaction.prediction.scores, (1, 2), dtype=torch.float64, out=self.total[row])
        self.rounds.append((candidates.query, candidates.mask, interaction.preferences.valid))
        self.grades[row, :, :shown] = labels.gather(1, interaction.ranking)
        self.clicks[row, :, :shown] = interaction.clicks
        if self.context.exposure is not None and candidates.group is not None:
            group = candidates.group.gather(1, interaction.ranking)
            self.exposed[row] = self.context.exposure.of_groups(group, interaction.shown)
        if self.regret:
            self.labels[row, :, :documents] = labels.gather(1, interaction.order)
        if self.blocks and proposal.block is not None:
            self.has_blocks = True
            self.block[row, :, :documents] = proposal.block.gather(1, proposal.order)
            if proposal.certain is not None:
                self.has_certain = True
                pairs = _pairs_by_place(proposal.certain, proposal.order[:, :TOP])
                self.certain[row, :, : pairs.shape[1], : pairs.shape[1]] = pairs
                if self.counts_violations:
                    self.broken[row] = _violations(_pairs_by_place(proposal.certain, interaction.ranking))
            elif proposal.certain_by_place is not None:
                self.has_certain, pairs = True, proposal.certain_by_place[:, :TOP, :TOP]
                self.certain[row, :, : pairs.shape[1], : pairs.shape[1]] = pairs
                if self.counts_violations:
                    self.broken[row] = _violations(proposal.certain_by_place[:, :shown, :shown])

    def full(self) -> bool:
        """Return whether `measures` must be called before the next round is recorded."""
        return len(self.rounds) == self.ROUNDS

    def measures(self) -> tuple[int, Measures]:
        """Return the first of the R rounds recorded since the last call, and their measures [R B]; none if R is 0.

        `NonFiniteScores` if a score was NaN or infinite. Padding may have the score -infinity.
        """
        rounds = len(self.rounds)
        if not rounds:
            return self.first, {}
        self._check_scores(self.total[:rounds])
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
        if self.context.exposure is not None:
            exposed = self.exposed[:rounds].clone()
            steps = self.context.exposure.unfairness(exposed)
            steps[0] += self.unfairness  # adding it first keeps the last digit independent of interruptions
            sums = steps.cumsum(0)
            self.unfairness = sums[-1].clone()
            measures |= {"unfairness": sums, "exposure_0": exposed[..., 0], "exposure_1": exposed[..., 1]}
        if self.pairs:
            measures["pairs"] = torch.stack([pairs.sum(1) for pairs in valid])
        self.grades.zero_()  # the next lists may be shorter and leave places, which must have label 0
        self.clicks.zero_()
        flat: Measures = {}  # [R * B]
        if self.regret:
            flat["regret"] = regret(self.labels[:rounds].flatten(0, 1).long(), self.context.grades)
            self.labels.zero_()
        if self.has_blocks or self.has_certain:
            length = torch.stack([mask.sum(1) for mask in masks]).flatten()
            if self.has_blocks:
                flat |= self._block_measures(self.block[:rounds, :, : int(length.max())].flatten(0, 1).long(), length)
            if self.has_certain:
                certain, shown = self.certain[:rounds].flatten(0, 1), self.context.positions
                flat["certain_top10"] = certain_ratio(certain, length)
                counted = self.broken[:rounds].flatten().long()
                flat["violations"] = counted if self.counts_violations else _violations(certain[:, :shown, :shown])
                self.certain.zero_()
        measures |= {name: values.unflatten(0, (rounds, -1)) for name, values in flat.items()}
        if self.no_relevant == "skip":
            measures["online_ndcg"] = online.masked_fill(ideal == 0, torch.nan)
        return self.first, measures

    def _check_scores(self, total: Float[Tensor, "R B"]) -> None:
        bad = total.isnan() | (total == torch.inf)
        if bad.any():
            row = int(bad.any(1).nonzero()[0])
            raise NonFiniteScores(self.first + row, bad[row].nonzero().flatten().tolist())

    def _block_measures(self, block: Int[Tensor, "X D"], length: Int[Tensor, "X"]) -> Measures:
        """Return the number of blocks and the sizes at the traced ranks; for a shorter query that of its last block."""
        padding = torch.arange(block.shape[1], device=block.device) >= length[:, None]
        block = block.masked_fill(padding, -1)
        ranks = torch.tensor(BLOCK_RANKS, device=block.device)
        sizes = block_sizes(block, torch.minimum(ranks, length[:, None]))
        return {
            "blocks": block.amax(1) + 1,
            **{f"block_size_{rank}": sizes[:, column] for column, rank in enumerate(BLOCK_RANKS)},
        }

    def _accumulate(self, online: Tensor) -> Tensor:
        """Return the cumulative discounted NDCG after each round."""
        rounds = torch.arange(self.first - 1, self.first - 1 + len(online), device=online.device, dtype=torch.float64)
        steps = online * (DISCOUNT**rounds)[:, None]
        steps[0] += self.cumulative_ndcg
        sums = steps.cumsum(0)
        self.cumulative_ndcg = sums[-1].clone()
        return sums


def sizes_at_every_rank(interaction: Interaction) -> Int[Tensor, "B D"] | None:
    """Return the block size at every rank of the proposal, 0 for padding; None if the proposal has no blocks."""
    proposal, mask = interaction.proposal, interaction.candidates.mask
    if proposal.block is None:
        return None
    block = proposal.block.gather(1, proposal.order)
    ranks = torch.arange(1, block.shape[1] + 1, device=block.device).expand_as(block)
    real: Bool[Tensor, "B D"] = ranks <= mask.sum(1, keepdim=True)
    return block_sizes(block.masked_fill(~real, -1), ranks) * real


def _pairs_by_place(certain: Bool[Tensor, "B D D"], first: Int[Tensor, "B K"]) -> Bool[Tensor, "B K K"]:
    """Return [i, j]: the document at place i is certainly above the one at place j."""
    cell = first[:, :, None] * certain.shape[1] + first[:, None, :]
    return certain.flatten(1).gather(1, cell.flatten(1)).unflatten(1, cell.shape[1:])


def _violations(certain: Bool[Tensor, "*S K K"]) -> Int[Tensor, "*S"]:
    """Return the number of certain pairs, by place, that are shown in reverse."""
    return certain.tril(-1).sum((-1, -2))
