"""Reviews with mentions of item features: the table of all models, its splits, and the profiles of users and items.

Dissertation, sections 4.1.1 (features, opinion phrases) and 4.2.1 (profiles: equations 4.2.3 and 4.2.4).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

SPLITS = ("train", "validation", "test")
Row = tuple[int, int, float, Sequence[tuple[int, int]]]  # user, item, rating, (feature, sign) of each mention
Names = Mapping[int, str]


@dataclass(frozen=True, eq=False)
class Reviews:
    """R reviews of U users on I items, with M mentions of F features and P opinion phrases.

    A mention says that a review has a good (+1) or a bad (-1) word for a feature. A phrase is one of O opinion phrases
    that a review has for a feature; files may have phrases of some mentions only, or none. `train`, `validation` and
    `test` are rows of reviews, ascending. Users are numbers, and so are items unless `item_names` has a name for each.
    Where data have gaps between their numbers, `user_numbers` and `item_numbers` have them, and arrays have their
    places, from 0. With `observed`, rows as well, the users of test reviews are new: these are the reviews by which
    they are known, and none of theirs is for training or validation.
    """

    user: NDArray[np.int32]  # [R]
    item: NDArray[np.int32]  # [R]
    rating: NDArray[np.float32]  # [R]
    mention_review: NDArray[np.int32]  # [M], ascending
    mention_feature: NDArray[np.int32]  # [M]
    mention_sign: NDArray[np.int8]  # [M]: +1 or -1
    phrase_review: NDArray[np.int32]  # [P]
    phrase_feature: NDArray[np.int32]  # [P]
    phrase: NDArray[np.int32]  # [P]
    train: NDArray[np.int64]
    validation: NDArray[np.int64]
    test: NDArray[np.int64]
    users: int
    items: int
    feature_names: tuple[str, ...]
    phrase_names: tuple[str, ...] = ()
    item_names: tuple[str, ...] = ()
    observed: NDArray[np.int64] | None = None
    user_numbers: NDArray[np.int64] | None = None  # [U], ascending; None: 0 .. U - 1
    item_numbers: NDArray[np.int64] | None = None  # [I], ascending; None: 0 .. I - 1

    @property
    def features(self) -> int:
        """Return F."""
        return len(self.feature_names)

    @property
    def phrases(self) -> int:
        """Return O, the number of different opinion phrases."""
        return len(self.phrase_names)

    @cached_property
    def fingerprint(self) -> str:
        """Return the hash of all arrays and names."""
        digest = hashlib.sha256()
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None and field.name.endswith("_numbers"):  # so that ids of earlier fits are found
                continue
            content = value.tobytes() if isinstance(value, np.ndarray) else repr(value).encode()
            digest.update(f"{field.name}:{len(content)}:".encode() + content)
        return digest.hexdigest()[:16]

    def numbers(self, side: str) -> NDArray[np.int64]:
        """Return the numbers [U] or [I] of the data for each `user` or `item`, ascending."""
        known, size = (self.user_numbers, self.users) if side == "user" else (self.item_numbers, self.items)
        return np.arange(size) if known is None else known

    def place(self, side: str, number: int) -> int:
        """Return the place in arrays of the `user` or `item` with a number of the data; ValueError if none has."""
        numbers = self.numbers(side)
        place = int(np.searchsorted(numbers, number))
        if place == len(numbers) or numbers[place] != number:
            gaps = ", with gaps" if numbers[-1] - numbers[0] >= len(numbers) else ""
            raise ValueError(f"explain.{side} must be from {numbers[0]} to {numbers[-1]}{gaps}, got {number}")
        return place

    def item_name(self, item: int) -> str:
        """Return the name of an item at a place, or its number where the data have no names."""
        return self.item_names[item] if self.item_names else f"item {self.numbers('item')[item]}"

    @classmethod
    def of(cls, rows: Sequence[Row], phrases: Sequence[tuple[int, int, int]], names: Mapping[str, Names]) -> Reviews:
        """Return the table of these rows and (review, feature, phrase), with empty splits.

        Numbers may have gaps, of any size: users and items are those with a review, features and phrases those with a
        mention or a name. `names` has those of "feature", "phrase" and "item" by number; what it lacks is called by its
        number.
        """
        user, item, rating, said = (list(column) for column in zip(*rows, strict=True)) if rows else ([], [], [], [])
        mention = np.array([mention for mentions in said for mention in mentions], np.int64).reshape(-1, 2)
        phrase, empty = np.array(phrases, np.int64).reshape(-1, 3), np.empty(0, np.int64)
        users, of_user = np.unique(np.array(user, np.int64), return_inverse=True)
        items, of_item = np.unique(np.array(item, np.int64), return_inverse=True)
        features, feature_names = _named("feature", [mention[:, 0], phrase[:, 1]], names)
        phrase_numbers, phrase_names = _named("phrase", [phrase[:, 2]], names)
        known = names.get("item")
        return cls(
            user=of_user.astype(np.int32),
            item=of_item.astype(np.int32),
            rating=np.array(rating, np.float32),
            mention_review=np.repeat(np.arange(len(rows), dtype=np.int32), list(map(len, said))),
            mention_feature=np.searchsorted(features, mention[:, 0]).astype(np.int32),
            mention_sign=mention[:, 1].astype(np.int8),
            phrase_review=phrase[:, 0].astype(np.int32),
            phrase_feature=np.searchsorted(features, phrase[:, 1]).astype(np.int32),
            phrase=np.searchsorted(phrase_numbers, phrase[:, 2]).astype(np.int32),
            train=empty,
            validation=empty,
            test=empty,
            users=len(users),
            items=len(items),
            feature_names=feature_names,
            phrase_names=phrase_names,
            item_names=tuple(known.get(number, f"item {number}") for number in items.tolist()) if known else (),
            user_numbers=_with_gaps(users),
            item_numbers=_with_gaps(items),
        )

    def with_frequent(self, number: int) -> Reviews:
        """Return the reviews with the features only that training mentions most often; ValueError for too many."""
        if number > self.features:
            raise ValueError(f"reviews.features must be at most {self.features}, got {number}")
        trained = np.isin(self.mention_review, self.train)
        counts = np.bincount(self.mention_feature[trained], minlength=self.features)
        kept = np.sort(np.argsort(-counts, kind="stable")[:number])
        place = np.full(self.features, -1, np.int32)
        place[kept] = np.arange(number)
        mentions, phrases = place[self.mention_feature] >= 0, place[self.phrase_feature] >= 0
        return replace(
            self,
            feature_names=tuple(self.feature_names[feature] for feature in kept),
            mention_review=self.mention_review[mentions],
            mention_feature=place[self.mention_feature[mentions]],
            mention_sign=self.mention_sign[mentions],
            phrase_review=self.phrase_review[phrases],
            phrase_feature=place[self.phrase_feature[phrases]],
            phrase=self.phrase[phrases],
        )

    def by_first_review(self) -> tuple[dict[str, NDArray[np.int32]], Reviews]:
        """Return the place of each user, item, feature and phrase in the order of training reviews, and these reviews.

        Those of which no training review is come last.
        """
        trained = np.bincount(self.train, minlength=len(self.user)) > 0
        mentions, phrases = trained[self.mention_review], trained[self.phrase_review]
        used = {
            "user": (self.user[self.train], self.users),
            "item": (self.item[self.train], self.items),
            "feature": (self.mention_feature[mentions], self.features),
            "phrase": (self.phrase[phrases], self.phrases),
        }
        ranks = {mode: np.argsort(by_first_use(*numbers)).astype(np.int32) for mode, numbers in used.items()}
        return ranks, replace(
            self,
            user=ranks["user"][self.user],
            item=ranks["item"][self.item],
            mention_feature=ranks["feature"][self.mention_feature],
            phrase_feature=ranks["feature"][self.phrase_feature],
            phrase=ranks["phrase"][self.phrase],
        )

    def described(self) -> tuple[list[list[str]], list[str]]:
        """Return the rows of a table and its headings: what all reviews and those of each split have."""
        rows = []
        for split in ("all", *SPLITS):
            chosen = np.arange(len(self.user)) if split == "all" else getattr(self, split)
            said = np.isin(self.mention_review, chosen)
            features = self.features if split == "all" else len(np.unique(self.mention_feature[said]))
            opinions = self.phrase[np.isin(self.phrase_review, chosen)]
            phrases = self.phrases if split == "all" else len(np.unique(opinions))
            people = (len(np.unique(of[chosen])) for of in (self.user, self.item))
            rows.append([split, *(f"{n:,}" for n in (*people, features, phrases, len(chosen), said.sum()))])
        return rows, ["split", "users", "items", "features", "opinions", "reviews", "mentions"]

    def user_profile(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return [U, F], how often the reviews `rows` of a user mention a feature (4.2.3); NaN where they never do."""
        good, bad = self._mentions(self.user, self.users, rows)
        return np.where(good + bad > 0, good + bad, np.nan)

    def item_profile(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return [I, F], good minus bad mentions of a feature in reviews `rows` of an item (4.2.4); NaN without any."""
        good, bad = self._mentions(self.item, self.items, rows)
        return np.where(good + bad > 0, good - bad, np.nan)

    def _mentions(self, who: NDArray[np.int32], size: int, rows: NDArray[np.int64]) -> list[NDArray[np.float64]]:
        """Return numbers [size, F] of good and of bad mentions."""
        counted = np.bincount(rows, minlength=len(self.user)) > 0
        cell = who[self.mention_review].astype(np.int64) * self.features + self.mention_feature
        signs = ((self.mention_sign == sign) & counted[self.mention_review] for sign in (1, -1))
        length = size * self.features
        return [np.bincount(cell[s], minlength=length).reshape(size, -1).astype(np.float64) for s in signs]


def _named(
    what: str, used: Sequence[NDArray[np.int64]], names: Mapping[str, Names]
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return the numbers of features or phrases that are used or have a name, ascending, and their names."""
    known = names.get(what, {})
    numbers = np.unique(np.concatenate([np.array([*known], np.int64), *used]))
    return numbers, tuple(known.get(number, f"{what} {number}") for number in numbers.tolist())


def _with_gaps(numbers: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Return the numbers, or None if they are 0, 1, 2 .."""
    return None if np.array_equal(numbers, np.arange(len(numbers))) else numbers


def by_first_use(used: NDArray[np.int32], size: int) -> NDArray[np.int64]:
    """Return 0 .. size - 1 in the order of their first use in `used`; those without use come last."""
    first = np.full(size, len(used))
    np.minimum.at(first, used, np.arange(len(used)))
    return np.argsort(first, kind="stable")
