"""FairSwap as printed: Algorithm 4 of chapter 3 of Jia's dissertation; Jia and Wang, 2021, section 4.2.2. In plain
Python, list by list, for comparison: ten to two hundred times slower than the merge of `templates`.

A template is cut by the sizes of the draft's blocks, top block first. A block that lacks documents of a group fetches
them from the nearest blocks below, and as many of its others are pushed down, as a new block right behind it. Then
every block is shuffled as far as its segment of the template allows.

What the print leaves open: fetched are the first documents of a block in the draft's order, pushed down the last;
fetched documents leave their block; a template may end inside a block; blocks are walked to the last one (j <= n).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ol2r_cli.fairness.templates import templates
from ol2r_cli.interfaces import Candidates, Draft
from ol2r_cli.random import Random
from ol2r_cli.shapes import Bool, Float, Int

CELLS = 1 << 24  # of comparisons between documents, in one go


class FairSwap:
    """The lists that templates make of a round's drafts; a permutation, drawn once for each replica, shuffles them."""

    def __init__(self, draft: Draft, candidates: Candidates, random: Random):
        assert draft.block is not None
        assert candidates.group is not None
        self.draft = draft
        length, block = candidates.mask.sum(1).tolist(), draft.block.tolist()
        real = [order[:end] for order, end in zip(draft.order.tolist(), length, strict=True)]
        self.padding = [order[end:] for order, end in zip(draft.order.tolist(), length, strict=True)]
        self.blocks = [_blocks(order, number) for order, number in zip(real, block, strict=True)]
        self.group = candidates.group.tolist()
        self.chance = random.uniform(candidates.mask.shape[1]).tolist()

    def arrange(self, replica: int, template: Sequence[int]) -> list[int]:
        """All documents of a replica, padding last; ValueError where a group of the template has too few."""
        group, chance = self.group[replica], self.chance[replica]
        order: list[int] = []
        for block in calibrated(self.blocks[replica], group, template):
            segment = template[len(order) : len(order) + len(block)]
            order += _filled(sorted(block, key=chance.__getitem__), group, segment)
        return order + self.padding[replica]

    def arranged(self, template: Int[Tensor, "B"], positions: int) -> Int[Tensor, "B D"]:
        """The lists of one template of K = `positions` places for each replica."""
        chosen = templates(positions, template.device).group[template].tolist()
        orders = [self.arrange(replica, self._cut(replica, one)) for replica, one in enumerate(chosen)]
        return torch.tensor(orders, device=template.device)

    def broken(self, allowed: Bool[Tensor, "B S"], positions: int, count: str) -> Float[Tensor, "B S"]:
        """How many certain pairs the lists of the `allowed` templates reverse: in the whole order (`count` = all), or
        among the K `shown`; infinity for other templates. Other than with the merge, pairs of one group may break."""
        assert self.draft.certain is not None
        cost = torch.full(allowed.shape, torch.inf, dtype=torch.float64, device=allowed.device)
        group = templates(positions, allowed.device).group
        for replica, certain in enumerate(self.draft.certain):
            there = allowed[replica].nonzero()[:, 0]
            orders = [self.arrange(replica, self._cut(replica, one)) for one in group[there].tolist()]
            rank = torch.tensor(orders, device=allowed.device).argsort(1)  # [s D]: place of each document
            last = rank.shape[1] if count == "all" else positions
            chunks = rank.split(max(1, CELLS // certain.numel()))
            cost[replica, there] = torch.cat([_reversed(certain, chunk, last) for chunk in chunks])
        return cost

    def _cut(self, replica: int, template: list[int]) -> list[int]:
        return template[: sum(map(len, self.blocks[replica]))]


def calibrated(blocks: Sequence[Sequence[int]], group: Sequence[int], template: Sequence[int]) -> list[list[int]]:
    """Blocks with the groups that their segments of the template ask for: lines 3 to 15. Empty ones may remain.

    ValueError where a group of the template has too few documents.
    """
    rest, done, start = [list(block) for block in blocks], [], 0
    while rest and start < len(template):
        block = rest.pop(0)
        segment = template[start : start + len(block)]
        start += len(block)
        for wanted in (0, 1):  # of one group at most: a segment is no longer than its block
            lacking = segment.count(wanted) - sum(group[d] == wanted for d in block)
            if lacking > 0:
                displaced = [d for d in block if group[d] != wanted][-lacking:]
                block = [d for d in block if d not in displaced] + _fetched(rest, group, wanted, lacking)
                rest.insert(0, displaced)
                break
        done.append(block)
    return done + rest


def _fetched(lower: list[list[int]], group: Sequence[int], wanted: int, count: int) -> list[int]:
    """Takes so many documents of a group out of the nearest blocks."""
    fetched: list[int] = []
    for block in lower:
        found = [d for d in block if group[d] == wanted][: count - len(fetched)]
        fetched += found
        block[:] = [d for d in block if d not in found]
    if len(fetched) < count:
        raise ValueError(f"template must have no more documents of group {wanted} than the query")
    return fetched


def _filled(shuffled: Sequence[int], group: Sequence[int], segment: Sequence[int]) -> list[int]:
    """The groups of the segment, each by the order of the shuffle; who is left follows."""
    queue = [[d for d in shuffled if group[d] == number] for number in (0, 1)]
    top = [queue[number].pop(0) for number in segment]
    return top + [d for d in shuffled if d not in top]


def _blocks(order: Sequence[int], number: Sequence[int]) -> list[list[int]]:
    """The documents of an order, cut where their block ends."""
    blocks: list[list[int]] = []
    for place, document in enumerate(order):
        if not place or number[document] != number[order[place - 1]]:
            blocks.append([])
        blocks[-1].append(document)
    return blocks


def _reversed(certain: Bool[Tensor, "D D"], rank: Int[Tensor, "s D"], last: int) -> Float[Tensor, "s"]:
    """Certain pairs that stand the other way round within the first `last` places."""
    upside_down = (rank[:, :, None] > rank[:, None, :]) & (rank < last)[:, :, None] & certain
    return upside_down.sum((1, 2)).double()
