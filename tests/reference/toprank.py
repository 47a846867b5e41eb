"""TopRank, line by line, for one query.

Lattimore, Kveton, Li, Szepesvari: TopRank: A Practical Algorithm for Online Stochastic Ranking (NeurIPS 2018),
Algorithm 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import erf, log, pi, sqrt

C = 4 * sqrt(2 / pi) / erf(sqrt(2))  # 3.34; the 3.43 in print is a slip


@dataclass
class TopRank:
    """Documents 0 .. documents - 1 of one query; each wrong relation has probability at most `delta`.

    Driven from outside: show the blocks of `partition()`, each in a random order, then hand them to `learn` with the
    clicks.
    """

    documents: int
    delta: float
    worse: set[tuple[int, int]] = field(default_factory=set)  # G: (j, i) says that j is worse than i
    s: dict[tuple[int, int], int] = field(init=False)
    n: dict[tuple[int, int], int] = field(init=False)

    def __post_init__(self) -> None:
        """Nothing is known."""
        pairs = [(i, j) for i in range(self.documents) for j in range(self.documents)]
        self.s, self.n = dict.fromkeys(pairs, 0), dict.fromkeys(pairs, 0)

    def partition(self) -> list[list[int]]:
        """P_1, P_2, ..: the layers, best first; inside a layer by number.

        A layer is min_G of what remains: those that are worse than none of the remaining. If a cycle leaves no such
        document (the paper excludes it with high probability), all that remain are one last layer.
        """
        remaining = set(range(self.documents))
        layers = []
        while remaining:
            layer = {i for i in remaining if not any((i, j) in self.worse for j in remaining)}
            layers.append(sorted(layer or remaining))
            remaining -= layer or remaining
        return layers

    def learn(self, blocks: Sequence[Sequence[int]], clicks: Mapping[int, int]) -> None:
        """U, S, N and then G, with the blocks of this round and the clicks of what was shown; all else counts 0.

        U_ij = c_i - c_j inside a block, 0 across; S_ij sums U_ij, N_ij sums |U_ij|.
        """
        for block in blocks:
            for i in block:
                for j in block:
                    u = clicks.get(i, 0) - clicks.get(j, 0)
                    self.s[i, j] += u
                    self.n[i, j] += abs(u)
        for (i, j), n in self.n.items():
            if n > 0 and self.s[i, j] >= sqrt(2 * n * log(C * sqrt(n) / self.delta)):
                self.worse.add((j, i))
