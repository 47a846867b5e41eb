"""MTER: users, items, features and opinion phrases as factors of three tensors that are decomposed together.

Dissertation, section 4.1; Wang et al., Explainable recommendation via multi-task learning in opinionated text data.
SIGIR 2018. `joint_tensors.py` has the tensors and the terms of the objective.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ol2r_cli.config.ranges import Count, NonNegative, Positive
from ol2r_cli.plugins.recommend.joint_tensors import (
    MODES,
    Adagrad,
    Array,
    Entries,
    Pairs,
    joint_tensors,
    ranking_loss,
    reconstruct,
    squared_error,
)
from ol2r_cli.plugins.recommend.model import Explanation, Recommender, StepProgress, Validate
from ol2r_cli.plugins.recommend.reviews import Reviews

_FEATURES, _PHRASES = 3, 2  # of an explanation, and of each of its features
_BY = "share of the item's entries of X for the user, less that of the average item"

Rows = NDArray[np.int64]


class MTER(Recommender):
    """Non-negative factors of users, items, features and phrases, and a core for each of three tensors (4.1.9).

    decomposition: tucker; canonical (MTER-S), whose factors are the sum of a part that the tensors share and a part of
    the tensor; shared_canonical (MTER-SA), without the latter. A canonical decomposition is a Tucker decomposition
    whose core is 0 off its diagonal; here the diagonal is one number, which stays. user_factors, item_factors,
    feature_factors, phrase_factors: numbers a, b, c, d of factors. ranking: lambda_B, the weight of the mean loss of
    pairs; that of the mean squared error of entries is 1 for each tensor. factor_l2: lambda_F, for the rows that a step
    moves. core_l2: lambda_G. start: the mean entry at the start, as a share of that of the data. learning_rate,
    core_rate: of Adagrad, for factors and for cores. steps: their number. entries, pairs: samples of a step, of each
    tensor and of BPR. validate_every: steps after which the validation reviews decide whether the state is the best.
    """

    packages = ("numba",)
    parameters: dict[str, Array]
    reviews: Reviews

    def __init__(
        self,
        decomposition: Literal["tucker", "canonical", "shared_canonical"],
        user_factors: Count,
        item_factors: Count,
        feature_factors: Count,
        phrase_factors: Count,
        ranking: NonNegative,
        factor_l2: NonNegative,
        core_l2: NonNegative,
        start: Positive,
        learning_rate: Positive,
        core_rate: NonNegative,
        steps: Count,
        entries: Count,
        pairs: Count,
        validate_every: Count,
    ):
        self.decomposition, self.ranking, self.factor_l2, self.core_l2 = decomposition, ranking, factor_l2, core_l2
        self.width = {"user": user_factors, "item": item_factors, "feature": feature_factors, "phrase": phrase_factors}
        self.start, self.learning_rate, self.core_rate, self.steps = start, learning_rate, core_rate, steps
        self.entries, self.pairs, self.validate_every = entries, pairs, validate_every
        if decomposition != "tucker" and len({*self.width.values()}) > 1:
            equal = " ".join(f"model.{mode}_factors={user_factors}" for mode in self.width)
            raise ValueError(f"model.decomposition={decomposition} needs equal numbers of factors: type {equal}")

    def fit(self, reviews: Reviews, seed: int, progress: StepProgress, validate: Validate) -> None:
        """Descend by mini-batches, with a call of `progress` after every `validate_every` steps; keep the best state.

        The objective is the mean over these steps, of samples and without l2. Users, items, features and phrases are
        in the order of their first reviews, whatever their numbers are.
        """
        random = np.random.default_rng(seed)
        ranks, ordered = reviews.by_first_review()
        ranks["feature"] = np.append(ranks["feature"], reviews.features)  # the overall rating
        all_entries = joint_tensors(ordered, ordered.train)
        tensors = {name: entries for name, entries in all_entries.items() if len(entries.value)}
        pairs = Pairs(ordered, ordered.train)
        state = self._initial(ordered, tensors, random)
        adagrad = Adagrad(state)
        best, kept = -np.inf, dict[str, Array]()
        total, steps = 0.0, 0  # since the last validation
        for step in range(1, self.steps + 1):
            batch = {name: entries.draw(random, self.entries) for name, entries in tensors.items()}
            loss, gradient = self.gradient(state, batch, pairs.draw(random, self.pairs))
            total, steps = total + loss, steps + 1
            for name, (rows, slopes) in gradient.items():
                adagrad.move(name, rows, slopes, *self._rate_and_l2(name))
            if step % self.validate_every and step < self.steps:
                continue
            objective = total / steps
            if not np.isfinite(objective):
                raise FloatingPointError("the objective is not a finite number")
            as_numbered = {name: array[ranks.get(name.split("_")[0], ...)].copy() for name, array in state.items()}
            self.load(as_numbered, reviews)
            quality = validate(self)
            progress(-(-step // self.validate_every), objective=objective, validation_ndcg_50=quality)
            if quality > best:
                best, kept = quality, as_numbered
            total, steps = 0.0, 0
        self.load(kept, reviews)

    def _rate_and_l2(self, name: str) -> tuple[float, float]:
        """Return the learning rate and the l2 of a parameter."""
        is_core = name.startswith("core")
        return (self.core_rate, self.core_l2) if is_core else (self.learning_rate, self.factor_l2)

    def _initial(
        self, reviews: Reviews, tensors: Mapping[str, Entries], random: np.random.Generator
    ) -> dict[str, Array]:
        """Return uniform numbers for factors, and for cores a diagonal by which the mean entry is what `start` says.

        In a core of uniform numbers all users would like the same items at first, and do for long.
        """
        sizes = {"user": reviews.users, "item": reviews.items, "feature": reviews.features + 1}
        sizes["phrase"] = reviews.phrases
        used = {mode for tensor in tensors for mode in MODES[tensor]}
        state = {mode: random.random((size, self.width[mode])) for mode, size in sizes.items() if mode in used}
        for tensor, entries in tensors.items():
            if self.decomposition == "canonical":
                state |= {f"{mode}_of_{tensor}": random.random(state[mode].shape) for mode in MODES[tensor]}
            core = np.zeros([self.width[mode] for mode in MODES[tensor]])
            core[*(np.arange(max(core.shape)) % width for width in core.shape)] = 1
            means = [_factors(state, tensor, mode, slice(None)).mean(0, keepdims=True) for mode in MODES[tensor]]
            state[f"core_of_{tensor}"] = core * (self.start * entries.value.mean() / reconstruct(core, *means))
        return state

    @np.errstate(over="ignore", invalid="ignore")  # `fit` reports what is not finite
    def gradient(
        self, state: Mapping[str, Array], batch: Mapping[str, Entries], pairs: Rows
    ) -> tuple[float, dict[str, tuple[Rows, Array]]]:
        """Return the weighted mean losses of entries and of pairs [S, 3], and their gradients without l2.

        The gradient of a parameter is rows [S] and the terms [S, d] whose sum by row it is; a core is one row.
        """
        loss, found = 0.0, dict[str, list[tuple[Rows, Array]]]()
        jobs: list[tuple[str, Sequence[str], list[Rows], Any]] = [
            (tensor, MODES[tensor], [*entries.rows.T], (squared_error, entries.value))
            for tensor, entries in batch.items()
        ]
        if self.ranking and len(pairs):
            overall = np.array([len(state["feature"]) - 1])
            places = "feature", "user", "item", "item"
            jobs.append(("rating", places, [overall, *pairs.T], (ranking_loss, self.ranking)))
        for tensor, modes, rows, (term, target) in jobs:
            factors = _factors_of_modes(state, tensor, modes, rows)
            value, of_core, slopes = term(state[f"core_of_{tensor}"], *factors, target)
            loss += value
            if self.decomposition == "tucker":
                found.setdefault(f"core_of_{tensor}", []).append((np.zeros(1, np.int64), of_core.reshape(1, -1)))
            for mode, of_mode, slope in zip(modes, rows, slopes, strict=True):
                for name in _names(state, tensor, mode):
                    found.setdefault(name, []).append((of_mode, slope))
        return loss, {
            name: (np.concatenate([rows for rows, _ in parts]), np.concatenate([slopes for _, slopes in parts]))
            for name, parts in found.items()
        }

    def predict(self, tensor: str, *rows: Rows) -> Array:
        """Return the entries [S] of a tensor for the rows [S] or [1] of its three modes."""
        return self._entries(tensor, _factors_of_modes(self.parameters, tensor, MODES[tensor], rows))

    def _entries(self, tensor: str, factors: Sequence[Array]) -> Array:
        """Return the entries [S] of a tensor for the factors [S, d] or [1, d] of its three modes."""
        samples = np.broadcast_shapes(*(of_mode.shape[:1] for of_mode in factors))
        whole = [np.broadcast_to(of_mode, (*samples, of_mode.shape[1])) for of_mode in factors]
        return reconstruct(self.parameters[f"core_of_{tensor}"], *whole)

    def scores(self, users: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the overall ratings [n, I]."""
        overall = _factors(self.parameters, "rating", "feature", np.array([self.reviews.features]))[0]
        by_item = _factors(self.parameters, "rating", "user", users) @ (self.parameters["core_of_rating"] @ overall)
        return (by_item @ _factors(self.parameters, "rating", "item", slice(None)).T).astype(np.float32)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the factors by mode, their parts of one tensor, and the cores."""
        return dict(self.parameters)

    def load(self, state: Mapping[str, NDArray[Any]], reviews: Reviews) -> None:
        """Take a state."""
        self.parameters, self.reviews = dict(state), reviews

    def explain(self, user: int, item: int) -> Explanation:
        """Name features whose entries of X are a larger share of those of the item than of those of the average item.

        The shares are of all features that training reviews mention, for this user; the average item has the mean
        entries of the items with training reviews. The features with the largest differences come first. They are those
        that training reviews of the item mention; without any, all. Of the phrases that training reviews have for a
        feature, those with the highest entries of Y^U x Y^I (4.1.8) are named where their share is larger than for the
        average item. Factors of other features and phrases have never been fitted.
        """
        reviews, mentions = self.reviews, np.isin(self.reviews.mention_review, self.reviews.train)
        features = np.unique(reviews.mention_feature[mentions]).astype(np.int64)
        likes, usual = self._beside_average("rating", np.array([user]), item, features)
        over = _shares(likes) - _shares(usual)
        of_its = reviews.mention_feature[mentions & (reviews.item[reviews.mention_review] == item)]
        own = np.isin(features, of_its) if len(of_its) else np.full(len(features), True)
        best = [place for place in np.argsort(-over, kind="stable").tolist() if own[place] and over[place] > 0]
        best = best[:_FEATURES]
        words = {reviews.feature_names[features[place]]: self._said(user, item, int(features[place])) for place in best}
        reasons = [f"its {name} ({', '.join(said)})" if said else f"its {name}" for name, said in words.items()]
        reason = " and ".join(filter(None, [", ".join(reasons[:-1]), *reasons[-1:]]))
        return Explanation(
            features=tuple(words),
            sentence=f"You may like this item {f'for {reason}' if words else 'because users like you do'}.",
            phrases=tuple(phrase for said in words.values() for phrase in said),
            contributions=tuple(over[best].tolist()),
            by=_BY,
        )

    def _said(self, user: int, item: int, feature: int) -> list[str]:
        """Return the phrases of an explanation for a feature."""
        reviews, of_feature = self.reviews, np.array([feature])
        trained = np.isin(reviews.phrase_review, reviews.train) & (reviews.phrase_feature == feature)
        phrases = np.unique(reviews.phrase[trained]).astype(np.int64)
        if not len(phrases):
            return []
        of_user = self.predict("user_phrase", np.array([user]), of_feature, phrases)
        of_item, usual = self._beside_average("item_phrase", item, of_feature, phrases)
        fit, over = of_user * of_item, _shares(of_user * of_item) - _shares(of_user * usual)
        best = np.argsort(-fit, kind="stable")[:_PHRASES]
        return [reviews.phrase_names[phrases[place]] for place in best if over[place] > 0]

    def _beside_average(self, tensor: str, *rows: Rows | int) -> tuple[Array, Array]:
        """Return the entries [S] of a tensor for an item, a number among the rows, and those of the average item.

        Entries are linear in the factors of the item, so that the mean factors have the mean entries.
        """
        modes, reviewed = MODES[tensor], np.unique(self.reviews.item[self.reviews.train]).astype(np.int64)
        factors = _factors_of_modes(self.parameters, tensor, modes, list(map(np.atleast_1d, rows)))
        mean = _factors(self.parameters, tensor, "item", reviewed).mean(0, keepdims=True)
        of_average = [mean if mode == "item" else own for mode, own in zip(modes, factors, strict=True)]
        return self._entries(tensor, factors), self._entries(tensor, of_average)


def _shares(entries: Array) -> Array:
    """Return entries [S], of which none is negative, divided by their sum; 0 where all are 0."""
    total = entries.sum()
    return entries / total if total > 0 else np.zeros_like(entries)


def _names(state: Mapping[str, Array], tensor: str, mode: str) -> list[str]:
    """Return the parameters whose sum is the factors of a mode in a tensor: of all tensors, and of this one."""
    return [name for name in (mode, f"{mode}_of_{tensor}") if name in state]


def _factors(state: Mapping[str, Array], tensor: str, mode: str, rows: Rows | slice) -> Array:
    """Return the factors [S, d] of entities of a mode in a tensor."""
    parts = [state[name][rows] for name in _names(state, tensor, mode)]
    return parts[0] if len(parts) == 1 else parts[0] + parts[1]


def _factors_of_modes(
    state: Mapping[str, Array], tensor: str, modes: Sequence[str], rows: Sequence[Rows]
) -> list[Array]:
    """Return the factors [S, d] of each mode for its rows [S]."""
    return [_factors(state, tensor, mode, of_mode) for mode, of_mode in zip(modes, rows, strict=True)]
