"""How far the ranker is certain: sizes of blocks, share of certain pairs at the top (PairRank, section 4.2.4)."""

from __future__ import annotations

import torch
from torch import Tensor

from ol2r_cli.shapes import Bool, Float, Int


def block_sizes(block: Int[Tensor, "X D"], ranks: Int[Tensor, "X R"]) -> Int[Tensor, "X R"]:
    """Size of the block at each of `ranks` (from 1), given the block number of the document at every place."""
    at_rank = block.gather(1, ranks - 1)
    return (block[:, None] == at_rank[:, :, None]).sum(2)


def certain_ratio(certain: Bool[Tensor, "X K K"], length: Int[Tensor, "X"]) -> Float[Tensor, "X"]:
    """Share of certain pairs among the K first places of lists with `length` documents; NaN where there is no pair."""
    top = certain.shape[1]
    held = length.clamp(max=top)
    real = torch.arange(top, device=certain.device) < held[:, None]
    pairs = (certain & real[:, :, None] & real[:, None, :]).sum((1, 2))
    return pairs / (held * (held - 1) / 2)
