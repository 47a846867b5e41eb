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
    """All templates of K places, as binary numbers in ascending order: 00..0 to 11..1.

    A step is the document that a place takes and how many places of the other group are above: a cell of a table
    [2 K K+1] of group, place in its queue, and that number.
    """

    group: Int[Tensor, "S K"]
    step: Int[Tensor, "S K"]
    end: Int[Tensor, "S K"]  # the same document below all of the template's places of the other group
    ones: Int[Tensor, "K1 S"]  # places of group 1 among the first 0, 1, .., K


@cache
def templates(positions: int, device: torch.device) -> Templates:
    """Shared, not to be written to. ValueError for more than 12 places."""
    if positions > MOST:
        raise ValueError(f"positions must be at most {MOST} with fairness=fairexp, got {positions}")
    number, place = torch.arange(1 << positions, device=device), places(positions, device)
    group = number[:, None] >> place.flip(0) & 1
    ones = pad(group.cumsum(1), (1, 0))
    own = torch.where(group == 1, ones[:, :-1], place - ones[:, :-1])
    row = (group * positions + own) * (positions + 1)
    others = torch.where(group == 1, positions - ones[:, -1:], ones[:, -1:])
    return Templates(group, row + place - own, row + others, ones.T.contiguous())


class Queues(NamedTuple):
    """The documents of both groups as the draft orders them."""

    place: Int[Tensor, "B 2 K"]  # in the draft, of the first K of each group; beyond its last one any place
    held: Int[Tensor, "B 2"]  # documents of each group


def queues(group: Int[Tensor, "B D"], positions: int) -> Queues:
    """From the groups of the documents in the draft's order; padding is in neither group."""
    member = torch.stack([group == number for number in (0, 1)], 1)
    place = (~member).int().argsort(stable=True, dim=2)[:, :, :positions]
    return Queues(pad(place, (0, positions - place.shape[2])), member.sum(2))


def broken(
    certain: Bool[Tensor, "B D D"], order: Int[Tensor, "B D"], group: Int[Tensor, "B D"], queue: Queues, count: str
) -> Float[Tensor, "B S"]:
    """How many certain pairs that the draft keeps each template breaks: in the whole order (`count` = all), or among
    the K `shown`.

    `certain` is by document, `group` down the draft's `order`. Only pairs of two groups can break, because each queue
    keeps its order.
    """
    positions, place = queue.place.shape[2], queue.place.flatten(1)
    above = pick(certain.mT, order.gather(1, place))  # [B 2K D]: certainly above the document of a queue
    above = above.gather(2, order[:, None].expand_as(above)) & (
        places(order.shape[1], order.device) < place[:, :, None]
    )
    other = torch.stack([group == 1, group == 0], 1)[:, :, None]
    above = above.unflatten(1, (2, positions)) & other
    leading = above.gather(3, queue.place.flip(1)[:, :, None].expand(-1, -1, positions, -1))  # and in the other queue
    leading &= (places(positions, order.device) < queue.held.flip(1)[:, :, None])[:, :, None]
    template, ahead = templates(positions, order.device), pad(leading.cumsum(3), (1, 0)).flatten(1)
    if count == "shown":
        return _along(template.end, ahead) - _along(template.step, ahead)
    every = above.sum(3)[..., None].expand(-1, -1, -1, positions + 1).flatten(1)
    return _along(template.step, every - ahead)


def _along(path: Int[Tensor, "S K"], table: Int[Tensor, "B C"]) -> Float[Tensor, "B S"]:
    """The sum of a table's cells on the path of each template."""
    return table.double().index_select(1, path.flatten()).unflatten(1, path.shape).sum(2)


def fillable(queue: Queues, length: Int[Tensor, "B"]) -> Bool[Tensor, "B S"]:
    """Whether there are documents enough of both groups for the first min(K, length) places; of templates that differ
    below those alone, the first counts."""
    positions = queue.place.shape[2]
    ones = templates(positions, length.device).ones
    filled = length.clamp(max=positions)
    second = ones.index_select(0, filled)
    fits = (second <= queue.held[:, 1, None]) & (filled[:, None] - second <= queue.held[:, 0, None])
    return fits & (ones[-1] == second)


def merged(template: Int[Tensor, "B"], queue: Queues, length: Int[Tensor, "B"], documents: int) -> Int[Tensor, "B D"]:
    """The places of the draft in their new order: the template's at the top, the others below as they were."""
    positions = queue.place.shape[2]
    step = templates(positions, template.device).step.index_select(0, template)
    taken = queue.place.flatten(1).gather(1, step // (positions + 1))
    slot = places(positions, template.device)
    taken = torch.where(slot < length[:, None], taken, documents)  # below a short list: nothing
    key = (places(documents + 1, template.device) + positions).repeat(len(template), 1)
    return key.scatter_(1, taken, slot.expand_as(taken))[:, :documents].argsort(1)
