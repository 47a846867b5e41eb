"""How far the ranker is certain: sizes of blocks, and the share of certain pairs at the top (PairRank, section 4.2.4)."""

from __future__ import annotations

import torch
from torch import Tensor

from ol2r_cli.shapes import Bool, Float, Int


def block_sizes(block: Int[Tensor, "B D"], order: Int[Tensor, "B D"], ranks: Int[Tensor, "B R"]) -> Int[Tensor, "B R"]:
    """Size of the block that holds the document at each of `ranks` (from 1)."""
    at_rank = block.gather(1, order.gather(1, ranks - 1))
    return (block[:, None] == at_rank[:, :, None]).sum(2)


def certain_ratio(
    certain: Bool[Tensor, "B D D"], order: Int[Tensor, "B D"], length: Int[Tensor, "B"], top: int = 10
) -> Float[Tensor, "B"]:
    """Share of the pairs among the `top` first places whose order is certain; NaN where there is no pair."""
    first = order[:, :top]
    replica = torch.arange(len(order), device=order.device)[:, None, None]
    among = certain[replica, first[:, :, None], first[:, None, :]]
    held = length.clamp(max=top)
    real = torch.arange(first.shape[1], device=order.device) < held[:, None]
    pairs = (among & real[:, :, None] & real[:, None, :]).sum((1, 2))
    return pairs / (held * (held - 1) / 2)
