"""The layers of a partial order that the ranker states: TopRank's partition (Lattimore et al., NeurIPS 2018)."""

from __future__ import annotations

import torch
from torch import Tensor

from ol2r_cli.exploration.ordered_blocks import shuffle
from ol2r_cli.interfaces import CERTAIN, LAYERS, STATED, Candidates, Exploration, Need, Prediction, Proposal
from ol2r_cli.tensor.shapes import Bool, Int
from ol2r_cli.tensor.streams import Random
from ol2r_cli.tensor.synchronisation import is_host_readable


class Stated(Exploration):
    """Serves layers in their order, each in uniformly random order.

    The first layer holds the documents with no other document certainly above. Removing them gives the next layer, and
    so on (algorithm 1, line 4). Unlike PairRank's blocks, documents of different layers need not be a certain pair.
    """

    needs = (Need(STATED, "ranker=toprank"),)
    offers = frozenset({CERTAIN, LAYERS})

    def propose(self, prediction: Prediction, candidates: Candidates, random: Random) -> Proposal:
        """Shuffle the layers of `prediction.certain`."""
        assert prediction.certain is not None
        layer = layers(prediction.certain, candidates.mask)
        clock = random.exponential(layer.shape[1]).to(prediction.scores.dtype)
        order = shuffle(layer, clock, None, layer.shape[1])
        return Proposal(order, -layer.to(prediction.scores.dtype), layer, prediction.certain)


def layers(above: Bool[Tensor, "B D D"], mask: Bool[Tensor, "B D"]) -> Int[Tensor, "B D"]:
    """Return the layer of each document, from 0. Padding has the layer D.

    If every remaining document has another above it, which takes a cycle, all remaining documents are the last layer.
    """
    beats = above.float()
    layer = torch.full(mask.shape, mask.shape[1], dtype=torch.int64, device=mask.device)
    left = mask.clone()
    for number in range(mask.shape[1]):
        if is_host_readable(left) and not left.any():
            break
        free = left & (torch.bmm(left.float()[:, None], beats).squeeze(1) == 0)
        free |= left & ~free.any(1, keepdim=True)
        layer.masked_fill_(free, number)
        left &= ~free
    return layer
