"""The layers of a partial order that the ranker itself states: TopRank's partition (Lattimore et al., NeurIPS 2018)."""

from __future__ import annotations

import torch
from torch import Tensor

from ol2r_cli.exploration.blocks import shuffle
from ol2r_cli.host import on_host
from ol2r_cli.interfaces import CERTAIN, LAYERS, STATED, Belief, Candidates, Draft, Exploration, Need
from ol2r_cli.random import Random
from ol2r_cli.shapes import Bool, Int


class Stated(Exploration):
    """Layers in their order, each in a uniformly random order.

    The first layer holds the documents that no other is certainly above; without them, the next, and so on (algorithm
    1, line 4). Other than PairRank's blocks, a layer may be certain of nothing about some document further down.
    """

    needs = (Need(STATED, "ranker=toprank"),)
    offers = frozenset({CERTAIN, LAYERS})

    def propose(self, belief: Belief, candidates: Candidates, random: Random) -> Draft:
        """Draw the order of the layers of `belief.certain`."""
        assert belief.certain is not None
        layer = layers(belief.certain, candidates.mask)
        clock = random.exponential(layer.shape[1]).to(belief.scores.dtype)
        order = shuffle(layer, clock, None, layer.shape[1])
        return Draft(order, -layer.to(belief.scores.dtype), layer, belief.certain)


def layers(above: Bool[Tensor, "B D D"], mask: Bool[Tensor, "B D"]) -> Int[Tensor, "B D"]:
    """The layer of each document, from 0; padding is a last layer of its own.

    Where every document that is left has another above it, which takes a cycle, all of them form the last layer.
    """
    beats = above.float()
    layer = torch.full(mask.shape, mask.shape[1], dtype=torch.int64, device=mask.device)
    left = mask.clone()
    for number in range(mask.shape[1]):
        if on_host(left) and not left.any():
            break
        free = left & (torch.bmm(left.float()[:, None], beats).squeeze(1) == 0)
        free |= left & ~free.any(1, keepdim=True)
        layer.masked_fill_(free, number)
        left &= ~free
    return layer
