"""From what was played in worlds to a forecast: by hand."""

from __future__ import annotations

import numpy as np
import pytest

from ol2r_cli.plugins.advise.check import ORDERS, check
from ol2r_cli.plugins.advise.forecast import forecast
from ol2r_cli.plugins.advise.pages import simulated_user
from ol2r_cli.plugins.advise.play import DrawnWorld, WorldRun
from ol2r_cli.plugins.advise.world import WorldDocuments
from ol2r_cli.plugins.advise.worlds import GRID, WorldUser

DOCUMENTS = WorldDocuments(
    np.array([[1.0], [2], [1], [2]], np.float32),
    np.array([1, 2, 1, 2]),
    np.array([0, 2, 4]),
    ["a", "b"],
    np.full(2, 0.5),
)
ALWAYS = simulated_user(WorldUser("pbm", np.array([1.0, 0.5])))


def of(gains, refits=(0.0,), last=((1, 0), (3, 2)), grades=(5, 30, 5, 30)):
    """A forecast with the mean of the worlds and their range as interval."""
    worlds = [DrawnWorld(refit, ALWAYS, np.array(grades)) for refit in (False, *(True,) * len(refits))]
    runs = [WorldRun(False, np.array(gains, float), 2.0, 3.0, np.array(last))]
    runs += [WorldRun(True, np.array(gains, float) + by, 2.0, 3.5, np.array(last)) for by in refits]

    def interval(point, refit):
        return float(np.mean(point)), float(min(refit)), float(max(refit))

    return forecast(runs, worlds, DOCUMENTS, interval, [2, len(gains)])


def test_gains_are_means_of_the_pages_so_far():
    found = of([-1, -1, 0, 2, 2, 2], refits=(-0.5, 0.5))
    assert found.gain == {2: (-1, -1.5, -0.5), 6: pytest.approx((4 / 6, 1 / 6, 7 / 6))}
    assert (found.ceiling, found.production) == ((1, 1.5, 1.5), (2, 2, 2))
    assert (found.worst.mean, found.worst_page, found.break_even, found.last.mean) == (-2, 2, 4, 2)
    assert found.worst == (-2, -3, -1), "of the page where the mean is lowest, not of the lowest page of each world"
    assert found.verdict == "gain"
    curve = [part.tolist() for part in (found.curve.pages, found.curve.mean, found.curve.high)]
    assert curve == [[1, 2, 3, 4, 5, 6], [-1, -2, -2, 0, 2, 4], [-0.5, -1, -0.5, 2, 4.5, 7]]


@pytest.mark.parametrize(
    ("gains", "break_even", "worst_page", "verdict"),
    [
        ([1, 1, 1], 1, 0, "gain"),
        ([1, -3, 1], None, 2, "loss"),
        ([-1, -1, -1], None, 3, "loss"),
        ([-1, 1, 0.1], 2, 1, "gain"),
    ],
)
def test_when_it_pays(gains, break_even, worst_page, verdict):
    found = of(gains)
    assert (found.break_even, found.worst_page, found.verdict) == (break_even, worst_page, verdict)
    assert found.worst.mean == pytest.approx(sum(gains[:worst_page]))
    assert of(gains, refits=(-9, 9)).verdict == "undecided"


def test_pages_of_tests():
    """An A/B test: two groups, each (1.96 + .84)^2 2 variance / difference^2. Interleaving: by its own mean."""
    found = of([0.5] * 10)
    attraction = {grade: GRID[grade] for grade in (5, 30)}
    chances = [[attraction[5], attraction[30] / 2], [attraction[30], attraction[5] / 2]]
    variance = np.mean([sum(p * (1 - p) for p in of_list) for of_list in chances])
    assert found.ab_test_pages == pytest.approx(4 * 7.849 * variance / 0.25, rel=0.05)
    # A coin says who has the first rank, and its document is that of the team.
    mean = variance_of = 0.0
    for high, low in ((attraction[30], attraction[5] / 2), (attraction[30] / 2, attraction[5])):
        wins, loses = high * (1 - low), low * (1 - high)
        mean, variance_of = mean + (wins - loses) / 2, variance_of + (wins + loses) / 2
    assert found.interleaving_pages == pytest.approx(7.849 * (variance_of - mean**2) / mean**2, rel=0.1)
    assert of([-0.5] * 10).ab_test_pages is None
    assert of([0.5] * 10, last=((1, 0), (3, 2)), grades=(30, 5, 30, 5)).interleaving_pages is None


@pytest.fixture(scope="module")
def checked():
    """What worlds say of their own pages, of pages with twice as many clicks, and with clicks elsewhere."""
    random = np.random.default_rng(2)
    document = np.tile([0, 1, 2], (4000, 1))
    document[:, 2] = np.where(random.random(4000) < 0.3, -1, 2)
    grades, user = np.array([25, 20, 30]), WorldUser("pbm", np.array([1, 0.5, 0.4]))
    chance = user.values * GRID[grades] * (document >= 0)
    own, twice = random.random(document.shape) < chance, random.random(document.shape) < 2 * chance
    worlds = [DrawnWorld(True, simulated_user(user), grades)] * 30
    query, rank = np.zeros(4000, int), np.array([1, 2, 3])
    return [check(document, click, worlds, query, rank) for click in (own, twice, own[:, [1, 0, 2]])], own


def test_users_who_click_as_the_log_pass(checked):
    (passed, _, _), click = checked
    ranks = [f"{last}at rank {rank}" for last in ("clicks ", "last click ") for rank in (1, 2, 3)]
    assert [one.name for one in passed if one.passes] == ["clicks a page", *ranks[:3], "no click", *ranks[3:]]
    assert passed[0].observed == click.sum(1).mean()
    assert passed[1].simulated == pytest.approx(GRID[25], abs=0.01)


def test_users_with_other_clicks_do_not_pass(checked):
    (_, more, moved), _ = checked
    assert (more[0].passes, moved[0].passes, moved[1].passes) == (False, True, False)


def test_users_who_prefer_another_order_than_the_log_do_not_pass():
    """Query 0 has pages in both orders, query 1 in one: the difference is that of query 0."""
    random = np.random.default_rng(3)
    usual, other = np.tile([0, 1], (2000, 1)), np.tile([1, 0], (3000, 1))
    document, query = np.concatenate([usual, other, np.tile([2, 3], (500, 1))]), np.repeat([0, 1], [5000, 500])
    user, rank = WorldUser("pbm", np.array([1, 0.3])), np.array([1, 2, 1, 2])
    worlds = [DrawnWorld(True, simulated_user(user), np.array([20, 30, 9, 9]))] * 30
    click = random.random(document.shape) < user.values * GRID[worlds[0].grades][document]
    found = check(document, click, worlds, query, rank)[-1]
    of_page = click.sum(1)
    assert found.name == ORDERS
    assert found.observed == pytest.approx(of_page[:2000].mean() - of_page[2000:5000].mean())
    assert found.simulated == pytest.approx(0.7 * (GRID[20] - GRID[30]), abs=0.02)
    assert found.passes
    opposite = check(document, click, worlds, query, np.array([2, 1, 1, 2]))[-1]
    assert opposite.simulated == pytest.approx(-found.simulated, abs=0.02)
    assert opposite.observed == pytest.approx(-found.observed)
    assert opposite.passes
    grades = np.array([30, 20, 9, 9])
    wrong = check(document, click, [DrawnWorld(True, simulated_user(user), grades)] * 30, query, rank)
    assert not wrong[-1].passes
