"""FairExp over TopRank: what differs from FairExp over PairRank.

Jia's dissertation, chapter 3, evaluates "FairExp-TopRank" on 10 queries for 10,000 rounds, but prints no algorithm for
it; Jia and Wang (2021), section 4.2.3, say only that templates "restrict their confidence interval based topological
sort". So this is Algorithm 3 with the parts of TopRank (Lattimore et al. 2018, Algorithm 1) in their places:

1. The certain orders are G, which TopRank collects for each query by itself. G is not closed transitively.
2. The blocks are the layers of G. A document has a better one in the layer just above, but pairs across layers need
   not be in G, so Theorem 2 does not hold for the violations of G: the list is a heuristic.
3. Unfairness is summed over all queries, as in Eq. (3.1.1), although nothing else is shared by them.
4. U compares clicks inside the layers of the draft. FairExp places the groups inside a layer by a template, not by the
   uniform shuffle that TopRank's bound assumes: where exposure falls with the rank, pairs of two groups are biased.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from ol2r_cli.tensor.shapes import Bool
from tests.reference.fairexp import Choice, choose, lists
from tests.reference.shuffles import Order
from tests.reference.toprank import TopRank
from tests.reference.violations import broken


def stated(ranker: TopRank) -> Bool[np.ndarray, "D D"]:
    """[i, j]: G says that j is worse than i."""
    certain = np.zeros((ranker.documents, ranker.documents), dtype=bool)
    for worse, better in ranker.worse:
        certain[better, worse] = True
    return certain


def added_regret(order: Order, certain: Bool[np.ndarray, "D D"], layers: Sequence[Sequence[int]]) -> int:
    """The pairs of G that the whole order reverses. Inside a layer there are none, unless G has a cycle."""
    return sum(broken(order, certain, layers))


@dataclass
class FairTopRank:
    """FairExp with one TopRank per query; `groups` has the groups of every query's documents."""

    groups: Mapping[int, str]
    delta: float
    exposed: Sequence[float]
    beta: float
    epsilon: float
    unfairness: float = 0.0  # UF_{t-1}, of all queries together
    rankers: dict[int, TopRank] = field(default_factory=dict)

    def round(self, query: int, shuffle: Sequence[int], user: Callable[[Order], Mapping[int, int]]) -> Choice:
        """One round: layers, each in the order of the permutation `shuffle`, are merged, shown and learnt from.

        `user` is handed the shown documents and says which were clicked (1) and which not (0).
        """
        groups = self.groups[query]
        ranker = self.rankers.setdefault(query, TopRank(len(groups), self.delta))
        layers = ranker.partition()
        proposal = [document for layer in layers for document in sorted(layer, key=list(shuffle).index)]
        arranged = lists(proposal, groups, len(self.exposed))
        added = partial(added_regret, certain=stated(ranker), layers=layers)
        choice = choose(arranged, added, self.unfairness, self.exposed, self.beta, self.epsilon)
        self.unfairness = choice.unfairness
        ranker.learn(layers, user(choice.order[: len(self.exposed)]))
        return choice
