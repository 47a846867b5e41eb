"""What every recommender is: fitted to the training reviews at once, it scores all items for users.

    class MostPopular(Recommender):
        def __init__(self, prior: NonNegative):       # settings are keywords, as in configs/model/most_popular.yaml
            self.prior = prior

        def fit(self, reviews, seed, progress, validate):
            self.counts = np.bincount(reviews.item[reviews.train], minlength=reviews.items) + self.prior
            progress(1, validation_ndcg_50=validate(self))

        def scores(self, users):
            return np.tile(self.counts.astype(np.float32), (len(users), 1))

        def state(self):
            return {"counts": self.counts}

A YAML file names the class by `_target_` and has every setting with a comment; annotations of the constructor declare
types and ranges (`ol2r_cli/config/ranges.py`). The reader of scores leaves out the items that a user has reviewed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ol2r_cli.plugins.recommend.reviews import Reviews

Validate = Callable[["Recommender"], float]  # the NDCG@50 of its scores on the validation reviews
Ask = Callable[[str, Sequence[str]], int]  # a question and its answers -> the number of the answer; EOFError at the end


class StepProgress(Protocol):
    """Receives what is to be kept of a step (an epoch or an alternation, from 1): a row of evaluation.parquet.

    Values are finite numbers, such as objective=12.5, validation_ndcg_50=0.03. It raises KeyboardInterrupt where the
    user has stopped the fit.
    """

    def __call__(self, step: int, **values: float) -> None: ...


@dataclass(frozen=True)
class Explanation:
    """Why a model recommends an item to a user.

    features: names, the most important first. contributions: of each feature to this recommendation, less what it
    contributes to that of the average item: the higher, the more does it tell this item from others. by: what these
    numbers are, in words. Both may be empty. phrases: opinion phrases, of the first feature first. sentence: what a
    shopper reads. paths: for each side (`user`, `item`) the rules on its way from the root of its tree to its leaf, as
    plain data: {"feature": name, "threshold": number, "value": of the profile, None if never mentioned, "branch":
    "left" (value >= threshold), "right" or "unknown"}, with "share": True where both numbers are shares of mentions;
    empty for models without trees.
    """

    features: tuple[str, ...]
    sentence: str
    phrases: tuple[str, ...] = ()
    contributions: tuple[float, ...] = ()
    by: str = ""
    paths: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)


class Recommender(ABC):
    """A model with settings (constructor keywords) and a state (arrays), which `fit` replaces."""

    packages: tuple[str, ...] = ()  # optional packages that decide its numbers

    @abstractmethod
    def fit(self, reviews: Reviews, seed: int, progress: StepProgress, validate: Validate) -> None:
        """Fit to the reviews `reviews.train`. The same seed gives the same state to the last bit.

        Test reviews are never read, and validation reviews through `validate` only, by which a model may keep the best
        of its states. FloatingPointError where the fit diverges.
        """

    @abstractmethod
    def scores(self, users: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the scores [n, I] of all items for n users; higher is better, and all are finite."""

    @abstractmethod
    def state(self) -> dict[str, NDArray[Any]]:
        """Return everything that `scores`, `explain` and `trees` need besides the settings and the reviews."""

    def load(self, state: Mapping[str, NDArray[Any]], reviews: Reviews) -> None:
        """Take a state that `state` has returned, for the same reviews."""
        vars(self).update(state)

    def explain(self, user: int, item: int) -> Explanation:
        """Return why the item is recommended to the user; ValueError where the model has no explanations."""
        raise ValueError(self._lacks("explain.item", "mter, fact"))

    def trees(self) -> dict[str, Any] | None:
        """Return the trees as plain data, {"user": .., "item": ..}, for tree.json; None for a model without trees."""
        return None

    def fold_in(self, profile: NDArray[np.float64]) -> NDArray[np.float32]:
        """Return the scores [I] for a new user with this profile [F] (NaN: never mentioned)."""
        raise ValueError(self._lacks("reviews.observed", "most_popular, fmf, fact"))

    def interview(self, ask: Ask) -> NDArray[np.float32]:
        """Ask a new user about features, along the rules of the user tree, and return the scores [I]."""
        raise ValueError(self._lacks("interview=true", "fact"))

    def _lacks(self, what: str, models: str) -> str:
        return f"{what} needs a model that has it, one of {models}, got {type(self).__name__}"
