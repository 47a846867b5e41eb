"""Small reviews for tests: generated ones with planted rules, and the same with other numbers for users and items."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from ol2r_cli.config.composer import Composer
from ol2r_cli.config.instantiate import build
from ol2r_cli.plugins.recommend.evaluation import ndcg, rankings, users_of
from ol2r_cli.plugins.recommend.model import Recommender
from ol2r_cli.plugins.recommend.reviews import Reviews
from ol2r_cli.plugins.recommend.sources import GeneratedReviews


@cache
def source(users: int = 120, items: int = 60, seed: int = 0) -> GeneratedReviews:
    return GeneratedReviews(users, items, 16, 2, 0.8, seed, 0, None, 1.0, None)


def reviews(users: int = 120, items: int = 60, seed: int = 0) -> Reviews:
    return source(users, items, seed).load()


def generated(seed: int = 0, **settings: Any) -> Reviews:
    """Reviews with planted rules, with these settings in place of the usual ones."""
    usual = {"users": 120, "items": 60, "of_user": 15, "noise_features": 4, "taste": 0.9, "split": 0, "features": None}
    return GeneratedReviews(**{**usual, "training": 1.0, "observed": None, "seed": seed, **settings}).load()


def recorded(
    made: Recommender, of: Reviews, seed: int, validate: Callable[[Recommender], float]
) -> tuple[Any, list[dict[str, Any]]]:
    """The model after a fit, and the rows of its progress."""
    rows = list[dict[str, Any]]()
    made.fit(of, seed, lambda step, **values: rows.append({"step": step, **values}), validate)
    return made, rows


def relabelled(of: Reviews, user: np.ndarray, item: np.ndarray) -> Reviews:
    """The reviews where user u is called user[u] and item i item[i]."""
    return replace(of, user=user[of.user].astype(np.int32), item=item[of.item].astype(np.int32))


@cache
def _composer() -> Composer:
    return Composer(root="recommend")


def model(*words: str) -> Recommender:
    """The model of `ol2r recommend WORDS`."""
    return build(_composer()(words).settings["model"], "model")


def mean_ndcg(of: Reviews, fitted: Recommender, split: str = "test", cutoff: int = 10) -> float:
    users = users_of(of, split)
    lists = rankings(fitted.scores, of, split, cutoff, users)
    return float(ndcg(lists, users, of, split, (cutoff,)).mean())


def fit(of: Reviews, *words: str, seed: int = 0) -> tuple[Recommender, list[dict[str, Any]]]:
    """The fitted model of these words and its steps."""
    made, steps = model(*words), list[dict[str, Any]]()
    made.fit(of, seed, lambda step, **values: steps.append(values), lambda each: mean_ndcg(of, each, "validation", 50))
    return made, steps
