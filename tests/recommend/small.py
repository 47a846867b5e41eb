"""Small reviews for tests: generated ones with planted rules, and the same with other numbers for users and items."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from ol2r_cli.config.composer import Composer
from ol2r_cli.config.instantiate import build
from ol2r_cli.recommend.evaluation import ndcg, rankings, users_of
from ol2r_cli.recommend.model import Recommender
from ol2r_cli.recommend.reviews import Reviews
from ol2r_cli.recommend.sources import GeneratedReviews


@cache
def source(users: int = 120, items: int = 60, seed: int = 0) -> GeneratedReviews:
    return GeneratedReviews(users, items, 16, 2, 0.8, seed, 0, None, 1.0)


def reviews(users: int = 120, items: int = 60, seed: int = 0) -> Reviews:
    return source(users, items, seed).load()


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
