"""Rankers that forget old pairs, from plain sums over the whole history: what a pair counts, the estimate, the widths.

Sliding window and discount as in Garivier and Moulines (ALT 2011); the widths with a discount as in Russac, Vernade and
Cappé, Weighted Linear Bandits for Non-Stationary Environments (NeurIPS 2019), Algorithm 1, where V is M and V~ is M~.
Nothing here is updated from one round to the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ol2r_cli.tensor.shapes import Bool, Float
from tests.reference.blocks import partition, transitive_closure
from tests.reference.objective import objective, optimum, sigmoid
from tests.reference.shuffles import Order, order_by_clocks


def weight(age: int, window: int | None, discount: float) -> float:
    """What a pair counts that was observed `age` rounds before the latest round."""
    return discount**age if window is None or age < window else 0.0


def weighted(
    rounds: Sequence[Float[np.ndarray, "M F"]], window: int | None, discount: float
) -> list[tuple[Float[np.ndarray, "F"], float]]:
    """The pairs of all rounds, the last of which has age 0, each with its weight."""
    return [(pair, weight(len(rounds) - 1 - t, window, discount)) for t, pairs in enumerate(rounds) for pair in pairs]


def information(pairs: Sequence[tuple[np.ndarray, float]], l2: float, features: int, power: int = 1):
    """M = l2 I + sum of w x x^T, or with `power` 2 M~ = l2 I + sum of w^2 x x^T."""
    total = l2 * np.eye(features)
    for x, w in pairs:
        total += w**power * np.outer(x, x)
    return total


def width(x: Float[np.ndarray, "F"], m: np.ndarray, squared: np.ndarray, covariance: str) -> float:
    """|x| in the norm of M^-1 M~ M^-1, of its diagonal, or of that product of the diagonals of M and M~."""
    inverse = np.linalg.inv(m)
    norm = inverse @ squared @ inverse
    if covariance == "diagonal":
        norm = np.diag(np.diag(norm))
    elif covariance == "inverse_diagonal":
        norm = np.diag([squared[f, f] / m[f, f] ** 2 for f in range(len(x))])
    return float(np.sqrt(max(x @ norm @ x, 0.0)))


def theoretical_alpha(m: Float[np.ndarray, "F F"], l2: float, delta: float, c_mu: float) -> float:
    """alpha_t of Lemma 2: (2 k_mu / c_mu) (sqrt(r^2 log(det M / (delta^2 det l2 I))) + sqrt(l2) q).

    r: sub-Gaussian parameter of click noise, q: bound on |theta|, k_mu: Lipschitz constant of the sigmoid, 1 - delta:
    probability that the interval holds.
    """
    r, q, k_mu = 0.5, 1.0, 0.25
    log_ratio = np.linalg.slogdet(m)[1] - np.linalg.slogdet(l2 * np.eye(len(m)))[1] - 2 * np.log(delta)
    return float(2 * k_mu / c_mu * (np.sqrt(r**2 * log_ratio) + np.sqrt(l2) * q))


@dataclass
class ForgetfulPairRank:
    """PairRank that forgets: ask for an order with `propose`, hand the pairs of every round to `learn`."""

    features: int
    l2: float
    alpha: float
    covariance: str
    reduction: str
    window: int | None
    discount: float
    theta: Float[np.ndarray, "F"] = field(init=False)
    rounds: list[Float[np.ndarray, "M F"]] = field(default_factory=list)

    @property
    def pairs(self) -> list[tuple[np.ndarray, float]]:
        """All pairs so far with their weights."""
        return weighted(self.rounds, self.window, self.discount)

    def certain(self, documents: Float[np.ndarray, "D F"], transitive: bool = True) -> Bool[np.ndarray, "D D"]:
        """[i, j] iff sigma(x_ij.theta) - 1/2 > alpha |x_ij|; a window's pairs all count 1, so that M~ = M."""
        m, squared = (information(self.pairs, self.l2, self.features, power) for power in (1, 2))
        certain = np.zeros((len(documents), len(documents)), dtype=bool)
        for i, first in enumerate(documents):
            for j, second in enumerate(documents):
                x = first - second
                if i != j:
                    if self.discount == 1 and self.covariance == "inverse_diagonal":
                        length = float(np.sqrt(sum(value**2 / m[f, f] for f, value in enumerate(x))))
                    elif self.discount == 1 and self.covariance == "diagonal":
                        length = float(np.sqrt(x**2 @ np.diag(np.linalg.inv(m))))
                    else:
                        length = width(x, m, squared, self.covariance)
                    certain[i, j] = sigmoid(float(x @ self.theta)) - 0.5 > self.alpha * length
        return transitive_closure(certain) if transitive else certain

    def propose(
        self, documents: Float[np.ndarray, "D F"], clocks: Sequence[float], shuffle: str, transitive: bool
    ) -> Order:
        """The order of the blocks, each in random order by exponential clocks."""
        certain = self.certain(documents, transitive)
        return order_by_clocks(certain, partition(certain), clocks, shuffle)

    def blocks(self, documents: Float[np.ndarray, "D F"], transitive: bool = True) -> list[set[int]]:
        """The blocks of a list."""
        return partition(self.certain(documents, transitive))

    def learn(self, winners: Float[np.ndarray, "M F"], losers: Float[np.ndarray, "M F"]) -> None:
        """Remember a round, also one without pairs."""
        self.rounds.append(winners - losers)

    def excess(self, theta: Float[np.ndarray, "F"]) -> float:
        """How far theta is above the least objective, in units of what `AnchoredNewton` tolerates."""
        best = optimum([(x, w) for x, w in self.pairs if w > 1e-14], self.l2, self.reduction, self.features)
        least, reached = (objective(each, self.pairs, self.l2, self.reduction) for each in (best, theta))
        return (reached - least) / (1e-3 + 1e-5 * reached)
