"""Rankers that forget old pairs, from plain sums over the whole history: what a pair counts, the estimate, the widths.

Sliding window and discount as in Garivier and Moulines (ALT 2011); the widths with a discount as in Russac, Vernade and
Cappé, Weighted Linear Bandits for Non-Stationary Environments (NeurIPS 2019), Algorithm 1, where V is M and V~ is M~.
Nothing here is updated from one round to the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import permutations

import numpy as np

from tests.reference.arrays import Documents, Matrix, Relation, Vector
from tests.reference.blocks import transitive_closure
from tests.reference.objective import objective, optimum, sigmoid


def weight(age: int, window: int | None, discount: float) -> float:
    """What a pair counts that was observed `age` rounds before the latest round."""
    return discount**age if window is None or age < window else 0.0


def weighted(rounds: Sequence[Documents], window: int | None, discount: float) -> list[tuple[Vector, float]]:
    """The pairs of all rounds, the last of which has age 0, each with its weight."""
    return [(pair, weight(len(rounds) - 1 - t, window, discount)) for t, pairs in enumerate(rounds) for pair in pairs]


def information(pairs: Sequence[tuple[np.ndarray, float]], l2: float, features: int, power: int = 1):
    """M = l2 I + sum of w x x^T, or with `power` 2 M~ = l2 I + sum of w^2 x x^T."""
    total = l2 * np.eye(features)
    for x, w in pairs:
        total += w**power * np.outer(x, x)
    return total


def norm(m: np.ndarray, squared: np.ndarray, covariance: str) -> np.ndarray:
    """M^-1 M~ M^-1, its diagonal, or that product of the diagonals of M and M~: the square of |x| is x.norm.x."""
    if covariance == "inverse_diagonal":
        return np.diag(np.diag(squared) / np.diag(m) ** 2)
    inverse = np.linalg.inv(m)
    whole = inverse @ squared @ inverse
    return np.diag(np.diag(whole)) if covariance == "diagonal" else whole


def theoretical_alpha(m: Matrix, l2: float, delta: float, c_mu: float) -> float:
    """alpha_t of Lemma 2: (2 k_mu / c_mu) (sqrt(r^2 log(det M / (delta^2 det l2 I))) + sqrt(l2) q).

    r: sub-Gaussian parameter of click noise, q: bound on |theta|, k_mu: Lipschitz constant of the sigmoid, 1 - delta:
    probability that the interval holds.
    """
    r, q, k_mu = 0.5, 1.0, 0.25
    log_ratio = np.linalg.slogdet(m)[1] - np.linalg.slogdet(l2 * np.eye(len(m)))[1] - 2 * np.log(delta)
    return float(2 * k_mu / c_mu * (np.sqrt(r**2 * log_ratio) + np.sqrt(l2) * q))


@dataclass
class ForgetfulPairRank:
    """PairRank that forgets: ask which pairs are certain, hand the pairs of every round to `learn`."""

    features: int
    l2: float
    alpha: float
    covariance: str
    reduction: str
    window: int | None
    discount: float
    theta: Vector = field(init=False)
    rounds: list[Documents] = field(default_factory=list)

    @property
    def pairs(self) -> list[tuple[np.ndarray, float]]:
        """All pairs so far with their weights."""
        return weighted(self.rounds, self.window, self.discount)

    def certain(self, documents: Documents, transitive: bool = True) -> Relation:
        """[i, j] iff sigma(x_ij.theta) - 1/2 > alpha |x_ij|; a window's pairs all count 1, so that M~ = M."""
        both = (information(self.pairs, self.l2, self.features, power) for power in (1, 2))
        squares, certain = norm(*both, self.covariance), np.zeros((len(documents), len(documents)), dtype=bool)
        for i, j in permutations(range(len(documents)), 2):
            x = documents[i] - documents[j]
            certain[i, j] = sigmoid(float(x @ self.theta)) - 0.5 > self.alpha * np.sqrt(max(x @ squares @ x, 0.0))
        return transitive_closure(certain) if transitive else certain

    def learn(self, winners: Documents, losers: Documents) -> None:
        """Remember a round, also one without pairs."""
        self.rounds.append(winners - losers)

    def excess(self, theta: Vector) -> float:
        """How far theta is above the least objective, in units of what `AnchoredNewton` tolerates."""
        best = optimum([(x, w) for x, w in self.pairs if w > 1e-14], self.l2, self.reduction, self.features)
        least, reached = (objective(each, self.pairs, self.l2, self.reduction) for each in (best, theta))
        return (reached - least) / (1e-3 + 1e-5 * reached)
