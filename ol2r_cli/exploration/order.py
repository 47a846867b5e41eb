"""Orders of documents: by score with random ties, and by taking turns."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ol2r_cli.interfaces import Prediction
from ol2r_cli.tensor.gather import cached_arange
from ol2r_cli.tensor.shapes import Bool, Float, Int
from ol2r_cli.tensor.streams import Random

LEAST = torch.finfo(torch.float64).min
TINY = 2.0**-1000  # a key of its bits and random ones is a normal number, which no process takes as 0
CHANCE = 1 << 29  # the last 29 bits of a float64 are beyond the precision of float32


def sortable(scores: Float[Tensor, "B N D"], mask: Bool[Tensor, "B D"], random: Random) -> Float[Tensor, "B N D"]:
    """Return the scores in float64, made distinct, so that sorting them breaks ties at random.

    The last 29 of 52 bits become random, the same for all members. Scores that agree in the other bits, or in float32,
    are in random order. Padding gets `LEAST`, the lowest score of all.
    """
    chance = (random.uniform(scores.shape[2]) * -CHANCE).long()[:, None]  # 0 or negative
    bits = (scores.double() + TINY).view(torch.int64) | (CHANCE - 1)  # 0.0 and -0.0 become TINY
    bits += torch.where(bits < 0, 1 - CHANCE - chance, chance)  # for negative scores, larger bits are lower scores
    return bits.view(torch.float64).masked_fill_(~mask[:, None], LEAST)


def best(scores: Float[Tensor, "*B D"], count: int) -> Int[Tensor, "*B O"]:
    """Return the min(count, D) documents with the highest scores, which must be distinct; best first."""
    return scores.topk(min(count, scores.shape[-1]), dim=-1).indices


def empty_order(scores: Float[Tensor, "B D"], count: int) -> NDArray[np.int64]:
    """Return room for the first `count` places of an order, which a compiled loop fills: [B, O]."""
    return np.empty((len(scores), min(count, scores.shape[1])), dtype=np.int64)


def mean_of_members(prediction: Prediction) -> Float[Tensor, "B D"]:
    """Return the mean score of the ranker's members."""
    scores = prediction.scores
    return scores.mean(1) if scores.shape[1] > 1 else scores[:, 0]


def take_turns_in_step(keys: Float[Tensor, "B N D"], turns: Int[Tensor, "B O"]) -> Int[Tensor, "B O"]:
    """Return a list in which each place is filled from the queue whose turn it is, by its first unplaced document.

    Queue n has the documents in descending order of keys[b, n].
    """
    replica, left, placed = cached_arange(len(keys), keys.device), keys.clone(), []
    for turn in turns.unbind(1):
        document = left[replica, turn].argmax(1, keepdim=True)
        placed.append(document)
        left.scatter_(2, document[:, None].expand(-1, keys.shape[1], -1), float("-inf"))
    return torch.cat(placed, 1)


def completed(first: Int[Tensor, "B K"], scores: Float[Tensor, "B D"], count: int) -> Int[Tensor, "B O"]:
    """Return an order of `count` places: the `first` documents, then the others by score."""
    if count <= first.shape[1]:
        return first
    above_all = (first.shape[1] - cached_arange(first.shape[1], first.device)).double() * 1e300
    return best(scores.scatter(1, first, above_all.expand(first.shape)), count)
