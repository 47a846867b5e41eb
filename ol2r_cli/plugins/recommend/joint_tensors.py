"""MTER's three tensors, their Tucker reconstruction, the terms of its objective with gradients by hand, and its step.

Dissertation, section 4.1.2. Functions take rows of factors: `one`, `two`, `three` [S, a], [S, b], [S, c] are the
factors of the three entities of each of S samples, and `core` is [a, b, c].
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from ol2r_cli.loops.compile import compiled
from ol2r_cli.plugins.recommend.reviews import Reviews

Array = NDArray[np.float64]

MODES = {
    "rating": ("user", "item", "feature"),  # the last feature is the overall rating
    "user_phrase": ("user", "feature", "phrase"),
    "item_phrase": ("item", "feature", "phrase"),
}


class Entries(NamedTuple):
    """The entries of a tensor that are not 0, in `rows` of the factors of each mode.

    Of X the others are unknown. Of Y^U and Y^I they are 0, and the fields from `cell` on are there to draw them.
    """

    rows: NDArray[np.int64]  # [E, 3]
    value: Array  # [E], from 1 to the highest rating
    shape: tuple[int, ...] = ()
    cell: NDArray[np.int64] = np.empty(0, np.int64)  # [E], ascending: the number of the entry among all
    said: NDArray[np.int64] = np.empty(0, np.int64)  # ascending: the number of each pair of feature and phrase

    def draw(self, random: np.random.Generator, number: int) -> Entries:
        """Return so many at random, with replacement; of Y^U and Y^I as many with another phrase, where that makes a 0.

        It is one of all that the feature has in any entry: among these the phrases of an explanation are chosen.
        """
        drawn = random.integers(len(self.value), size=number)
        rows, value = self.rows[drawn], self.value[drawn]
        if self.shape:
            other = rows.copy()
            first, last = (np.searchsorted(self.said, (rows[:, 1] + after) * self.shape[2]) for after in (0, 1))
            other[:, 2] = self.said[random.integers(first, last)] % self.shape[2]
            cell = np.ravel_multi_index(tuple(other.T), self.shape)
            other = other[self.cell[np.minimum(np.searchsorted(self.cell, cell), len(self.cell) - 1)] != cell]
            rows, value = np.concatenate([rows, other]), np.concatenate([value, np.zeros(len(other))])
        return Entries(rows, value)


def joint_tensors(reviews: Reviews, rows: NDArray[np.int64]) -> dict[str, Entries]:
    """Return X of these reviews with the overall rating as its last feature (4.1.1), Y^U (4.1.6) and Y^I (4.1.7)."""
    rating, counted = reviews.rating[rows].astype(np.float64), np.bincount(rows, minlength=len(reviews.user)) > 0
    mentions = counted[reviews.mention_review]
    review, feature = reviews.mention_review[mentions], reviews.mention_feature[mentions]
    mentioned, sign, *_ = _sums(reviews.user[review], reviews.item[review], feature, reviews.mention_sign[mentions])
    overall = np.stack([reviews.user[rows], reviews.item[rows], np.full(len(rows), reviews.features)], 1)
    above = rating.max() - 1
    x = Entries(np.concatenate([mentioned, overall]), np.concatenate([1 + above * expit(sign), rating]))
    phrases = counted[reviews.phrase_review]
    review, said = reviews.phrase_review[phrases], (reviews.phrase_feature[phrases], reviews.phrase[phrases])
    counts = [_sums(who[review], *said, np.ones(len(review))) for who in (reviews.user, reviews.item)]
    of_user, of_item = (entries._replace(value=1 + above * (2 * expit(entries.value) - 1)) for entries in counts)
    return dict(zip(MODES, (x, of_user, of_item), strict=True))


def _sums(one: NDArray[np.int32], two: NDArray[np.int32], three: NDArray[np.int32], number: NDArray[Any]) -> Entries:
    """Return the different triples of whole numbers, and the sum of the numbers of each."""
    triple = one.astype(np.int64), two.astype(np.int64), three.astype(np.int64)
    shape = tuple(int(part.max(initial=0)) + 1 for part in triple)
    cell, place = np.unique(np.ravel_multi_index(triple, shape), return_inverse=True)
    sums = np.bincount(place, number, len(cell)).astype(np.float64)
    said = np.unique(cell % (shape[1] * shape[2]))
    return Entries(np.stack(np.unravel_index(cell, shape), 1), sums, shape, cell, said)


class Pairs:
    """The pairs of D^S (4.1.4): a user prefers a reviewed item to one with a lower rating, or without a review."""

    def __init__(self, reviews: Reviews, rows: NDArray[np.int64]):
        cell = reviews.user[rows].astype(np.int64) * reviews.items + reviews.item[rows]
        order = np.argsort(cell, kind="stable")
        self.cell, self.rating, self.items = cell[order], reviews.rating[rows][order], reviews.items

    def draw(self, random: np.random.Generator, number: int) -> NDArray[np.int64]:
        """Return user, preferred and other item [S, 3] of `number` reviews and items at random, less those that tie."""
        review, other = random.integers(len(self.cell), size=number), random.integers(self.items, size=number)
        user, item = np.divmod(self.cell[review], self.items)
        sought = user * self.items + other
        place = np.minimum(np.searchsorted(self.cell, sought), len(self.cell) - 1)
        lead = self.rating[review] - np.where(self.cell[place] == sought, self.rating[place], -np.inf)
        pair = np.stack([user, np.where(lead > 0, item, other), np.where(lead > 0, other, item)], 1)
        return pair[lead != 0]


def reconstruct(core: Array, one: Array, two: Array, three: Array) -> Array:
    """Return the values [S] of Tucker's decomposition (4.1.3)."""
    return np.einsum("abc,sa,sb,sc->s", core, one, two, three, optimize=True)


def squared_error(core: Array, one: Array, two: Array, three: Array, value: Array) -> tuple[float, Array, list[Array]]:
    """Return the mean of (reconstruction - value)^2, its gradient in the core, and those in each row of the factors."""
    samples, flat = len(value), core.reshape(len(core), -1)
    inner = (one @ flat).reshape(samples, *core.shape[1:])
    by_two = (inner @ three[:, :, None])[:, :, 0]
    error = (by_two * two).sum(1) - value
    pull = (2 / samples * error)[:, None]
    outer = (two[:, :, None] * (pull * three)[:, None, :]).reshape(samples, -1)
    gradient = [outer @ flat.T, pull * by_two, pull * (two[:, None, :] @ inner)[:, 0]]
    return float(error @ error) / samples, (one.T @ outer).reshape(core.shape), gradient


def ranking_loss(
    core: Array, overall: Array, user: Array, preferred: Array, other: Array, weight: float
) -> tuple[float, Array, list[Array]]:
    """Return the mean of -weight ln sigma(x_preferred - x_other) of overall ratings x (4.1.4), and gradients as above.

    overall: the factors [1, c] of the feature that is the overall rating. All samples share it, so that it makes a
    matrix of the core.
    """
    matrix, difference = core @ overall[0], preferred - other
    by_item = user @ matrix
    margin = (by_item * difference).sum(1)
    pull = (-weight / len(margin) * expit(-margin))[:, None]
    pulled, of_item = pull * difference, pull * by_item
    of_matrix = (user.T @ pulled)[:, :, None]
    slopes = [(core * of_matrix).sum((0, 1))[None], pulled @ matrix.T, of_item, -of_item]
    return weight * float(np.logaddexp(0, -margin).mean()), of_matrix * overall[0], slopes


class Adagrad:
    """Takes steps of Adagrad in the arrays of a state, in place; a core [a, b, c] is one row."""

    def __init__(self, state: Mapping[str, Array]):
        self.tables = {name: array.reshape(1, -1) if array.ndim == 3 else array for name, array in state.items()}
        self.squares = {name: np.zeros_like(table) for name, table in self.tables.items()}
        self.totals = {name: np.zeros_like(table) for name, table in self.tables.items()}

    def move(self, name: str, rows: NDArray[np.int64], slopes: Array, rate: float, l2: float) -> None:
        """Take a step in the rows [S] of an array, by the terms [S, d] whose sum by row is its gradient without l2."""
        adagrad_step(self.tables[name], self.squares[name], self.totals[name], rows, slopes, rate, l2)


@compiled
def adagrad_step(factors, squares, total, rows, slopes, rate, l2):
    """Take a step of Adagrad down from the rows of factors [R, d] that `rows` [S] names, and project to 0 or more.

    The gradient of a row is the sum of the slopes [S, d] with its number, and 2 l2 x the row. squares [R, d]: the sums
    of squared gradients of earlier steps. total [R, d]: 0 before and after.
    """
    left = np.zeros(len(factors), np.bool_)
    for s in range(len(rows)):
        left[rows[s]] = True
        for d in range(factors.shape[1]):
            total[rows[s], d] += slopes[s, d]
    for row in rows:
        if left[row]:
            left[row] = False
            for d in range(factors.shape[1]):
                slope = total[row, d] + 2 * l2 * factors[row, d]
                total[row, d] = 0
                squares[row, d] += slope * slope
                if slope != 0:
                    factors[row, d] = max(factors[row, d] - rate * slope / np.sqrt(squares[row, d]), 0.0)
