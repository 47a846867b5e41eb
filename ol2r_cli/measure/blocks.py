"""Blocks and certain pairs of every round, where the exploration states them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ol2r_cli.columns import BLOCK_RANKS, CUTOFF, TRACE_COLUMNS
from ol2r_cli.interfaces import Interaction, Measure, Rounds, RunContext
from ol2r_cli.metrics.ranking import block_sizes
from ol2r_cli.tensor.shapes import Bool, Int

_SIZES = tuple(f"block_size_{rank}" for rank in BLOCK_RANKS)


class Blocks(Measure):
    """The number of blocks, the size of the block at `BLOCK_RANKS`, the share of certain pairs among the first ten
    places, and how many certain pairs the shown list reverses."""

    trace = tuple(TRACE_COLUMNS[name] for name in ("blocks", *_SIZES, "certain_top10", "violations"))
    needs_reasons = needs_blocks = True

    def setup(self, context: RunContext, best: Int[Tensor, "Q K"]) -> None:
        """Allocate room for the blocks and the certain pairs of the rounds."""
        self.positions = context.positions
        # Whether shown documents may be outside the first CUTOFF of the proposal, for which certain pairs are recorded.
        self.counts_violations = context.reranked or context.positions > CUTOFF

        def zeros(dtype: torch.dtype, *shape: int) -> Tensor:
            return torch.zeros(context.measured_rounds, context.replicas, *shape, dtype=dtype, device=context.device)

        few = context.documents <= torch.iinfo(torch.int16).max
        self.block = zeros(torch.int16 if few else torch.int32, context.documents)  # in proposed order
        self.certain = zeros(torch.bool, CUTOFF, CUTOFF)
        self.broken = zeros(torch.int32)  # certain pairs among the shown documents
        self.has_blocks = self.has_certain = False

    def memory(self) -> Any:
        """Return the memory for rounds that are played together."""
        if self.counts_violations:
            return None
        self.has_blocks = self.has_certain = True
        return self.block, self.certain

    def record(self, row: int, interaction: Interaction, labels: Int[Tensor, "B D"]) -> None:
        """Keep blocks and certain pairs by place of the proposed order."""
        proposal, shown = interaction.proposal, interaction.ranking.shape[1]
        assert proposal.block is not None
        self.has_blocks = True
        self.block[row, :, : labels.shape[1]] = proposal.block.gather(1, proposal.order)
        if proposal.certain is not None:
            first = _pairs_by_place(proposal.certain, proposal.order[:, :CUTOFF])
            served = _pairs_by_place(proposal.certain, interaction.ranking)
        elif proposal.certain_by_place is not None:
            first, served = proposal.certain_by_place, proposal.certain_by_place[:, :shown, :shown]
        else:
            return
        self.has_certain = True
        pairs = first[:, :CUTOFF, :CUTOFF]
        self.certain[row, :, : pairs.shape[1], : pairs.shape[1]] = pairs
        if self.counts_violations:
            self.broken[row] = _violations(served)

    def of_rounds(self, rounds: Rounds) -> dict[str, Tensor]:
        """Return what the proposals have; nothing without blocks."""
        count, values = len(rounds.query), dict[str, Tensor]()
        if not self.has_blocks:
            return values
        length = rounds.length.flatten()
        block = self.block[:count, :, : int(length.max())].flatten(0, 1).long()
        padding = torch.arange(block.shape[1], device=block.device) >= length[:, None]
        block = block.masked_fill(padding, -1)
        ranks = torch.minimum(torch.tensor(BLOCK_RANKS, device=block.device), length[:, None])  # or the last place
        sizes = block_sizes(block, ranks)
        values |= {"blocks": block.amax(1) + 1, **{name: sizes[:, column] for column, name in enumerate(_SIZES)}}
        if self.has_certain:
            certain = self.certain[:count].flatten(0, 1)
            documents = length.clamp(max=CUTOFF)
            real = torch.arange(CUTOFF, device=length.device) < documents[:, None]
            pairs = (certain & real[:, :, None] & real[:, None, :]).sum((1, 2))
            values["certain_top10"] = pairs / (documents * (documents - 1) / 2)  # 0 / 0 is NaN: it has no pair
            counted = self.broken[:count].flatten().long()
            shown = certain[:, : self.positions, : self.positions]
            values["violations"] = counted if self.counts_violations else _violations(shown)
            self.certain.zero_()
        return {name: column.unflatten(0, (count, -1)) for name, column in values.items()}


def _pairs_by_place(certain: Bool[Tensor, "B D D"], first: Int[Tensor, "B K"]) -> Bool[Tensor, "B K K"]:
    """Return [i, j]: the document at place i is certainly above the one at place j."""
    cell = first[:, :, None] * certain.shape[1] + first[:, None, :]
    return certain.flatten(1).gather(1, cell.flatten(1)).unflatten(1, cell.shape[1:])


def _violations(certain: Bool[Tensor, "*S K K"]) -> Int[Tensor, "*S"]:
    """Return the number of certain pairs, by place, that are shown in reverse."""
    return certain.tril(-1).sum((-1, -2))
