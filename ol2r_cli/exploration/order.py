"""Orders of documents: by score with ties at random, and by taking turns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from ol2r_cli.random import Random
from ol2r_cli.rows import places
from ol2r_cli.shapes import Bool, Float, Int

LEAST = torch.finfo(torch.float64).min
CHANCE = 1 << 29  # the last 29 bits of a float64: beyond the precision of float32


def sortable(scores: Float[Tensor, "B N D"], mask: Bool[Tensor, "B D"], random: Random) -> Float[Tensor, "B N D"]:
    """The scores in float64, made distinct, so that whoever sorts them breaks ties at random.

    The last 29 of 52 bits become random, the same for all members: scores that agree in the others, or in float32, are
    in a random order. Padding has the least score of all, `LEAST`.
    """
    chance = (random.uniform(scores.shape[2]) * -CHANCE).long()[:, None]  # from 0 down
    bits = (scores.double() + 0.0).view(torch.int64) | (CHANCE - 1)  # + 0.0 gives -0.0 the bits of 0.0
    bits += torch.where(bits < 0, 1 - CHANCE - chance, chance)  # upside down where larger bits mean less
    return bits.view(torch.float64).masked_fill_(~mask[:, None], LEAST)


def best(scores: Float[Tensor, "*B D"], count: int) -> Int[Tensor, "*B O"]:
    """The `count` documents with the highest of distinct scores, or all there are."""
    return scores.topk(min(count, scores.shape[-1]), dim=-1).indices


def take_turns(queues: Sequence[Sequence[int]], turns: Iterable[int]) -> list[int]:
    """The documents of a list whose places are filled in turn, each from the front of a queue, by what is not yet
    placed; `turns` says which queue. Plain Python: faster than tensors for lists that anybody reads."""
    placed: dict[int, None] = {}
    ahead = [iter(queue) for queue in queues]
    for turn in turns:
        document = next(document for document in ahead[turn] if document not in placed)
        placed[document] = None
    return list(placed)


def take_turns_in_step(keys: Float[Tensor, "B N D"], turns: Int[Tensor, "B O"]) -> Int[Tensor, "B O"]:
    """The same for all replicas together, a place at a time: `keys` are what their queues are sorted by, best first."""
    replica, left, placed = places(len(keys), keys.device), keys.clone(), []
    for turn in turns.unbind(1):
        document = left[replica, turn].argmax(1, keepdim=True)
        placed.append(document)
        left.scatter_(2, document[:, None].expand(-1, keys.shape[1], -1), float("-inf"))
    return torch.cat(placed, 1)


def completed(first: Int[Tensor, "B K"], scores: Float[Tensor, "B D"], count: int) -> Int[Tensor, "B O"]:
    """An order of `count` places: the documents placed already, then the others by score."""
    if count <= first.shape[1]:
        return first
    above_all = (first.shape[1] - places(first.shape[1], first.device)).double() * 1e300
    return best(scores.scatter(1, first, above_all.expand(first.shape)), count)
