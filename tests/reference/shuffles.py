"""Which orders a list of blocks is served in, and how likely each is: PairRank_R and PairRank_C.

Jia et al., PairRank (WWW 2021), line 7 of Algorithm 1 and the two options at the end of Section 3.2.3. How PairRank_C
draws is left open there; Jia and Wang, olRankNet (WWW 2022), Section 3.2, say it: a topological sort that "randomly
chooses vertices with zero in-degree". That is not a uniform draw among all topological orders.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from tests.reference.arrays import Relation
from tests.reference.blocks import transitive_closure

Order = tuple[int, ...]  # the document at each place, top first


def dominators(certain: Relation, shuffle: str) -> list[set[int]]:
    """For every document those that a shuffle keeps above it: nobody for `random`, all certain ones for `conservative`.

    Pairs that a cycle makes certain both ways contradict each other and are not kept.
    """
    closed = transitive_closure(certain)
    kept = closed & ~closed.T & (shuffle == "conservative")
    return [{i for i in range(len(kept)) if kept[i, j]} for j in range(len(kept))]


def order_probabilities(certain: Relation, blocks: Sequence[set[int]], shuffle: str) -> dict[Order, Fraction]:
    """The exact distribution of the served order; orders that cannot occur are absent.

    Block after block, every place goes to one of the free documents, each equally likely; a document of the block is
    free when no unplaced document of the block dominates it. Grows like the factorial: for about 7 documents.
    """
    return _continue((), [set(block) for block in blocks], dominators(certain, shuffle))


def _continue(placed: Order, unplaced: list[set[int]], above: list[set[int]]) -> dict[Order, Fraction]:
    """The distribution of complete orders that begin with `placed`."""
    if not unplaced:
        return {placed: Fraction(1)}
    block, *lower = unplaced
    if not block:
        return _continue(placed, lower, above)
    free = [j for j in sorted(block) if not above[j] & block]
    distribution = {}
    for j in free:
        for order, probability in _continue((*placed, j), [block - {j}, *lower], above).items():
            distribution[order] = probability / len(free)
    return distribution


def order_by_clocks(certain: Relation, blocks: Sequence[set[int]], clocks: Sequence[float], shuffle: str) -> Order:
    """The same draw as a simulation of events: document j rings `clocks[j]` after its last dominator has rung.

    Inside a block (each starts at time 0) documents are placed in the order of ringing, equal times by number. If
    the clocks are independent exponentials of one rate, which forget how long they have run, every free document
    is equally likely to ring next, whatever has happened: the distribution is `order_probabilities`.
    """
    above = dominators(certain, shuffle)
    order: list[int] = []
    for block in blocks:
        waiting = set(block)
        started = {j: 0.0 for j in block if not above[j] & block}
        while waiting:
            now, placed = min((started[j] + clocks[j], j) for j in started)
            order.append(placed)
            waiting.remove(placed)
            del started[placed]
            for j in waiting - started.keys():
                if not above[j] & waiting:
                    started[j] = now
    return tuple(order)
