"""Normalised discounted cumulative gain, gains 2^rel - 1, discounts log2(rank + 1) (Burges et al., ICML 2005)."""

from __future__ import annotations

import torch
from torch import Tensor

from ol2r_cli.shapes import Float, Int


def discounts(count: int, device: torch.device | None = None) -> Float[Tensor, "K"]:
    """1 / log2(rank + 1) for ranks 1 .. count."""
    return 1 / torch.arange(2, count + 2, device=device, dtype=torch.float64).log2()


def gains(labels: Int[Tensor, "*L"]) -> Float[Tensor, "*L"]:
    """2^rel - 1."""
    return 2.0 ** labels.double() - 1


def dcg(labels: Int[Tensor, "*L K"]) -> Float[Tensor, "*L"]:
    """Discounted cumulative gain of lists, the label of the top place first."""
    return (gains(labels) * discounts(labels.shape[-1], labels.device)).sum(-1)


def ideal_dcg(labels: Int[Tensor, "*L D"], cutoff: int) -> Float[Tensor, "*L"]:
    """The largest DCG at `cutoff` that any order of documents with these labels has. Padding has label 0."""
    return dcg(labels.sort(-1, descending=True).values[..., :cutoff])


def ideal_lists(queries: Int[Tensor, "N"], labels: Int[Tensor, "N"], count: int, cutoff: int) -> Int[Tensor, "Q K"]:
    """The labels of the first `cutoff` places of every query's best order, 0 where it is shorter.

    `queries` says to which of the `count` queries each document belongs.
    """
    grades = int(labels.max()) + 1 if len(labels) else 1
    having = torch.bincount(queries * grades + labels, minlength=count * grades).unflatten(0, (count, grades))
    at_least = having.flip(1).cumsum(1).flip(1)[:, 1:]  # how many documents of grade 1 and more, 2 and more, ..
    place = torch.arange(cutoff, device=labels.device)
    return (at_least[:, None, :] > place[:, None]).sum(2)


def ndcg(reached: Float[Tensor, "..."], ideal: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """DCG over ideal DCG, which broadcast; 0 for a query without a relevant document."""
    return torch.where(ideal > 0, reached / ideal.clamp(min=1e-12), 0.0)
