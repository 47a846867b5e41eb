"""NDCG of recommended lists: candidates are all items that a user has not reviewed, a test review is relevant.

The gain is binary, and the best list of a user has all of its relevant items first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ol2r_cli.plugins.recommend.reviews import Reviews
from ol2r_cli.tensor.numpy_streams import Permutations

CUTOFFS = (10, 20, 50, 100)
_BATCH = 256  # users that are scored together


def rankings(
    scores: Callable[[NDArray[np.int64]], NDArray[np.float32]],
    reviews: Reviews,
    split: str,
    places: int,
    users: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return the first `places` items [n, places] of each user, best first; -1 below the end of a shorter list.

    Left out are the items of the training reviews of the user and, for `test`, of its validation and observed reviews.
    Equal scores are in the order of a fixed permutation of the items, so that the numbers of items have no influence.
    """
    known = [reviews.train]
    if split == "test":
        known += [rows for rows in (reviews.validation, reviews.observed) if rows is not None]
    seen = np.concatenate(known)
    order = np.argsort(reviews.user[seen], kind="stable")
    owner, item = reviews.user[seen][order], reviews.item[seen][order]
    tie = Permutations(0).permuted(np.arange(reviews.items))
    places, lists = min(places, reviews.items), []
    for start in range(0, len(users), _BATCH):
        batch = users[start : start + _BATCH]
        values = scores(batch).astype(np.float32)
        first, last = np.searchsorted(owner, batch), np.searchsorted(owner, batch, side="right")
        rows = np.repeat(np.arange(len(batch)), last - first)
        columns = item[np.concatenate([np.arange(a, b) for a, b in zip(first, last, strict=True)])]
        if not np.isfinite(values).all():
            raise FloatingPointError("the scores of the model are not finite numbers")
        values[rows, columns] = -np.inf
        kth = -np.partition(-values, places - 1, axis=1)[:, places - 1 : places]
        for of_user, least in zip(values, kth, strict=True):
            top = np.flatnonzero(of_user >= least)
            top = top[np.lexsort((tie[top], -of_user[top]))][:places]
            lists.append(np.where(of_user[top] > -np.inf, top, -1))
    return np.array(lists, np.int64).reshape(len(users), places)


def ndcg(
    lists: NDArray[np.int64], users: NDArray[np.int64], reviews: Reviews, split: str, cutoffs: Sequence[int] = CUTOFFS
) -> NDArray[np.float64]:
    """Return NDCG [n, cutoffs] of the lists [n, places] of these users, by their reviews in `split`."""
    rows = getattr(reviews, split)
    relevant = np.sort(reviews.user[rows].astype(np.int64) * reviews.items + reviews.item[rows])
    pairs = users[:, None] * reviews.items + lists
    place = np.minimum(np.searchsorted(relevant, pairs), len(relevant) - 1)
    hits = (relevant[place] == pairs) & (lists >= 0)
    counts = np.bincount(reviews.user[rows], minlength=reviews.users)[users]
    discount = 1 / np.log2(np.arange(2, max(max(cutoffs), lists.shape[1]) + 2))
    ideal = np.concatenate([[0], np.cumsum(discount)])
    gained = [(hits[:, :cutoff] * discount[: min(cutoff, lists.shape[1])]).sum(1) for cutoff in cutoffs]
    return np.stack([g / ideal[np.minimum(counts, cutoff)] for g, cutoff in zip(gained, cutoffs, strict=True)], 1)


def users_of(reviews: Reviews, split: str) -> NDArray[np.int64]:
    """Return the users with a review in a split, ascending."""
    return np.unique(reviews.user[getattr(reviews, split)]).astype(np.int64)
