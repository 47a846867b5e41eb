"""FairSwap as printed: Algorithm 4 of chapter 3 of Jia's dissertation; Jia and Wang, 2021, section 4.2.2.

This is plain Python, list by list, for comparison: ten to two hundred times slower than the merge in `templates`.

The sizes of the proposed blocks cut a template into segments, top block first. A block that lacks documents of a group
fetches them from the nearest blocks below. As many of its other documents are pushed down, as a new block right behind
it. Then every block is shuffled as far as its segment of the template allows.

The printed algorithm leaves four points open. Here the fetched documents are the first of their block in the proposed
order, and the displaced ones the last; fetched documents leave their block; a template may end inside a block; and all
blocks are visited (j <= n).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ol2r_cli.fairness.templates import CountedPairs, templates
from ol2r_cli.interfaces import Candidates, Proposal
from ol2r_cli.tensor.shapes import Bool, Float, Int
from ol2r_cli.tensor.streams import Random

CELLS = 1 << 24  # comparisons between documents at once


class FairSwap:
    """Fills templates from the proposals of one round. One permutation per replica shuffles the lists of all templates.

    Proposals need blocks and certain pairs.
    """

    def __init__(self, proposal: Proposal, candidates: Candidates, random: Random):
        assert proposal.block is not None
        assert candidates.group is not None
        self.proposal = proposal
        length, block = candidates.mask.sum(1).tolist(), proposal.block.tolist()
        real = [order[:end] for order, end in zip(proposal.order.tolist(), length, strict=True)]
        self.padding = [order[end:] for order, end in zip(proposal.order.tolist(), length, strict=True)]
        self.blocks = [_blocks(order, number) for order, number in zip(real, block, strict=True)]
        self.group = candidates.group.tolist()
        self.chance = random.uniform(candidates.mask.shape[1]).tolist()

    def fill(self, replica: int, template: Sequence[int]) -> list[int]:
        """Return all documents of a replica, padding last. ValueError if the template needs too many of a group."""
        group, chance = self.group[replica], self.chance[replica]
        order: list[int] = []
        for block in calibrated(self.blocks[replica], group, template):
            segment = template[len(order) : len(order) + len(block)]
            order += _filled(sorted(block, key=chance.__getitem__), group, segment)
        return order + self.padding[replica]

    def rerank(self, template: Int[Tensor, "B"], positions: int) -> Int[Tensor, "B D"]:
        """Return the lists of one template of K = `positions` places for each replica."""
        chosen = templates(positions, template.device).group[template].tolist()
        orders = [self.fill(replica, self._cut(replica, groups)) for replica, groups in enumerate(chosen)]
        return torch.tensor(orders, device=template.device)

    def broken_pairs(self, allowed: Bool[Tensor, "B S"], positions: int, count: CountedPairs) -> Float[Tensor, "B S"]:
        """Return the number of certain pairs that each `allowed` template reverses; infinity for other templates.

        `count` is `all` for the whole order or `shown` for the K shown documents. Unlike with the merge in `templates`,
        pairs inside a group may break.
        """
        assert self.proposal.certain is not None
        cost = torch.full(allowed.shape, torch.inf, dtype=torch.float64, device=allowed.device)
        group = templates(positions, allowed.device).group
        for replica, certain in enumerate(self.proposal.certain):
            numbers = allowed[replica].nonzero()[:, 0]
            orders = [self.fill(replica, self._cut(replica, groups)) for groups in group[numbers].tolist()]
            rank = torch.tensor(orders, device=allowed.device).argsort(1)  # [s D]: place of each document
            last = rank.shape[1] if count == "all" else positions
            chunks = rank.split(max(1, CELLS // certain.numel()))
            cost[replica, numbers] = torch.cat([_reversed(certain, chunk, last) for chunk in chunks])
        return cost

    def _cut(self, replica: int, template: list[int]) -> list[int]:
        """Return the template without the places below the end of a short query."""
        return template[: sum(map(len, self.blocks[replica]))]


def calibrated(blocks: Sequence[Sequence[int]], group: Sequence[int], template: Sequence[int]) -> list[list[int]]:
    """Return blocks with the groups that their segments of the template need (lines 3 to 15); some may be empty.

    ValueError if the template needs more documents of a group than there are.
    """
    rest, done, start = [list(block) for block in blocks], [], 0
    while rest and start < len(template):
        block = rest.pop(0)
        segment = template[start : start + len(block)]
        start += len(block)
        for wanted in (0, 1):  # at most one group is lacking, because a segment is no longer than its block
            lacking = segment.count(wanted) - sum(group[d] == wanted for d in block)
            if lacking > 0:
                displaced = [d for d in block if group[d] != wanted][-lacking:]
                block = [d for d in block if d not in displaced] + _fetch(rest, group, wanted, lacking)
                rest.insert(0, displaced)
                break
        done.append(block)
    return done + rest


def _fetch(lower: list[list[int]], group: Sequence[int], wanted: int, count: int) -> list[int]:
    """Remove `count` documents of a group from the nearest blocks and return them."""
    fetched: list[int] = []
    for block in lower:
        taken = [d for d in block if group[d] == wanted][: count - len(fetched)]
        fetched += taken
        block[:] = [d for d in block if d not in taken]
    if len(fetched) < count:
        raise ValueError(f"template must have no more documents of group {wanted} than the query")
    return fetched


def _filled(shuffled: Sequence[int], group: Sequence[int], segment: Sequence[int]) -> list[int]:
    """Return the documents that fill the segment, each group in shuffled order, then the remaining documents."""
    queues = [[d for d in shuffled if group[d] == number] for number in (0, 1)]
    top = [queues[number].pop(0) for number in segment]
    return top + [d for d in shuffled if d not in top]


def _blocks(order: Sequence[int], number: Sequence[int]) -> list[list[int]]:
    """Return the documents of an order, cut where the block number changes."""
    blocks: list[list[int]] = []
    for place, document in enumerate(order):
        if not place or number[document] != number[order[place - 1]]:
            blocks.append([])
        blocks[-1].append(document)
    return blocks


def _reversed(certain: Bool[Tensor, "D D"], rank: Int[Tensor, "s D"], last: int) -> Float[Tensor, "s"]:
    """Return the number of certain pairs that are reversed within the first `last` places."""
    upside_down = (rank[:, :, None] > rank[:, None, :]) & (rank < last)[:, :, None] & certain
    return upside_down.sum((1, 2)).double()
