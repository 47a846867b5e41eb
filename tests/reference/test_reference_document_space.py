"""Document space projection by hand."""

from __future__ import annotations

import numpy as np
import pytest

from tests.reference.document_space import examined, newest, project

pytestmark = pytest.mark.slow  # the oracle itself; the tests of the package compare with it

LISTED = [7, 3, 9, 4, 1]
DIRECTION = np.array([3.0, 4.0, 12.0])


@pytest.mark.parametrize(
    ("clicks", "below", "expected"),
    [
        ([0, 0, 0, 0, 0], 2, []),
        ([1, 0, 0, 0, 0], 2, [7, 3, 9]),
        ([1, 0, 1, 0, 0], 2, LISTED),
        ([0, 0, 0, 0, 1], 2, LISTED),
        ([0, 1, 0, 0, 0], 0, [7, 3]),
        ([0, 1, 0, 0, 0], 9, LISTED),
    ],
)
def test_documents_down_to_some_places_below_the_last_click(clicks, below, expected):
    assert examined(LISTED, clicks, below) == expected


@pytest.mark.parametrize(
    ("documents", "expected"),
    [
        ([], [0, 0, 0]),
        ([[0, 0, 0]], [0, 0, 0]),
        ([[2, 0, 0]], [3, 0, 0]),
        ([[1, 0, 0], [5, 0, 0], [0, 0, 0]], [3, 0, 0]),  # of one dimension, however many documents
        ([[1, 1, 0]], [3.5, 3.5, 0]),
        ([[1, 1, 0], [1, -1, 0]], [3, 4, 0]),
        ([[1, 1, 0], [1, -1, 0], [1, 1, 1]], [3, 4, 12]),
    ],
)
def test_projection_by_hand(documents, expected):
    documents = [np.array(document, dtype=float) for document in documents]
    assert project(DIRECTION, documents, normalise=False) == pytest.approx(expected)
    length = np.linalg.norm(expected)
    assert project(DIRECTION, documents, normalise=True) == pytest.approx(np.array(expected) / (length or 1))


def test_projecting_twice_is_projecting_once_and_keeps_the_scores_of_the_documents():
    random = np.random.default_rng(0)
    for _ in range(100):
        documents, direction = random.normal(size=(4, 9)), random.normal(size=9)
        once = project(direction, documents, normalise=False)
        assert project(once, documents, normalise=False) == pytest.approx(once)
        assert documents @ once == pytest.approx(documents @ direction)
        unit = project(direction, documents, normalise=True)
        ratio = (documents @ unit) / (documents @ direction)
        assert ratio == pytest.approx(ratio[0] * np.ones(4))
        assert ratio[0] > 0


def test_first_in_first_out():
    assert newest([], [1, 2], 3) == [1, 2]
    assert newest([1, 2], [3, 4], 3) == [2, 3, 4]
    assert newest([1, 2, 3], [4, 5, 6, 7], 3) == [5, 6, 7]
    assert newest([1, 2, 3], [], 3) == [1, 2, 3]
    assert newest([], [1, 2], 0) == []
