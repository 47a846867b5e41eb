"""CascadeLinUCB and CascadeLinTS, with plain sums over all that was examined and an inverse matrix.

Zong, Ni, Sung, Ke, Wen, Kveton: Cascading Bandits for Large-Scale Recommendation Problems (UAI 2016), Algorithms 1, 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import sqrt

import numpy as np

from tests.reference.cascade_bandits import observed


@dataclass
class CascadeLinear:
    """One learner for all queries; documents are rows of features."""

    features: int
    sigma: float
    feedback: str
    history: list[tuple[np.ndarray, int]] = field(default_factory=list)  # examined documents and their clicks

    def precision(self) -> np.ndarray:
        """M."""
        matrix = np.eye(self.features)
        for x, _ in self.history:
            for i in range(self.features):
                for j in range(self.features):
                    matrix[i, j] += x[i] * x[j] / self.sigma**2
        return matrix

    def theta(self) -> np.ndarray:
        """M^-1 b / sigma^2."""
        total = np.zeros(self.features)
        for x, click in self.history:
            total += click * x
        return np.linalg.inv(self.precision()) @ total / self.sigma**2

    def bounds(self, documents: Sequence[np.ndarray], alpha: float) -> list[float]:
        """The scores of CascadeLinUCB."""
        inverse, theta = np.linalg.inv(self.precision()), self.theta()
        return [min(1.0, float(theta @ x) + alpha * sqrt(x @ inverse @ x)) for x in documents]

    def drawn(self, documents: Sequence[np.ndarray], normal: np.ndarray) -> list[float]:
        """The scores of CascadeLinTS, given standard normal numbers."""
        root = np.linalg.inv(np.linalg.cholesky(self.precision())).T  # root root^T = M^-1
        theta = self.theta() + root @ normal
        return [float(theta @ x) for x in documents]

    def learn(self, shown: Sequence[np.ndarray], clicks: Sequence[int]) -> None:
        """The list that was shown, and its clicks by place."""
        examined = observed(clicks, self.feedback)
        self.history += zip(shown[:examined], clicks[:examined], strict=True)
