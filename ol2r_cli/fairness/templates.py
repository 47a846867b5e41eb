"""Templates: assignments of the first K places to two groups, and how many certain pairs each of them breaks.

A template says for every place whether it takes a document of group 0 or of group 1, and takes the next document of
that group in the proposed order, as if two queues were merged. So a template is a path on a grid, one step per place.
After j places of the other group, the next document of a queue overtakes every document of the other queue that is
above it in the proposal and not among the first j. The broken pairs depend on the document and j alone, so the cost of
a template is a sum along its path, and all 2^K templates are computed without a loop.
"""

from __future__ import annotations

from functools import cache
from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from ol2r_cli.tensor.gather import cached_arange, gather
from ol2r_cli.tensor.shapes import Bool, Float, Int

MOST = 12  # places: there are 2^K templates

CountedPairs = Literal["all", "shown"]  # which broken pairs count


class Templates(NamedTuple):
    """All templates of K places, as binary numbers in ascending order: 00..0 to 11..1.

    A step is one document and the number of places of the other group above it. It is the index of a cell in a
    flattened table [2, K, K + 1] of group, place in the group's queue, and that number.
    """

    group: Int[Tensor, "S K"]
    step: Int[Tensor, "S K"]
    end: Int[Tensor, "S K"]  # the step of the same document, below all places of the other group
    ones: Int[Tensor, "K1 S"]  # number of places of group 1 among the first 0, 1, .., K


@cache
def templates(positions: int, device: torch.device) -> Templates:
    """Return the templates of K = `positions` places. The tensors are shared. ValueError for more than 12 places."""
    if positions > MOST:
        raise ValueError(f"positions must be at most {MOST} with fairness=fairexp, got {positions}")
    number, place = torch.arange(1 << positions, device=device), cached_arange(positions, device)
    group = number[:, None] >> place.flip(0) & 1
    ones = pad(group.cumsum(1), (1, 0))
    same_above = torch.where(group == 1, ones[:, :-1], place - ones[:, :-1])
    row = (group * positions + same_above) * (positions + 1)
    others = torch.where(group == 1, positions - ones[:, -1:], ones[:, -1:])
    return Templates(group, row + place - same_above, row + others, ones.T.contiguous())


class GroupQueues(NamedTuple):
    """The documents of both groups in the proposed order."""

    place: Int[Tensor, "B 2 K"]  # proposed places of the first K documents of each group; arbitrary beyond the last
    size: Int[Tensor, "B 2"]  # number of documents of each group


def group_queues(group: Int[Tensor, "B D"], positions: int) -> GroupQueues:
    """Return the queues, given the groups of the documents in proposed order. Padding has neither group."""
    member = torch.stack([group == number for number in (0, 1)], 1)
    place = (~member).int().argsort(stable=True, dim=2)[:, :, :positions]
    return GroupQueues(pad(place, (0, positions - place.shape[2])), member.sum(2))


def broken_pairs(
    certain: Bool[Tensor, "B D D"],
    order: Int[Tensor, "B D"],
    group: Int[Tensor, "B D"],
    queues: GroupQueues,
    count: CountedPairs,
) -> Float[Tensor, "B S"]:
    """Return how many of the certain pairs that the proposal keeps each template breaks.

    `count` is `all` for the whole order or `shown` for the K shown documents. `certain` is indexed by document, `group`
    by place in the proposed `order`. Only pairs of two groups can break, because each queue keeps its order.
    """
    positions, place = queues.place.shape[2], queues.place.flatten(1)
    above = gather(certain.mT, order.gather(1, place))  # [B 2K D]: documents certainly above that of the queue
    above = above.gather(2, order[:, None].expand_as(above)) & (
        cached_arange(order.shape[1], order.device) < place[:, :, None]
    )
    other = torch.stack([group == 1, group == 0], 1)[:, :, None]
    above = above.unflatten(1, (2, positions)) & other
    leading = above.gather(3, queues.place.flip(1)[:, :, None].expand(-1, -1, positions, -1))  # by the other queue
    leading &= (cached_arange(positions, order.device) < queues.size.flip(1)[:, :, None])[:, :, None]
    template, ahead = templates(positions, order.device), pad(leading.cumsum(3), (1, 0)).flatten(1)
    if count == "shown":
        return _path_sums(template.end, ahead) - _path_sums(template.step, ahead)
    every = above.sum(3)[..., None].expand(-1, -1, -1, positions + 1).flatten(1)
    return _path_sums(template.step, every - ahead)


def _path_sums(path: Int[Tensor, "S K"], table: Int[Tensor, "B C"]) -> Float[Tensor, "B S"]:
    """Return the sum of the table's cells on the path of each template."""
    return table.double().index_select(1, path.flatten()).unflatten(1, path.shape).sum(2)


def fillable(queues: GroupQueues, length: Int[Tensor, "B"]) -> Bool[Tensor, "B S"]:
    """Return whether both groups have enough documents for the first min(K, length) places of each template.

    Of templates that differ only below these places, only the first is True.
    """
    positions = queues.place.shape[2]
    ones = templates(positions, length.device).ones
    filled = length.clamp(max=positions)
    second = ones.index_select(0, filled)
    fits = (second <= queues.size[:, 1, None]) & (filled[:, None] - second <= queues.size[:, 0, None])
    return fits & (ones[-1] == second)


def merge(
    template: Int[Tensor, "B"], queues: GroupQueues, length: Int[Tensor, "B"], documents: int
) -> Int[Tensor, "B D"]:
    """Return the proposed places in their new order: those of the template at the top, the others as they were."""
    positions = queues.place.shape[2]
    step = templates(positions, template.device).step.index_select(0, template)
    taken = queues.place.flatten(1).gather(1, step // (positions + 1))
    slot = cached_arange(positions, template.device)
    taken = torch.where(slot < length[:, None], taken, documents)  # a short list takes nothing below its end
    key = (cached_arange(documents + 1, template.device) + positions).repeat(len(template), 1)
    return key.scatter_(1, taken, slot.expand_as(taken))[:, :documents].argsort(1)
