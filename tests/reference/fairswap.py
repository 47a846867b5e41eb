"""A list that has the groups of a placement template at its top: FairSwap as printed, and a merge of two queues.

Jia and Wang, "Calibrating Explore-Exploit Trade-off for Fair Online Learning to Rank" (2021), section 4.2.2, Theorem 2
and section 4.2.3; Jia's dissertation, chapter 3, Algorithm 4. Documents are numbers, `groups[d]` is "A" or "B", and
`blocks` are ordered, top block first; inside a block, documents stand in the order of the draft.

Where the paper is silent or slips:
1. Line 8 says j < n, but Figure 3.1 fetches from the last block: it is j <= n, with the blocks inserted so far.
2. That fetched documents leave their block is not printed, nor what happens where too few exist: see `is_fillable`.
3. Which documents are moved is "arbitrary" (section 4.2.2) or "those known to be better than many others" (4.2.3).
   Here the first of the block's draft order move up and the last move down, which covers both: a uniformly random
   draft order is the former, one that keeps certain pairs the latter.
4. The template may end inside a block: the segment is then shorter than the block, whose other documents follow it.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.reference.shuffles import Order

Blocks = Sequence[Sequence[int]]


def is_fillable(template: str, groups: str) -> bool:
    """Whether the query has enough documents of each group."""
    return all(template.count(group) <= groups.count(group) for group in "AB")


def merge(order: Sequence[int], groups: str, template: str) -> Order:
    """Each place of the template takes the next document of its group in draft order; all others follow in that order.

    `order` may be part of the documents.
    """
    queues = {group: [d for d in order if groups[d] == group] for group in "AB"}
    top = [queues[group].pop(0) for group in template]
    return (*top, *(d for d in order if d not in top))


def missing_group(segment: str, block: Sequence[int], groups: str) -> tuple[str, int]:
    """Line 6: the group of which the block has too few documents, and how many it lacks; 0 if none.

    Only one group can lack any, because a segment is no longer than its block.
    """
    for group in "AB":
        lacking = segment.count(group) - sum(groups[d] == group for d in block)
        if lacking > 0:
            return group, lacking
    return "", 0


def calibrate(blocks: Blocks, groups: str, template: str) -> list[list[int]]:
    """Lines 3 to 15: blocks that have the groups of their segments of the template; empty ones are left out."""
    calibrated = [list(block) for block in blocks]
    start = i = 0
    while i < len(calibrated):  # also over the blocks that are inserted on the way
        block = calibrated[i]
        segment = template[start : start + len(block)]
        start += len(block)
        group, count = missing_group(segment, block, groups)
        if count:
            fetched: list[int] = []
            for lower in calibrated[i + 1 :]:
                found = [d for d in lower if groups[d] == group][: count - len(fetched)]
                fetched += found
                lower[:] = [d for d in lower if d not in found]
            displaced = [d for d in block if groups[d] != group][-count:]
            calibrated[i] = [d for d in block if d not in displaced] + fetched
            calibrated.insert(i + 1, displaced)
        i += 1
    return [block for block in calibrated if block]


def generate_ranking(calibrated: Blocks, groups: str, template: str, shuffle: Sequence[int]) -> Order:
    """Line 16: block after block, its documents shuffled, as far as its segment of the template allows.

    `shuffle` is a permutation of all documents; each block follows it. A uniformly random one shuffles every block
    uniformly and independently of the others.
    """
    order: Order = ()
    for block in calibrated:
        segment = template[len(order) : len(order) + len(block)]
        order += merge(sorted(block, key=list(shuffle).index), groups, segment)
    return order


def paper(blocks: Blocks, groups: str, template: str, shuffle: Sequence[int]) -> Order:
    """FairSwap, Algorithm 4 as printed. Fetched documents are shuffled with those they join."""
    return generate_ranking(calibrate(blocks, groups, template), groups, template, shuffle)
