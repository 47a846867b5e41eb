"""Small reviews for tests: generated ones with planted rules, and the same with other numbers."""

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

Fitted = tuple[Any, list[dict[str, Any]]]  # the model after a fit, and the rows of its progress


def source(**settings: Any) -> GeneratedReviews:
    """What generates reviews with planted rules, with these settings in place of the usual ones."""
    usual = {"users": 120, "items": 60, "of_user": 15, "noise_features": 4, "taste": 0.9, "seed": 0, "split": 0}
    return GeneratedReviews(**{**usual, "features": None, "training": 1.0, "observed": None, **settings})


def generated(**settings: Any) -> Reviews:
    return source(**settings).load()


def renumbered(of: Reviews) -> tuple[Reviews, np.ndarray, np.ndarray]:
    """The reviews with other numbers for all that they have, and those of users and items: u is called user[u]."""
    random, sizes = np.random.default_rng(9), (of.users, of.items, of.features, of.phrases)
    user, item, feature, phrase = (random.permutation(size).astype(np.int32) for size in sizes)
    numbers = {"user": user[of.user], "item": item[of.item], "mention_feature": feature[of.mention_feature]}
    numbers |= {"phrase_feature": feature[of.phrase_feature], "phrase": phrase[of.phrase]}
    names = (("feature_names", feature), ("phrase_names", phrase))
    ordered = {name: tuple(np.array(getattr(of, name))[np.argsort(order)].tolist()) for name, order in names}
    return replace(of, **numbers, **ordered), user, item


def recorded(made: Recommender, of: Reviews, seed: int, validate: Callable[[Recommender], float]) -> Fitted:
    rows = list[dict[str, Any]]()
    made.fit(of, seed, lambda step, **values: rows.append({"step": step, **values}), validate)
    return made, rows


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


def fit(of: Reviews, *words: str, seed: int = 0) -> Fitted:
    return recorded(model(*words), of, seed, lambda each: mean_ndcg(of, each, "validation", 50))
