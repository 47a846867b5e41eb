"""What measures share: NDCG with gains 2^rel - 1 and discounts log2(rank + 1) (Burges et al., ICML 2005), the best list
of every query, block sizes, and running totals."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ol2r_cli.interfaces import RunContext
from ol2r_cli.tensor.shapes import Float, Int


def discounts(count: int, device: torch.device | None = None) -> Float[Tensor, "K"]:
    """Return 1 / log2(rank + 1) for ranks 1 .. count."""
    return 1 / torch.arange(2, count + 2, device=device, dtype=torch.float64).log2()


def gains(labels: Int[Tensor, "*L"]) -> Float[Tensor, "*L"]:
    """Return 2^rel - 1."""
    return (1 << labels.long()).double() - 1


def dcg(labels: Int[Tensor, "*L K"]) -> Float[Tensor, "*L"]:
    """Return the discounted cumulative gain of lists; the label of the top place comes first."""
    return (gains(labels) * discounts(labels.shape[-1], labels.device)).sum(-1)


def ideal_dcg(labels: Int[Tensor, "*L D"], cutoff: int) -> Float[Tensor, "*L"]:
    """Return the largest DCG at `cutoff` of all orders of documents with these labels. Padding has label 0."""
    return dcg(labels.sort(-1, descending=True).values[..., :cutoff])


def ideal_lists(queries: Int[Tensor, "N"], labels: Int[Tensor, "N"], count: int, cutoff: int) -> Int[Tensor, "Q K"]:
    """Return the labels of the first `cutoff` places of every query's best order, and 0 below its end.

    `queries` has the number of the query, 0 .. count - 1, of each document.
    """
    grades = int(labels.max()) + 1 if len(labels) else 1
    documents = torch.bincount(queries * grades + labels, minlength=count * grades).unflatten(0, (count, grades))
    at_least = documents.flip(1).cumsum(1).flip(1)[:, 1:]  # documents of grade 1 or more, 2 or more, ..
    place = torch.arange(cutoff, device=labels.device)
    return (at_least[:, None, :] > place[:, None]).sum(2)


def ndcg(reached: Float[Tensor, "..."], ideal: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Return DCG over ideal DCG, which broadcast; 0 for a query without a relevant document."""
    return torch.where(ideal > 0, reached / ideal.clamp(min=1e-12), 0.0)


def block_sizes(block: Int[Tensor, "X D"], ranks: Int[Tensor, "X R"]) -> Int[Tensor, "X R"]:
    """Return the size of the block at each of `ranks` (from 1), given the block number at every place."""
    at_rank = block.gather(1, ranks - 1)
    return (block[:, None] == at_rank[:, :, None]).sum(2)


def reciprocal_rank(labels: Int[Tensor, "*L K"]) -> Float[Tensor, "*L"]:
    """Return 1 / rank of the first document of grade 1 or more in each list, 0 without one."""
    relevant = labels > 0
    return torch.where(relevant.any(-1), 1 / (1 + relevant.int().argmax(-1)).double(), 0.0)


def start_at_zero(measure: nn.Module, total: str, context: RunContext, *shape: int) -> None:
    """Register the buffer `total` [B, *shape] of a measure, for `add_up`."""
    zeros = torch.zeros(context.replicas, *shape, dtype=torch.float64, device=context.device)
    measure.register_buffer(total, zeros)


def add_up(measure: nn.Module, total: str, steps: Float[Tensor, "R ..."]) -> Float[Tensor, "R ..."]:
    """Return the running total after each of R rounds, and keep the last in the buffer `total` of a measure."""
    steps[0] += getattr(measure, total)  # adding it first keeps the last digit independent of interruptions
    sums = steps.cumsum(0)
    setattr(measure, total, sums[-1].clone())
    return sums
