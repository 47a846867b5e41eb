"""Baselines from numbers and ratings of reviews: MostPopular, NMF and BPRMF, and EFM, which adds the mentions.

NMF: Lee and Seung, NIPS 2000. BPRMF: Rendle et al., UAI 2009, algorithm LearnBPR. EFM: Zhang et al., SIGIR 2014.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.decomposition import non_negative_factorization
from sklearn.exceptions import ConvergenceWarning

from ol2r_cli.config.ranges import Count, NonNegative, Positive, Share
from ol2r_cli.loops.compile import compiled
from ol2r_cli.plugins.recommend.factors import Reviewed
from ol2r_cli.plugins.recommend.model import Recommender, StepProgress, Validate
from ol2r_cli.plugins.recommend.reviews import Reviews

Matrix = NDArray[np.float64]
_TINY = 1e-12  # below every denominator


class MostPopular(Recommender):
    """Items in the order of their numbers of training reviews, the same for all users."""

    counts: NDArray[np.int64]  # [I]

    def fit(self, reviews: Reviews, seed: int, progress: StepProgress, validate: Validate) -> None:
        """Count."""
        self.counts = np.bincount(reviews.item[reviews.train], minlength=reviews.items)
        progress(1, validation_ndcg_50=validate(self))

    def scores(self, users: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the counts, for every user."""
        return np.tile(self.counts.astype(np.float32), (len(users), 1))

    def fold_in(self, profile: NDArray[np.float64]) -> NDArray[np.float32]:
        """Return the counts."""
        return self.counts.astype(np.float32)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the counts [I]."""
        return {"counts": self.counts}


class Factors(Recommender):
    """Scores are products of the factors of user and item, and the bias of the item.

    A subclass yields after each step of its fit what to record of it, with `user` [U, d], `item` [I, d] and `bias` [I]
    in place. Every `every` steps they are validated, and the best of them kept; the fit ends after `patience` of these
    without a better one.
    """

    user: NDArray[np.float32]
    item: NDArray[np.float32]
    bias: NDArray[np.float32]

    def __init__(self, factors: Count, steps: Count, every: Count, patience: Count):
        self.factors, self.steps, self.every, self.patience = factors, steps, every, patience

    def fit(self, reviews: Reviews, seed: int, progress: StepProgress, validate: Validate) -> None:
        """Take steps, and the best of the validated states."""
        best, state, since = -1.0, dict[str, NDArray[Any]](), 0
        self.bias = np.zeros(reviews.items, np.float32)
        for step, values in enumerate(self._steps(reviews, np.random.default_rng(seed)), 1):
            if step % self.every and step < self.steps:
                progress(step, **values)
                continue
            value = validate(self)
            progress(step, **values, validation_ndcg_50=value)
            since += 1
            if value > best:
                best, since = value, 0
                state = {name: array.copy() for name, array in self.state().items()}
            if since >= self.patience or step >= self.steps:
                break
        self.load(state, reviews)

    def _steps(self, reviews: Reviews, random: np.random.Generator) -> Iterator[dict[str, float]]:
        raise NotImplementedError

    def scores(self, users: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return products of factors, plus the bias."""
        return self.user[users] @ self.item.T + self.bias

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the factors and the bias."""
        return {name: np.asarray(getattr(self, name), np.float32) for name in ("user", "item", "bias")}


def ratings(reviews: Reviews, values: str = "rating") -> sparse.csr_array:
    """Return the matrix [U, I] of training ratings, or of ones."""
    rows = reviews.train
    of = reviews.rating[rows].astype(np.float64) if values == "rating" else np.ones(len(rows))
    return sparse.csr_array((of, (reviews.user[rows], reviews.item[rows])), (reviews.users, reviews.items))


def _loss(target: sparse.csr_array, user: Matrix, item: Matrix) -> float:
    """Return the squared error of all cells."""
    crossed = ((target @ item) * user).sum()
    return float((target.data**2).sum() - 2 * crossed + ((user.T @ user) * (item.T @ item)).sum())


class NMF(Factors):
    """Non-negative factors of the matrix of ratings, by least squares.

    cells: `all` takes cells without a review as 0, which scikit-learn does; `observed` leaves them out, by the
    multiplicative updates of Lee and Seung. values: what a cell with a review has, `rating` or `one`. l2: the weight of
    squared factors.
    """

    def __init__(
        self,
        cells: Literal["all", "observed"],
        values: Literal["rating", "one"],
        factors: Count,
        l2: NonNegative,
        steps: Count,
        every: Count,
        patience: Count,
    ):
        super().__init__(factors, steps, every, patience)
        self.cells, self.values, self.l2 = cells, values, l2

    def _steps(self, reviews: Reviews, random: np.random.Generator) -> Iterator[dict[str, float]]:
        target = ratings(reviews, self.values)
        mean = target.mean() if self.cells == "all" else target.data.mean()
        user, item = (2 * np.sqrt(mean / self.factors) * random.random((n, self.factors)) for n in target.shape)
        rows, columns = target.nonzero()
        for _ in range(self.steps):
            if self.cells == "all":
                user, item = _by_scikit_learn(target, user, item, self.l2)
                loss = _loss(target, user, item)
            else:
                user, item = _observed(target, rows, columns, user, item, self.l2)
                loss = ((target.data - np.einsum("rd,rd->r", user[rows], item[columns])) ** 2).sum()
            self.user, self.item = user.astype(np.float32), item.astype(np.float32)
            yield {"objective": float(loss + self.l2 * ((user**2).sum() + (item**2).sum())) / 2}


def _by_scikit_learn(target: sparse.csr_array, user: Matrix, item: Matrix, l2: float) -> tuple[Matrix, Matrix]:
    """Take one step of scikit-learn's coordinate descent, which multiplies its weights by the sizes of the matrix."""
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):  # it stops after one step
        user, components, _ = non_negative_factorization(
            *(target, user.copy(), np.ascontiguousarray(item.T), user.shape[1]),
            **{"init": "custom", "max_iter": 1, "tol": 0, "alpha_W": l2 / target.shape[1], "alpha_H": l2 / len(user)},
        )
    return user, np.ascontiguousarray(components.T)


def _observed(
    target: sparse.csr_array, rows: NDArray[Any], columns: NDArray[Any], user: Matrix, item: Matrix, l2: float
) -> tuple[Matrix, Matrix]:
    """Return the factors after a multiplicative update of users and one of items, from the observed cells."""
    fitted = target.copy()
    fitted.data = np.einsum("rd,rd->r", user[rows], item[columns])
    user = user * (target @ item) / (fitted @ item + l2 * user + _TINY)
    fitted.data = np.einsum("rd,rd->r", user[rows], item[columns])
    return user, item * (target.T @ user) / (fitted.T @ user + l2 * item + _TINY)


class BPRMF(Factors):
    """Factors and item biases for the pairwise likelihood of reviewed items above others, by stochastic gradients.

    A step goes through all training reviews in a random order, each against an item at random that its user has not
    reviewed. l2 is the weight of squared factors and biases of the three that a pair moves.
    """

    def __init__(
        self, factors: Count, learning_rate: Positive, l2: NonNegative, steps: Count, every: Count, patience: Count
    ):
        super().__init__(factors, steps, every, patience)
        self.learning_rate, self.l2 = learning_rate, l2

    def _steps(self, reviews: Reviews, random: np.random.Generator) -> Iterator[dict[str, float]]:
        user, item = (random.normal(0, 0.1, (n, self.factors)) for n in (reviews.users, reviews.items))
        bias, data = np.zeros(reviews.items), Reviewed.of(reviews)
        for _ in range(self.steps):
            order = random.permutation(len(data.user))
            pairs = data.user[order], data.item[order], data.others(order, 1, random)[:, 0]
            loss = descend_pairs(user, item, bias, *pairs, self.learning_rate, self.l2)
            self.user, self.item, self.bias = (array.astype(np.float32) for array in (user, item, bias))
            yield {"objective": loss / len(order)}


@compiled
def descend_pairs(users, items, biases, user, item, other, rate, l2):
    """Take a step for each review [n], in place; returns the sum of -log sigma(score of item - score of other)."""
    loss = 0.0
    for n in range(len(user)):
        u, i, j = user[n], item[n], other[n]
        margin = biases[i] - biases[j]
        for f in range(users.shape[1]):
            margin += users[u, f] * (items[i, f] - items[j, f])
        loss += max(-margin, 0.0) + np.log1p(np.exp(-abs(margin)))
        push = 1 / (1 + np.exp(margin))
        biases[i] += rate * (push - l2 * biases[i])
        biases[j] -= rate * (push + l2 * biases[j])
        for f in range(users.shape[1]):
            p, q, r = users[u, f], items[i, f], items[j, f]
            users[u, f] += rate * (push * (q - r) - l2 * p)
            items[i, f] += rate * (push * p - l2 * q)
            items[j, f] -= rate * (push * p + l2 * r)
    return loss


class EFM(Factors):
    """Explicit factors: attention of users [U, F] and quality of items [I, F] share factors with the ratings.

    Minimises |P Q' - A|^2 + attention |U V' - X|^2 + quality |Q1 V' - Y|^2 + l2 |all|^2 with non-negative P = [U, H]
    and Q = [Q1, K], cells without a review or mention as 0. X = 1 + (N - 1)(2 / (1 + e^-t) - 1) for t mentions, and
    Y = 1 + (N - 1) / (1 + e^-s) for good minus bad mentions s; N = 5. explicit: how many of the factors are shared.
    """

    def __init__(
        self,
        factors: Count,
        explicit: Share,
        values: Literal["rating", "one"],
        attention: NonNegative,
        quality: NonNegative,
        l2: NonNegative,
        steps: Count,
        every: Count,
        patience: Count,
    ):
        super().__init__(factors, steps, every, patience)
        self.shared, self.values = round(factors * explicit), values
        self.attention, self.quality, self.l2 = attention, quality, l2

    def _steps(self, reviews: Reviews, random: np.random.Generator) -> Iterator[dict[str, float]]:
        target, shared = ratings(reviews, self.values), slice(0, self.shared)
        mentions, quality = reviews.user_profile(reviews.train), reviews.item_profile(reviews.train)
        x = np.nan_to_num(1 + 4 * (2 / (1 + np.exp(-mentions)) - 1))
        y = np.nan_to_num(1 + 4 / (1 + np.exp(-quality)))
        p, q, v = (
            np.sqrt(target.mean() / self.factors) * 2 * random.random((n, self.factors))
            for n in (reviews.users, reviews.items, reviews.features)
        )
        v = v[:, shared]
        for _ in range(self.steps):
            for own, other, of_cells, side, weight in (
                (p, q, target, x, self.attention),
                (q, p, target.T, y, self.quality),
            ):
                top, bottom = of_cells @ other, own @ (other.T @ other) + self.l2 * own + _TINY
                top[:, shared] += weight * (side @ v)
                bottom[:, shared] += weight * (own[:, shared] @ (v.T @ v))
                own *= np.sqrt(top / bottom)
            top = self.attention * (x.T @ p[:, shared]) + self.quality * (y.T @ q[:, shared])
            gram = self.attention * (p[:, shared].T @ p[:, shared]) + self.quality * (q[:, shared].T @ q[:, shared])
            v *= np.sqrt(top / (v @ gram + self.l2 * v + _TINY))
            self.user, self.item = p.astype(np.float32), q.astype(np.float32)
            of_profiles = self.attention * ((p[:, shared] @ v.T - x) ** 2).sum()
            of_profiles += self.quality * ((q[:, shared] @ v.T - y) ** 2).sum()
            penalty = self.l2 * sum((factors**2).sum() for factors in (p, q, v))
            yield {"objective": float(_loss(target, p, q) + of_profiles + penalty)}
