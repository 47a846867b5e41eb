"""NDCG of recommended lists: by its definition in loops, and what is never recommended."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from ol2r_cli.plugins.recommend.evaluation import CUTOFFS, ndcg, rankings, users_of
from ol2r_cli.plugins.recommend.reviews import Reviews
from tests.plugins.recommend.small import fit, generated, mean_ndcg, renumbered

OF = generated()
USERS = users_of(OF, "test")
TABLE = np.random.default_rng(0).integers(0, 6, (OF.users, OF.items)).astype(np.float32)  # with many ties


def lists(split="test", places=100):
    return rankings(lambda users: TABLE[users], OF, split, places, users_of(OF, split))


def by_loops(ranked, relevant, cutoff):
    gained = sum(1 / math.log2(place + 2) for place, item in enumerate(ranked[:cutoff]) if item in relevant)
    return gained / sum(1 / math.log2(place + 2) for place in range(min(cutoff, len(relevant))))


@pytest.mark.parametrize("split", ["validation", "test"])
def test_lists_have_all_unreviewed_items_best_first(split):
    seen = OF.train if split == "validation" else np.concatenate([OF.train, OF.validation])
    for user, ranked in zip(users_of(OF, split), lists(split), strict=True):
        items = ranked[ranked >= 0].tolist()
        reviewed = set(OF.item[seen][OF.user[seen] == user].tolist())
        assert sorted(items) == sorted(set(range(OF.items)) - reviewed)
        assert sorted(TABLE[user, items], reverse=True) == TABLE[user, items].tolist()
        assert (ranked[len(items) :] == -1).all()
    assert (lists(split, 7) == lists(split)[:, :7]).all(), "of tied items the same ones"


def test_ndcg_is_that_of_the_definition():
    values, ranked = ndcg(lists(), USERS, OF, "test"), lists()
    for row, user in enumerate(USERS):
        relevant = set(OF.item[OF.test][OF.user[OF.test] == user].tolist())
        expected = [by_loops(ranked[row].tolist(), relevant, cutoff) for cutoff in CUTOFFS]
        np.testing.assert_allclose(values[row], expected, rtol=1e-12)


def test_the_ideal_list_ends_at_the_cutoff():
    """Of three relevant items two have places: both found is 1, the second place alone is .63093 / 1.63093."""
    rows = [(0, item, 5.0, []) for item in range(5)]
    of = replace(Reviews.of(rows, [], {}), test=np.array([0, 1, 2]))
    ranked = np.array([[2, 0, 1], [4, 1, 3], [3, 4, 0]])
    found = ndcg(ranked, np.zeros(3, np.int64), of, "test", (2, 3))
    np.testing.assert_allclose(found[:, 0], [1, 0.63093 / 1.63093, 0], rtol=1e-5)
    np.testing.assert_allclose(found[:, 1], [1, 0.63093 / 2.13093, 0.5 / 2.13093], rtol=1e-5)


def test_other_names_of_users_and_items_change_nothing():
    other, user, item = renumbered(OF)
    scores = np.random.default_rng(2).random((OF.users, OF.items)).astype(np.float32)
    renamed = np.empty_like(scores)
    renamed[np.ix_(user, item)] = scores
    here = ndcg(rankings(lambda users: scores[users], OF, "test", 20, USERS), USERS, OF, "test")
    there = ndcg(rankings(lambda users: renamed[users], other, "test", 20, user[USERS]), user[USERS], other, "test")
    np.testing.assert_array_equal(here, there)


def test_scores_that_are_not_finite_are_refused():
    with pytest.raises(FloatingPointError):
        rankings(lambda users: TABLE[users] * np.nan, OF, "test", 10, USERS)


def test_most_popular_recommends_by_counts():
    fitted, _ = fit(OF, "model=most_popular")
    counts = np.bincount(OF.item[OF.train], minlength=OF.items)
    assert (fitted.scores(USERS[:2]) == counts).all()
    assert 0 < mean_ndcg(OF, fitted) < 0.3
