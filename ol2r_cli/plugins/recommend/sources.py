"""Where reviews come from: files in the formats of MTER and FacT, or a generator with planted rules."""

from __future__ import annotations

import html
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ol2r_cli.config.ranges import Count, PositiveShare, Share, WholeNumber
from ol2r_cli.plugins.recommend.reviews import Names, Reviews, Row
from ol2r_cli.tensor.numpy_streams import Permutations

_NAMES = {"feature": "features", "phrase": "phrases", "item": "items"}  # what the files of names are called in `files`


class ReviewSource(ABC):
    """What all sources do with reviews.

    split: 0 is the split into training and test that comes with the data; 1, 2, .. are others, each a tenth for test
    at random. A ninth of the rest is for validation, so that 80, 10 and 10 % result. features: only so many of the
    features that are mentioned most often in training; None for all. training: the share of the training reviews that
    is kept. observed: None, or how many reviews are known of users who are new (dissertation, 4.2.3, cold-start): a
    twentieth of the users is drawn from those with more than five reviews, and their other reviews are for test.
    """

    def __init__(
        self, split: WholeNumber, features: Count | None, training: PositiveShare, observed: WholeNumber | None
    ):
        if observed is not None and observed > 5:
            raise ValueError(f"reviews.observed must be null or at most 5, got {observed}")
        self.split, self.features, self.training, self.observed = split, features, training, observed

    @abstractmethod
    def read(self) -> tuple[Reviews, NDArray[np.int64]]:
        """Return all reviews, with empty splits, and the rows of those that are for test where split is 0."""

    def load(self) -> Reviews:
        """Return the reviews with their splits; ValueError, of one line, for bad files and for an empty split."""
        reviews, test = self.read()
        number, random = len(reviews.user), Permutations(self.split)
        observed = None
        if self.observed is not None:
            often = np.flatnonzero(np.bincount(reviews.user, minlength=reviews.users) > 5)
            new = random.permuted(often)[: round(reviews.users / 20)]
            if not len(new):
                raise ValueError(
                    "reviews.observed needs ten users and more than five reviews of one, got too few: leave it out"
                )
            own = [np.flatnonzero(reviews.user == user) for user in new]
            observed = np.sort(np.concatenate([of_user[: self.observed] for of_user in own]))
            test = np.sort(np.concatenate([of_user[self.observed :] for of_user in own]))
        elif self.split:
            test = np.sort(random.permuted(np.arange(number))[: round(number / 10)])
        known = np.setdiff1d(np.arange(number), test if observed is None else np.concatenate([test, observed]))
        rest = random.permuted(known)
        validation, train = np.split(rest, [round(len(rest) / 9)])
        train = np.sort(train[: round(len(train) * self.training)])
        for name, rows in (("train", train), ("validation", validation), ("test", test)):
            if not len(rows):
                raise ValueError(f"reviews must have some in each split, got none for {name} of {number:,}")
        reviews = replace(reviews, train=train, validation=np.sort(validation), test=test, observed=observed)
        return reviews if self.features is None else reviews.with_frequent(self.features)


class ReviewFiles(ReviewSource):
    """Files in the folder `path`, or if it is None in `folder` below `data_dir`.

    form: how lines have mentions. entry is MTER's, `user,item,rating,feature:sign feature:sign ..`; text is FacT's,
    `user,item,rating,feature sign feature sign ..`. files: names in the folder by what they have. train and test have
    reviews; all has those of both in the order to which the numbers (from 1) in phrases_of_reviews refer, whose lines
    are `user,item,feature,phrase,number`. features, phrases and items have names, lines `number=name=..`, of items
    `number=id=name`. source: where the files are published.
    """

    def __init__(
        self,
        path: str | None,
        data_dir: str,
        folder: str,
        form: Literal["entry", "text"],
        files: Mapping[str, str],
        source: str | None,
        split: WholeNumber,
        features: Count | None,
        training: PositiveShare,
        observed: WholeNumber | None,
    ):
        super().__init__(split, features, training, observed)
        self.path = Path(path if path is not None else Path(data_dir) / folder).expanduser()
        self.separator, self.files, self.source = ":" if form == "entry" else " ", files, source

    def locate(self) -> None:
        """Raise ValueError where a file is missing."""
        missing = [name for name in self.files.values() if not (self.path / name).is_file()]
        if missing:
            where = f": it is published at {self.source}" if self.source else ""
            raise ValueError(f"reviews.path must be a folder with {missing[0]}, got {self.path}{where}")

    def read(self) -> tuple[Reviews, NDArray[np.int64]]:
        """Read the files; ValueError, of one line with file and line number, for what cannot be read."""
        self.locate()
        train, test = (list(self._reviews(self.files[name])) for name in ("train", "test"))
        rows, is_test = train + test, {row[:2] for row in test}
        if "all" in self.files:
            rows, known = list(self._reviews(self.files["all"])), sorted(row[:2] for row in rows)
            if sorted(row[:2] for row in rows) != known:
                raise ValueError(f"{self.path / self.files['all']} must have the reviews for training and test, once")
        names = {what: self._names(file) for what, file in _NAMES.items() if file in self.files}
        phrases = list(self._phrases(rows)) if "phrases_of_reviews" in self.files else []
        return Reviews.of(rows, phrases, names), np.flatnonzero([row[:2] in is_test for row in rows])

    def _lines(self, name: str) -> Iterator[tuple[str, str]]:
        """Yield the lines of a file, each after its place for a message."""
        try:
            for number, line in enumerate((self.path / name).read_text("utf-8").splitlines(), 1):
                yield f"{self.path / name}, line {number}", line
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"{self.path / name} cannot be read: {error}") from None

    def _reviews(self, name: str) -> Iterator[Row]:
        """Yield the row of each line; ValueError also where a user has reviewed an item in an earlier line."""
        seen = set[tuple[int, int]]()
        for place, line in self._lines(name):
            try:
                user, item, rating, words = line.split(",")
                who, numbers = (int(user), int(item)), [*map(int, words.replace(self.separator, " ").split())]
                mentions = list(zip(numbers[::2], numbers[1::2], strict=True))
                if min(*who, *numbers[::2]) < 0 or max(*who, *numbers) >= 2**63 or not {*numbers[1::2]} <= {1, -1}:
                    raise ValueError
                value = float(rating)
                if not np.isfinite(value):
                    raise ValueError
            except ValueError:
                form = f"user,item,rating,feature{self.separator}sign .. (numbers from 0 to 2^63 - 1, signs 1 or -1)"
                raise ValueError(f"{place} must be {form}, got {line[:60]!r}") from None
            if who in seen:
                raise ValueError(f"{place} must have a user and an item that no earlier line has, got {line[:60]!r}")
            seen.add(who)
            yield *who, value, mentions

    def _phrases(self, rows: Sequence[Row]) -> Iterator[tuple[int, int, int]]:
        """Yield the review, the feature and the phrase of each line of the file of phrases."""
        for place, line in self._lines(self.files["phrases_of_reviews"]):
            try:
                user, item, feature, phrase, number = map(int, line.split(","))
                if not 0 < number <= len(rows) or rows[number - 1][:2] != (user, item):
                    raise ValueError
                if min(feature, phrase) < 0 or max(feature, phrase) >= 2**63:
                    raise ValueError
            except ValueError:
                form = "user,item,feature,phrase,number of their review"
                raise ValueError(f"{place} must be {form}, got {line[:60]!r}") from None
            yield number - 1, feature, phrase

    def _names(self, what: str) -> Names:
        names, last = dict[int, str](), -1
        for place, line in self._lines(self.files[what]):
            number, *rest = line.split("=", 2)
            if number.isdecimal() and rest and int(number) < 2**63:
                last = int(number)
                names[last] = html.unescape(rest[-1 if what == "items" else 0])
            elif last >= 0 and what == "items":
                names[last] += f" {line}"  # names of items may have line breaks
            else:
                raise ValueError(f"{place} must be number=name, got {line[:60]!r}")
        return names


class GeneratedReviews(ReviewSource):
    """Reviews with planted rules: the leaf of a user's profile decides which items it likes.

    A user mentions feature 0 often (three times in each review), rarely (once in every other review) or never, and
    feature 1 often or rarely: six leaves. An item has feature 2 praised, blamed or never mentioned, and feature 3
    praised or blamed: six leaves. Users of a leaf take the share `taste` of their reviews from the items of the leaf
    that they like, and the others at random; ratings are 4 and 5 for items that they like, and 1 to 3 for others. The
    other features are mentioned at random. Good mentions of feature f have phrase 2 f for even items, 2 f + 1 for odd.
    """

    def __init__(
        self,
        users: Count,
        items: Count,
        of_user: Count,
        noise_features: WholeNumber,
        taste: Share,
        seed: WholeNumber,
        split: WholeNumber,
        features: Count | None,
        training: PositiveShare,
        observed: WholeNumber | None,
    ):
        super().__init__(split, features, training, observed)
        if of_user > items // 2:
            raise ValueError(f"reviews.of_user must be at most half of reviews.items ({items // 2}), got {of_user}")
        self.users, self.items, self.of_user = users, items, of_user
        self.noise_features, self.taste, self.seed = noise_features, taste, seed

    def planted(self) -> tuple[list[int], list[int], list[int]]:
        """Return the leaf of each user and of each item, 0 .. 5, and the leaf of items that each leaf of users likes.

        A leaf of users is 2 x (0 often, 1 rarely, 2 never) of feature 0 + (0 often, 1 rarely) of feature 1; one of
        items is 2 x (0 praised, 1 blamed, 2 never) of feature 2 + (0 praised, 1 blamed) of feature 3.
        """
        random = np.random.default_rng([self.seed, 0])
        users, items = (random.permutation(np.arange(size) % 6).tolist() for size in (self.users, self.items))
        return users, items, random.permutation(6).tolist()

    def read(self) -> tuple[Reviews, NDArray[np.int64]]:
        """Generate reviews; a tenth at random is for test."""
        (user_leaf, item_leaf, liked), random = self.planted(), np.random.default_rng([self.seed, 1])
        rows, phrases = list[Row](), list[tuple[int, int, int]]()
        for user, leaf in enumerate(user_leaf):
            likes = random.permutation([item for item in range(self.items) if item_leaf[item] == liked[leaf]])
            by_taste = likes[: random.binomial(self.of_user, self.taste)]
            others = random.permutation(np.setdiff1d(np.arange(self.items), by_taste))
            taken = np.concatenate([by_taste, others[: self.of_user - len(by_taste)]]).astype(int)
            for number, item in enumerate(random.permutation(taken).tolist()):
                times, (good, better) = (3, number % 2, 0), divmod(item_leaf[item], 2)
                said = [(0, 1)] * times[leaf // 2] + [(1, 1)] * times[leaf % 2]
                said += [(2, 1 - 2 * good)] * (good < 2) + [(3, 1 - 2 * better)]
                noise = np.flatnonzero(random.random(self.noise_features) < 0.5).tolist()
                said += [(4 + extra, int(random.choice([1, -1]))) for extra in noise]
                rating = random.integers(4, 6) if item_leaf[item] == liked[leaf] else random.integers(1, 4)
                phrases += [(len(rows), feature, 2 * feature + item % 2) for feature, sign in said if sign > 0]
                rows.append((user, item, float(rating), said))
        names = {"feature": {number: f"feature {number}" for number in range(4 + self.noise_features)}}
        return Reviews.of(rows, phrases, names), np.sort(random.permutation(len(rows))[: round(len(rows) / 10)])
