"""Certain by agreement: by hand, against the probabilities of the paper, and what any ensemble keeps."""

from __future__ import annotations

import numpy as np
import pytest

from tests.reference.ensemble import certain
from tests.reference.objective import sigmoid

pytestmark = pytest.mark.slow  # tests of the oracle itself


def test_by_hand():
    # 0 is on top for both; they disagree about 1 and 2, and the second has 2 and 3 level
    assert certain([[3.0, 2.0, 1.0, 0.0], [9.0, 1.0, 2.0, 2.0]]) == {(0, 1), (0, 2), (0, 3)}
    assert certain([[3.0, 2.0, 1.0, 0.0], [9.0, 3.0, 2.0, 1.0]]) == {(i, j) for i in range(4) for j in range(i + 1, 4)}
    assert certain([[1.0, 0.0], [0.0, 1.0]]) == set()


def test_a_tie_is_not_certain():
    assert certain([[1.0, 1.0, 0.0]]) == {(0, 2), (1, 2)}
    assert certain([[0.0] * 3] * 5) == set()


def test_it_is_what_line_9_says():
    for member_count in (1, 2, 5):
        scores = np.random.default_rng(member_count).normal(size=(member_count, 6))
        literal = set()
        for i in range(6):
            for j in range(i):
                wins = [sigmoid(f[i] - f[j]) for f in scores]
                if min(wins) > 1 / 2:
                    literal.add((i, j))
                elif max(wins) < 1 / 2:
                    literal.add((j, i))
        assert certain(scores.tolist()) == literal


def test_one_more_member_can_only_take_away_and_the_rest_stays_transitive():
    rng = np.random.default_rng(7)
    for _ in range(20):
        scores = rng.normal(size=(4, 6)).tolist()
        for members in range(1, 4):
            assert certain(scores[: members + 1]) <= certain(scores[:members])
        pairs = certain(scores[:2])
        assert {(i, k) for i, j in pairs for other, k in pairs if other == j} <= pairs
        assert not {(j, i) for i, j in pairs} & pairs
