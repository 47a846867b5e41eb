"""The step of DBGD and MGD by hand."""

from __future__ import annotations

import numpy as np
import pytest

from tests.reference.dueling import members, step, unit, winners

pytestmark = pytest.mark.slow  # the oracle itself; the tests of the package compare with it

THETA = np.array([1.0, 2.0, 3.0])
DIRECTIONS = [np.array([1.0, 0.0, 0.0]), np.array([0.0, 0.6, 0.8]), np.array([0.0, 0.0, -1.0])]


def test_unit_by_hand():
    assert unit(np.array([3.0, 0.0, -4.0])) == pytest.approx([0.6, 0.0, -0.8])


def test_directions_of_normals_are_uniform_on_the_sphere():
    # On a sphere in three dimensions every coordinate is uniform in -1 .. 1 (Archimedes): mean square 1/3, mean 0.
    drawn = np.array([unit(normals) for normals in np.random.default_rng(0).normal(size=(20_000, 3))])
    assert (drawn**2).sum(1) == pytest.approx(np.ones(20_000))
    spread = np.sqrt((1 / 5 - 1 / 9) / 20_000)  # E u^4 = 1/5
    assert (drawn**2).mean(0) == pytest.approx([1 / 3] * 3, abs=4 * spread)
    assert drawn.mean(0) == pytest.approx([0] * 3, abs=4 * np.sqrt(1 / 3 / 20_000))
    assert np.histogram(drawn[:, 0], bins=4, range=(-1, 1))[0] == pytest.approx([5000] * 4, abs=4 * np.sqrt(3750))


def test_members_by_hand():
    compared = members(THETA, 0.5, DIRECTIONS)
    assert [m.tolist() for m in compared] == [
        [1.0, 2.0, 3.0],
        pytest.approx([1.5, 2.0, 3.0]),
        pytest.approx([1.0, 2.3, 3.4]),
        pytest.approx([1.0, 2.0, 2.5]),
    ]


@pytest.mark.parametrize(
    ("credit", "expected"),
    [
        ([1, 2, 0, 2], [1, 3]),  # all that beat the current ranker, not only the best
        ([0, 1, 3, 2], [1, 2, 3]),
        ([1, 1, 1, 1], []),  # a tie is no win
        ([2, 1, 0, 0], []),
        ([0.5, 0.5, 0.6, 0.4], [2]),
    ],
)
def test_winners_have_more_credit_than_the_current_ranker(credit, expected):
    assert winners(credit) == expected


def test_a_duel_that_is_won():
    theta, rate = step(THETA, 0.1, DIRECTIONS[1:2], [0, 1], 0.9)
    assert theta == pytest.approx([1.0, 2.06, 3.08])
    assert rate == pytest.approx(0.09)


def test_several_winners_are_averaged():
    theta, rate = step(THETA, 0.1, DIRECTIONS, [1, 2, 5, 0], 0.9)
    assert theta == pytest.approx([1 + 0.1 / 2, 2 + 0.06 / 2, 3 + 0.08 / 2])
    assert rate == pytest.approx(0.09)


@pytest.mark.parametrize("credit", [[1, 0, 1, 0], [0, 0, 0, 0]])
def test_without_a_winner_neither_theta_nor_the_rate_changes(credit):
    theta, rate = step(THETA, 0.1, DIRECTIONS, credit, 0.9)
    assert theta.tolist() == THETA.tolist()
    assert rate == 0.1


def test_credit_is_of_all_members():
    with pytest.raises(ValueError, match="credit must be of 4 members, got 3"):
        step(THETA, 0.1, DIRECTIONS, [1, 0, 1], 0.9)
