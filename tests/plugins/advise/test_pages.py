"""What users of worlds click on given pages, against plain calculations."""

from __future__ import annotations

import numpy as np
import pytest

from ol2r_cli.plugins.advise.forecast import team_draft
from ol2r_cli.plugins.advise.pages import expected, grades_of, ordered, simulated, simulated_user
from ol2r_cli.plugins.advise.worlds import GRID, WorldUser
from tests.plugins.advise.logs import clicks_of

PLACES = 4
BY_LAST_CLICK = np.array([[0.9, 0, 0, 0], [0.8, 0.5, 0, 0], [0.7, 0.4, 0.3, 0], [0.6, 0.5, 0.3, 0.2]])
USERS = [
    WorldUser("pbm", np.array([1, 0.6, 0.3, 0.1])),
    WorldUser("ubm", BY_LAST_CLICK),
    WorldUser("dbn", np.stack([np.full(len(GRID), 0.9), 0.8 - 0.7 * GRID])),
]


@pytest.mark.parametrize("user", USERS, ids=lambda user: user.kind)
def test_users_click_as_defined(user):
    """Expected clicks are the means of many plain pages, and of many simulated ones; nobody clicks on no document."""
    lists = np.array([[40, 30, 20, 45], [10, 49, -1, -1]])
    model, random = simulated_user(user).model(PLACES), np.random.default_rng(0)
    for grades, mean in zip(lists, expected(model, lists), strict=True):
        plain = clicks_of(user, np.tile(np.where(grades < 0, np.nan, GRID[grades]), (4000, 1)), random)
        drawn = simulated(model, np.repeat(grades[None], 4000, 0), seed=1)
        assert plain.sum(1).mean() == pytest.approx(mean, abs=0.05)
        assert drawn.sum(1).mean() == pytest.approx(mean, abs=0.05)
        assert drawn.mean(0) == pytest.approx(plain.mean(0), abs=0.04)
        assert not drawn[:, grades < 0].any()


def test_other_seeds_give_other_clicks():
    model = simulated_user(USERS[0]).model(PLACES)
    lists = np.full((50, PLACES), 30)
    assert np.array_equal(simulated(model, lists, 3), simulated(model, lists, 3))
    assert not np.array_equal(simulated(model, lists, 3), simulated(model, lists, 4))


def test_lists_have_the_best_documents_of_each_query():
    scores = np.array([0.1, 0.5, 0.3, 0.9, 0.2])
    assert ordered(scores, np.array([0, 3, 5]), 2).tolist() == [[1, 2], [3, 4]]
    assert ordered(scores, np.array([0, 3, 5]), 4).tolist() == [[1, 2, 0, -1], [3, 4, -1, -1]]
    assert grades_of(np.array([[2, -1]]), np.array([7, 8, 9])).tolist() == [[9, -1]]


def test_team_draft_is_fair():
    """Every document once; in each pair of ranks one of each team; both teams have the first rank equally often."""
    first, second = np.tile([0, 1, 2, 3], (2000, 1)), np.tile([3, 2, 0, 1], (2000, 1))
    lists, of_second = team_draft(first, second, np.random.default_rng(1))
    assert (np.sort(lists, axis=1) == [0, 1, 2, 3]).all()
    assert (of_second.reshape(-1, 2, 2).sum(2) == 1).all()
    assert of_second[:, 0].mean() == pytest.approx(0.5, abs=0.05)
    assert (lists[:, 0] == np.where(of_second[:, 0], 3, 0)).all()
    assert (lists[:, 1] == np.where(of_second[:, 0], 0, 3)).all()


def test_team_draft_of_short_lists():
    lists, _ = team_draft(np.array([[1, -1]]), np.array([[1, -1]]), np.random.default_rng(1))
    assert lists.tolist() == [[1, -1]]
