"""Baselines without explanations: the most popular items."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ol2r_cli.recommend.model import Recommender, StepProgress, Validate
from ol2r_cli.recommend.reviews import Reviews


class MostPopular(Recommender):
    """Items in the order of their numbers of training reviews, the same for all users."""

    counts: NDArray[np.int64]  # [I]

    def fit(self, reviews: Reviews, seed: int, progress: StepProgress, validate: Validate) -> None:
        """Count."""
        self.counts = np.bincount(reviews.item[reviews.train], minlength=reviews.items)
        progress(1, validation_ndcg_50=validate(self))

    def scores(self, users: NDArray[np.int64]) -> NDArray[np.float32]:
        """The counts, for every user."""
        return np.tile(self.counts.astype(np.float32), (len(users), 1))

    def state(self) -> dict[str, NDArray[Any]]:
        """The counts [I]."""
        return {"counts": self.counts}
