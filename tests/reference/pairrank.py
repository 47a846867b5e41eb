"""PairRank, line by line and round by round.

Jia et al., PairRank: Online Pairwise Learning to Rank by Divide-and-Conquer (WWW 2021), Algorithm 1, Lemma 2,
Definition 3; the diagonal covariance is PairRank-Diag of Jia and Wang, "Scalable Exploration for Neural Online
Learning to Rank with Perturbed Feedback" (SIGIR 2022).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ol2r_cli.tensor.shapes import Bool, Float
from tests.reference.blocks import partition, transitive_closure
from tests.reference.objective import optimum, sigmoid
from tests.reference.shuffles import Order, order_by_clocks


def information(pairs: Float[np.ndarray, "M F"], l2: float) -> Float[np.ndarray, "F F"]:
    """M_t of Lemma 2 and line 11: l2 I + the sum of x x^T over the history of pairs."""
    total = l2 * np.eye(pairs.shape[1])
    for pair in pairs:
        total = total + np.outer(pair, pair)
    return total


def width(difference: Float[np.ndarray, "F"], m: Float[np.ndarray, "F F"], covariance: str) -> float:
    """The length of x_i - x_j measured by the covariance M^-1, before alpha is applied.

    `full`: sqrt(x^T M^-1 x). `diagonal_of_inverse`: sqrt(sum_f x_f^2 (M^-1)_ff). `inverse_of_diagonal`:
    sqrt(sum_f x_f^2 / M_ff), never longer than the one before, since (M^-1)_ff >= 1 / M_ff.
    """
    inverse = np.linalg.inv(m)
    if covariance == "full":
        squared = difference @ inverse @ difference
    elif covariance == "diagonal_of_inverse":
        squared = sum(x**2 * inverse[f, f] for f, x in enumerate(difference))
    else:
        squared = sum(x**2 / m[f, f] for f, x in enumerate(difference))
    return float(np.sqrt(squared))


def theoretical_alpha(m: Float[np.ndarray, "F F"], l2: float, delta: float, c_mu: float) -> float:
    """alpha_t of Lemma 2: (2 k_mu / c_mu) (sqrt(r^2 log(det M / (delta^2 det l2 I))) + sqrt(l2) q).

    r: sub-Gaussian parameter of click noise, q: bound on |theta|, k_mu: Lipschitz constant of the sigmoid, 1 - delta:
    probability that the interval holds.
    """
    r, q, k_mu = 0.5, 1.0, 0.25
    log_ratio = np.linalg.slogdet(m)[1] - np.linalg.slogdet(l2 * np.eye(len(m)))[1] - 2 * np.log(delta)
    return float(2 * k_mu / c_mu * (np.sqrt(r**2 * log_ratio) + np.sqrt(l2) * q))


def certain_rank_order(
    documents: Float[np.ndarray, "D F"],
    theta: Float[np.ndarray, "F"],
    m: Float[np.ndarray, "F F"],
    alpha: float,
    covariance: str,
) -> Bool[np.ndarray, "D D"]:
    """E_c of Definition 3 and line 4: [i, j] iff sigma(x_ij.theta) - alpha |x_ij|_{M^-1} > 1/2. Not closed."""
    certain = np.zeros((len(documents), len(documents)), dtype=bool)
    for i, first in enumerate(documents):
        for j, second in enumerate(documents):
            if i != j:
                difference = first - second
                certain[i, j] = sigmoid(difference @ theta) - alpha * width(difference, m, covariance) > 0.5
    return certain


@dataclass
class PairRank:
    """One run, driven from outside: ask for an order with `propose`, hand the pairs of the round to `learn`.

    `l2` is the lambda of both the objective and M, whatever the reduction.
    """

    features: int
    l2: float
    alpha: float
    covariance: str
    reduction: str
    theta: Float[np.ndarray, "F"] = field(init=False)
    pairs: Float[np.ndarray, "M F"] = field(init=False)  # winner minus loser, so that every label is 1

    def __post_init__(self) -> None:
        """Line 1."""
        self.theta = np.zeros(self.features)
        self.pairs = np.zeros((0, self.features))

    @property
    def m(self) -> Float[np.ndarray, "F F"]:
        """M over all rounds learned so far."""
        return information(self.pairs, self.l2)

    def certain(self, documents: Float[np.ndarray, "D F"], transitive: bool = True) -> Bool[np.ndarray, "D D"]:
        """Line 4, closed on request."""
        raw = certain_rank_order(documents, self.theta, self.m, self.alpha, self.covariance)
        return transitive_closure(raw) if transitive else raw

    def blocks(self, documents: Float[np.ndarray, "D F"], transitive: bool = True) -> list[set[int]]:
        """Lines 5 and 6."""
        return partition(self.certain(documents, transitive))

    def propose(
        self, documents: Float[np.ndarray, "D F"], clocks: Sequence[float], shuffle: str, transitive: bool
    ) -> Order:
        """Line 7, with chance taken from exponential `clocks`, one for each document."""
        certain = self.certain(documents, transitive)
        return order_by_clocks(certain, partition(certain), clocks, shuffle)

    def learn(self, winners: Float[np.ndarray, "M F"], losers: Float[np.ndarray, "M F"]) -> None:
        """Lines 9 to 11: row n of `winners` beat row n of `losers`. A round without pairs changes nothing."""
        self.pairs = np.concatenate([self.pairs, winners - losers])
        self.theta = optimum(self.pairs, np.ones(len(self.pairs)), self.l2, self.reduction)
