"""Vectors of users and items that predict ratings and rank: the objective, descent on it, and its derivatives.

Dissertation, equation (4.2.2): the squared error of u'v as a rating, less `bpr` times log sigma(u'v - u'w) for pairs of
a reviewed item v and another one w, plus l2. D_i^o of the text has all other items; here each review has a few samples,
which share the weight `bpr`. The l2 of a user counts once for each of its reviews, that of an item once for each sample
that it is on average: all items have the same, so that what many have reviewed is not held back.

The bias of an item is one more number of its vector, for which all users have a 1 that is not fitted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ol2r_cli.loops.compile import compiled, compiled_sums
from ol2r_cli.plugins.recommend.reviews import Reviews

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Pair = Sequence[Floats]  # [U, d] of users and [I, d] of items
L2 = tuple[float, float]  # of users and of items


@dataclass(frozen=True)
class Reviewed:
    """R reviews of items by users."""

    user: Ints  # [R]
    item: Ints  # [R]
    rating: Floats  # [R]
    users: int  # their number, with those that have no review
    items: int

    @classmethod
    def of(cls, reviews: Reviews) -> Reviewed:
        """Return the training reviews."""
        user, item = (of[reviews.train].astype(np.int64) for of in (reviews.user, reviews.item))
        return cls(user, item, reviews.rating[reviews.train].astype(float), reviews.users, reviews.items)

    @cached_property
    def _of_users(self) -> tuple[Ints, Ints]:
        """Return where the items of each user begin, [U + 1], and the items [R]."""
        order = np.argsort(self.user, kind="stable")
        return np.searchsorted(self.user[order], np.arange(self.users + 1)), self.item[order]

    def others(self, rows: Ints, number: int, random: np.random.Generator) -> Ints:
        """Return samples [n, number] of items that the users of the reviews `rows` have not reviewed."""
        others = random.integers(self.items, size=(len(rows), number))
        skip_reviewed(others, self.user[rows], self.items, *self._of_users)
        return others

    def descend(self, vectors: Pair, bases: Pair, rate: float, bpr: float, l2: L2, random: np.random.Generator) -> None:
        """Take as many steps as there are reviews, each for a review at random, in the vectors of users and items.

        The l2 is of the distance from the bases. Items whose vectors are one longer have a bias.
        """
        rows = random.integers(len(self.user), size=len(self.user))
        other = self.others(rows, 1, random)[:, 0]
        reviews = self.user[rows], self.item[rows], self.rating[rows], other
        users, items = vectors
        ahead = facing(users, items)
        descend(ahead, items, users.shape[1], bases[0], bases[1], *reviews, rate, bpr, *l2)
        users[:] = ahead[:, : users.shape[1]]


def facing(users: Floats, items: Floats) -> Floats:
    """Return the vectors of users as long as those of items: with a 1 at the end where items have a bias."""
    ones = np.ones((len(users), items.shape[1] - users.shape[1]))
    return np.concatenate([users, ones], 1)


class Side:
    """The objective as a function of the vectors of one side, users (0) or items (1), for `given` ones of the other.

    `others` [R, K] are samples of `Reviewed.others` for all reviews; `l2` is that of the side. Items whose vectors are
    one longer than those of users have a bias.
    """

    def __init__(self, data: Reviewed, others: Ints, side: int, given: Floats, bpr: float, l2: float):
        self.reviews = data.user, data.item, data.rating, others, bpr
        self.side, self.given, self.l2 = side, given, l2
        even = np.full(data.items, len(data.user) / data.items)
        self.often = even if side else np.bincount(data.user, minlength=data.users)

    def squares(self, vectors: Floats) -> float:
        """Return the sum of squares of vectors, each as often as its l2 counts."""
        return float(self.often @ (vectors**2).sum(1))

    def _both(self, vectors: Floats) -> tuple[Floats, Floats]:
        users, items = (self.given, vectors) if self.side else (vectors, self.given)
        return facing(users, items), items

    def value(self, vectors: Floats) -> float:
        """Return the objective, with the l2 of these vectors only."""
        return loss(*self._both(vectors), *self.reviews) + self.l2 / 2 * self.squares(vectors)

    def derivatives(self, vectors: Floats) -> Floats:
        """Return gradient and Hessian, for items its bound, [n, d + d (d + 1) / 2]: the lower triangle by rows."""
        users, items = self._both(vectors)
        derivatives = (item_derivatives if self.side else user_derivatives)(users, items, *self.reviews)
        d, l2 = vectors.shape[1], self.l2 * self.often[:, None]
        if items.shape[1] > d:  # of users, without the 1
            after = items.shape[1]
            derivatives = np.concatenate([derivatives[:, :d], derivatives[:, after : after + d * (d + 1) // 2]], 1)
        derivatives[:, :d] += l2 * vectors
        derivatives[:, d - 1 + np.cumsum(np.arange(1, d + 1))] += l2  # the diagonal
        return derivatives


@compiled
def skip_reviewed(others, user, items, start, reviewed):
    """Replace samples `others` [n, K] that user[n] has reviewed by the next item that is not, in place.

    `reviewed` has the items of user i from start[i] to start[i + 1]. Users who have reviewed all items keep theirs.
    """
    for n in range(len(others)):
        own = reviewed[start[user[n]] : start[user[n] + 1]]
        for k in range(others.shape[1]):
            for _ in range(len(own) + 1):
                if not (own == others[n, k]).any():
                    break
                others[n, k] = (others[n, k] + 1) % items


@compiled
def descend(users, items, free, user_base, item_base, user, item, rating, other, rate, bpr, user_l2, item_l2):
    """Take a step of stochastic gradient descent for each review [n], with one other item each, in place.

    Of users the first `free` numbers are fitted. The l2 is of the distance from the bases, for items in that of the
    other item only.
    """
    for n in range(len(user)):
        i, j, k = user[n], item[n], other[n]
        high, low = 0.0, 0.0
        for f in range(users.shape[1]):
            high += users[i, f] * items[j, f]
            low += users[i, f] * items[k, f]
        error, push = 2 * (rating[n] - high), bpr / (1 + np.exp(high - low))
        for f in range(users.shape[1]):
            u, v, w = users[i, f], items[j, f], items[k, f]
            if f < free:
                users[i, f] += rate * (error * v + push * (v - w) - user_l2 * (u - user_base[i, f]))
            items[j, f] += rate * (error + push) * u
            items[k, f] -= rate * (push * u + item_l2 * (w - item_base[k, f]))


@compiled_sums
def loss(users, items, user, item, rating, others, bpr):
    """Return the objective without l2, of reviews [n] with samples others [n, K]."""
    total = 0.0
    for n in range(len(user)):
        high = 0.0
        for f in range(users.shape[1]):
            high += users[user[n], f] * items[item[n], f]
        total += (rating[n] - high) ** 2
        for k in range(others.shape[1]):
            low = 0.0
            for f in range(users.shape[1]):
                low += users[user[n], f] * items[others[n, k], f]
            total += bpr / others.shape[1] * (max(low - high, 0.0) + np.log1p(np.exp(-abs(high - low))))
    return total


@compiled
def user_derivatives(users, items, user, item, rating, others, bpr):
    """Return gradient and Hessian of `loss` by users, [U, d + d (d + 1) / 2]: of the Hessian the lower triangle."""
    d = users.shape[1]
    out, apart = np.zeros((len(users), d + d * (d + 1) // 2)), np.empty(d)
    for n in range(len(user)):
        i, j, high = user[n], item[n], 0.0
        for f in range(d):
            high += users[i, f] * items[j, f]
        _add(out[i], items[j], 2 * (high - rating[n]), 2.0)
        for k in others[n]:
            margin = high
            for f in range(d):
                margin -= users[i, f] * items[k, f]
                apart[f] = items[j, f] - items[k, f]
            wrong = 1 / (1 + np.exp(margin))
            weight = bpr / others.shape[1] * wrong
            _add(out[i], apart, -weight, weight * (1 - wrong))
    return out


@compiled
def item_derivatives(users, items, user, item, rating, others, bpr):
    """Return gradient and a bound of the Hessian of `loss` by each item's vector, as `user_derivatives`.

    A pair moves two items, a and b. As (a - b)^2 <= 2 a^2 + 2 b^2, twice the curvature for each of them bounds that of
    both, and the items can be treated as if each moved alone.
    """
    d = users.shape[1]
    out = np.zeros((len(items), d + d * (d + 1) // 2))
    for n in range(len(user)):
        i, j, high, pull, curved = user[n], item[n], 0.0, 0.0, 0.0
        for f in range(d):
            high += users[i, f] * items[j, f]
        for k in others[n]:
            margin = high
            for f in range(d):
                margin -= users[i, f] * items[k, f]
            wrong = 1 / (1 + np.exp(margin))
            weight = bpr / others.shape[1] * wrong
            pull += weight
            curved += 2 * weight * (1 - wrong)
            _add(out[k], users[i], weight, 2 * weight * (1 - wrong))
        _add(out[j], users[i], 2 * (high - rating[n]) - pull, 2 + curved)
    return out


@compiled
def _add(row, x, first, second):
    """Add first x and second x x' to a row of derivatives."""
    place = len(x)
    for f in range(len(x)):
        row[f] += first * x[f]
        scaled = second * x[f]
        for h in range(f + 1):
            row[place + h] += scaled * x[h]
        place += f + 1
