"""Block rounds: of some rounds the size of the block at every rank of the proposal, in blocks.parquet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ol2r_cli.config.ranges import Count, check_settings
from ol2r_cli.interfaces import Interaction
from ol2r_cli.metrics.ranking import block_sizes
from ol2r_cli.run.run import BLOCKS as BLOCKS
from ol2r_cli.tensor.shapes import Bool, Int

if TYPE_CHECKING:
    from ol2r_cli.run.experiment import Experiment
    from ol2r_cli.run.runner import Runner


@dataclass(frozen=True)
class BlockSettings:
    """What the setting may be."""

    block_rounds: Sequence[Count]


def prepare(experiment: Experiment) -> frozenset[int]:
    """Return the rounds whose blocks are kept; ValueError for one that is not played."""
    asked, rounds = experiment.settings["block_rounds"], experiment.settings["rounds"]
    check_settings(BlockSettings, {"block_rounds": asked}, "")
    beyond = [t for t in asked if t > rounds]
    if beyond:
        raise ValueError(f"block_rounds must be rounds from 1 to {rounds}, got {beyond[0]}")
    return frozenset(asked)


def record(runner: Runner, rounds: frozenset[int], t: int, interaction: Interaction) -> None:
    """Record one row per replica and rank of round `t`, if it is one of `rounds` and its proposal has blocks."""
    sizes = sizes_at_every_rank(interaction) if t in rounds else None
    if sizes is not None:
        block_size = sizes.double().cpu().numpy()
        runner.trace.record_places(BLOCKS, t, block_size > 0, {"block_size": block_size})


def sizes_at_every_rank(interaction: Interaction) -> Int[Tensor, "B D"] | None:
    """Return the block size at every rank of the proposal, 0 for padding; None if the proposal has no blocks."""
    proposal, mask = interaction.proposal, interaction.candidates.mask
    if proposal.block is None:
        return None
    block = proposal.block.gather(1, proposal.order)
    ranks = torch.arange(1, block.shape[1] + 1, device=block.device).expand_as(block)
    real: Bool[Tensor, "B D"] = ranks <= mask.sum(1, keepdim=True)
    return block_sizes(block.masked_fill(~real, -1), ranks) * real
