"""Group placements of the first K places, and what each of them costs: 2^K templates without a loop over them.

A template says for every place whether it takes a document of group 0 or of group 1; it takes the next one of that
group in the draft's order, as if two queues were merged. So a template is a path on a grid, one step per place. After
j places of the other group, the next document of a queue overtakes whoever of the other queue stands above it in the
draft and is not among the first j: what that breaks depends on the document and j alone, and the cost of a template is
the sum along its path.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from ol2r_cli.rows import pick, places
from ol2r_cli.shapes import Bool, Float, Int

MOST = 12  # places: there are 2^K templates


class Templates(NamedTuple):
    """All templates of K places, as binary numbers in ascending order: 00..0 to 11..1."""

    group: Int[Tensor, "S K"]
    own: Int[Tensor, "S K"]  # places of the same group above
    other: Int[Tensor, "S K"]  # places of the other group above
    ones: Int[Tensor, "S K+1"]  # places of group 1 among the first so many


@cache
def templates(positions: int, device: torch.device) -> Templates:
    """Shared, not to be written to. ValueError for more than 12 places."""
    if positions > MOST:
        raise ValueError(f"positions must be at most {MOST} with fairness=fairexp, got {positions}")
    number, place = torch.arange(1 << positions, device=device), places(positions, device)
    group = number[:, None] >> place.flip(0) & 1
    ones = pad(group.cumsum(1), (1, 0))
    own = torch.where(group == 1, ones[:, :-1], place - ones[:, :-1])
    return Templates(group, own, place - own, ones)


class Queues(NamedTuple):
    """The documents of both groups as the draft orders them."""

    place: Int[Tensor, "B 2 K"]  # in the draft, of the first K of each group; beyond its last one any place
    held: Int[Tensor, "B 2"]  # documents of each group


def queues(group: Int[Tensor, "B D"], real: Bool[Tensor, "B D"], positions: int) -> Queues:
    """From the groups of the documents in the draft's order."""
    member = torch.stack([real & (group == number) for number in (0, 1)], 1)
    place = (~member).int().argsort(stable=True, dim=2)[:, :, :positions]
    return Queues(pad(place, (0, positions - place.shape[2])), member.sum(2))


def broken(
    certain: Bool[Tensor, "B D D"], group: Int[Tensor, "B D"], queue: Queues, count: str
) -> Float[Tensor, "B S"]:
    """How many certain pairs each template breaks: in the whole order (`count` = all), or among the K `shown`.

    [i, j] of `certain`: the document at place i of the draft is certainly above the one at place j > i. Only pairs
    of the two groups can break, because each queue keeps its order.
    """
    positions = queue.place.shape[2]
    every, first = [], []
    for own, other in ((0, 1), (1, 0)):
        above = pick(certain.mT, queue.place[:, own]) & (group == other)[:, None]  # [B K D]: certainly above the own
        leading = pick(above.mT, queue.place[:, other]).mT  # [B K K]: and among the first K of the other queue
        leading = leading & (places(positions, group.device) < queue.held[:, other, None])[:, None]
        every.append(above.sum(2))
        first.append(pad(leading.cumsum(2), (1, 0)))
    table, template = torch.stack(first, 1), templates(positions, group.device)
    row = template.group * positions + template.own
    already = table.flatten(1)[:, row * (positions + 1) + template.other]
    if count == "all":
        there = torch.stack(every, 1).flatten(1)[:, row]
    else:
        ones = template.ones[:, -1:]
        last = torch.where(template.group == 1, positions - ones, ones)
        there = table.flatten(1)[:, row * (positions + 1) + last]
    return (there - already).sum(2).double()


def fillable(queue: Queues, length: Int[Tensor, "B"]) -> Bool[Tensor, "B S"]:
    """Whether there are documents enough of both groups for the first min(K, length) places; of templates that differ
    below those alone, the first counts."""
    positions = queue.place.shape[2]
    ones = templates(positions, length.device).ones
    filled = length.clamp(max=positions)
    second = ones[:, filled].T
    fits = (second <= queue.held[:, 1, None]) & (filled[:, None] - second <= queue.held[:, 0, None])
    return fits & (ones[:, -1] == second)


def merged(template: Int[Tensor, "B"], queue: Queues, length: Int[Tensor, "B"], documents: int) -> Int[Tensor, "B D"]:
    """The places of the draft in their new order: the template's at the top, the others below as they were."""
    positions = queue.place.shape[2]
    group, own, _, _ = templates(positions, template.device)
    taken = queue.place.flatten(1).gather(1, (group * positions + own)[template])
    slot = places(positions, template.device)
    taken = torch.where(slot < length[:, None], taken, documents)  # below a short list: nothing
    key = (places(documents + 1, template.device) + positions).repeat(len(template), 1)
    return key.scatter_(1, taken, slot.expand_as(taken))[:, :documents].argsort(1)
