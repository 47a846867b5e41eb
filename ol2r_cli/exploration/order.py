"""Orders of documents: by score with ties at random, and place after place, each filled by its own preference."""

from __future__ import annotations

import torch
from torch import Tensor

from ol2r_cli.random import Random
from ol2r_cli.rows import places
from ol2r_cli.shapes import Bool, Float, Int


def by_score(scores: Float[Tensor, "B N D"], mask: Bool[Tensor, "B D"], random: Random) -> Int[Tensor, "B N D"]:
    """Every member's order of the documents, best first, padding last; equal scores in a random order shared by all."""
    shuffled = random.uniform(scores.shape[2]).argsort(1)[:, None].expand_as(scores)
    sinking = scores.masked_fill(~mask[:, None], float("-inf")).gather(2, shuffled)
    return shuffled.gather(2, sinking.argsort(dim=2, descending=True, stable=True))


def ranks(order: Int[Tensor, "*B D"]) -> Int[Tensor, "*B D"]:
    """The place of each document, from 0: the inverse of an order."""
    return torch.empty_like(order).scatter_(-1, order, places(order.shape[-1], order.device).expand_as(order))


def fill(wish: Int[Tensor, "B P D"]) -> Int[Tensor, "B P"]:
    """The document at each place: the one with the least `wish` there that has not been placed above.

    Overwrites `wish`, which must be below 2^62.
    """
    chosen: list[Tensor] = []
    for place in range(wish.shape[1]):
        chosen.append(wish[:, place].argmin(1, keepdim=True))
        wish[:, place + 1 :].scatter_(2, chosen[-1][:, None].expand(-1, wish.shape[1] - place - 1, -1), 1 << 62)
    return torch.cat(chosen, dim=1)


def completed(first: Int[Tensor, "B P"], rank: Int[Tensor, "B D"]) -> Int[Tensor, "B D"]:
    """The whole order: the documents placed already, then the others by `rank`."""
    place = places(first.shape[1], first.device) - first.shape[1]
    return rank.scatter(1, first, place.expand_as(first)).argsort(1)
