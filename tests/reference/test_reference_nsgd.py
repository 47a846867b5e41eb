"""What null space gradient descent stores, draws and chooses, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from tests.reference.nsgd import LostDirections, StoredQueries, null_space_direction, preselected, winner

pytestmark = pytest.mark.slow  # the oracle itself; the tests of the package compare with it

X, Y, Z = np.eye(3)


def test_a_ring_of_directions_that_lost():
    lost = LostDirections(room=3)
    lost.store([X, Y, Z], [2, 3, 2, 1])  # only one earned less than the current ranker
    assert (lost.directions, lost.values, lost.place) == ([Z], [-1], 1)
    lost.store([X, Y, Z], [2, 0, 0, 2])
    assert (lost.values, lost.place) == ([-1, -2, -2], 0)
    lost.store([X], [1, 0])
    assert (lost.values, lost.place) == ([-1, -2, -2], 1)
    assert lost.directions[0] is X


@pytest.mark.parametrize(
    ("earned", "expected"),
    [
        ([4, 0, 1, 2, 3, 3, 5], [-4, -3, -2, -1, -1]),  # 0 1 2 3 are the four least; the other 3 is not more
        ([4, 0, 0, 0, 0, 3, 3], [-4, -4, -4, -4]),
        ([1, 0, 0, 0, 0, 0, 0], [-1] * 6),
        ([0, 0, 0, 0, 0, 0, 0], []),
        ([0.5, 0.25, 1, 1, 1, 1, 1], [-0.25]),
        ([3, 1], [-2]),
    ],
)
def test_who_is_stored(earned, expected):
    lost = LostDirections(room=60)
    lost.store([X] * (len(earned) - 1), earned)
    assert lost.values == expected


def test_the_worst_and_of_equal_ones_the_last():
    lost = LostDirections(6, list(range(6)), [-1, -3, -1, -2, -1, -3])
    assert lost.worst(3) == [5, 1, 3]
    assert lost.worst(5) == [5, 1, 3, 4, 2]
    assert lost.worst(0) == []
    assert LostDirections(6).worst(3) == []


def test_directions_of_the_null_space():
    normals = np.array([3.0, -4.0, 12.0])
    assert null_space_direction(normals, []) == pytest.approx(normals / 13)
    assert null_space_direction(normals, [Z]) == pytest.approx([0.6, -0.8, 0])
    assert null_space_direction(normals, [X + Y]) == pytest.approx(np.array([3.5, -3.5, 12]) / np.sqrt(168.5))
    assert null_space_direction(normals, [Z, 2 * Z, X]) == pytest.approx([0, -1, 0])


def test_preselection_by_the_mean_document():
    documents = [np.array([1.0, 0, 0]), np.array([1.0, -8, 2])]  # mean 1 -4 1
    chosen = preselected([X, (X - Y) / 2, -Y, Z - X], documents, 2)
    assert [direction.tolist() for direction in chosen] == [[0, -1, 0], [0.5, -0.5, 0]]
    assert preselected([X, Y], documents, 2)[0] is X


def stored(queries: StoredQueries) -> list[tuple[int, list[int]]]:
    return [(query.round, query.clicked) for query in queries.queries]


def test_which_queries_are_stored():
    queries, documents = StoredQueries(room=2, window=5), [X, Y, Z]
    queries.store(documents, [2, 0, 1], [0, 0, 0], 0)
    assert stored(queries) == []
    queries.store(documents, [2, 0, 1], [0, 1, 0], 1)  # 1/2
    queries.store(documents, [2, 0, 1], [1, 0, 1], 2)  # 1 + 1/3
    assert stored(queries) == [(1, [0]), (2, [2, 1])]
    queries.store(documents, [2, 0, 1], [1, 1, 0], 3)  # 3/2 is easier than both
    assert stored(queries) == [(1, [0]), (2, [2, 1])]
    queries.store(documents, [2, 0, 1], [1, 0, 0], 4)  # 1 replaces the easiest
    assert stored(queries) == [(1, [0]), (4, [2])]
    queries.store(documents, [2, 0, 1], [0, 0, 1], 6)  # 1/3; nothing is older than five rounds
    assert stored(queries) == [(1, [0]), (6, [1])]
    queries.store(documents, [2, 0, 1], [1, 1, 1], 7)  # easy, but the first is six rounds old
    assert stored(queries) == [(7, [2, 0, 1]), (6, [1])]
    queries.store(documents, [2, 0, 1], [0, 0, 0], 20)
    assert stored(queries) == [(7, [2, 0, 1]), (6, [1])]


def test_the_winner_ranks_best_what_was_clicked():
    queries = StoredQueries(room=3, window=50)
    queries.store([X, Y, Z], [0, 1, 2], [1, 0, 0], 0)
    queries.store([X, Y, Y, Z], [0, 1, 2, 3], [0, 0, 1, 1], 1)
    up, down = np.array([3.0, 2, 1]), np.array([1.0, 2, 3])
    assert queries.quality(up) == pytest.approx(1 + (1 / 2 + 1 / 4))  # equal documents share the better rank
    assert queries.quality(down) == pytest.approx(1 / 3 + (1 / 2 + 1))
    members = [np.zeros(3), down, up, down]
    assert winner([], members, queries) == []
    assert winner([2], members, queries) == [2]
    assert winner([1, 2, 3], members, queries) == [1]
    assert winner([2, 3], members, queries) == [3]
    assert winner([1, 3], members, queries) == [1], "the first of equal ones"
