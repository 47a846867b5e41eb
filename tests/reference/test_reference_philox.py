"""Philox against the published answers and, with wider words, against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.reference.philox import PUBLISHED_32, philox4x32, philox4x64

pytestmark = pytest.mark.slow  # tests of the oracle itself


@pytest.mark.parametrize(("counter", "key", "answer"), PUBLISHED_32)
def test_published_answers(counter, key, answer):
    assert philox4x32(counter, key) == answer


@pytest.mark.parametrize("seed", range(5))
def test_rounds_are_those_of_numpy(seed):
    rng = np.random.default_rng(seed)
    counter, key = rng.integers(0, 2**63, size=4), rng.integers(0, 2**63, size=2)
    counter[0] = [0, 2**63 - 1][seed % 2] if seed < 2 else counter[0]
    theirs = np.random.Philox(counter=counter.astype(np.uint64), key=key.astype(np.uint64)).random_raw(8).tolist()
    first, *others = counter.tolist()
    # numpy counts up before it draws
    ours = [word for step in (1, 2) for word in philox4x64((first + step, *others), tuple(key.tolist()))]
    assert ours == theirs


def test_words_stay_in_range_and_rounds_matter():
    words = [word for counter in range(50) for word in philox4x32((counter, 0, 0, 0), (7, 8))]
    assert min(words) >= 0
    assert max(words) < 2**32
    assert len(set(words)) == 200
    assert philox4x32((1, 2, 3, 4), (5, 6), rounds=0) == (1, 2, 3, 4)
    assert philox4x32((1, 2, 3, 4), (5, 6), rounds=7) != philox4x32((1, 2, 3, 4), (5, 6))
