"""Numbers of numpy on which ids and published values rest: as in earlier versions, or the ids say that they are not."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from ol2r_cli.tensor import numpy_streams
from ol2r_cli.tensor.numpy_streams import Permutations, other_numbers


def test_permutations_are_those_of_numpy_2_1():
    """Frozen values on purpose, which numpy 2.1 and 2.4 give; one permutation goes on where the last one ended."""
    first = Permutations(0)
    assert first.permuted(np.arange(10)).tolist() == [4, 6, 2, 7, 3, 5, 9, 0, 8, 1]
    assert first.permuted(np.arange(7)).tolist() == [3, 2, 0, 6, 4, 5, 1]
    assert first.permuted(np.array([3, 5, 9, -4])).tolist() == [-4, 9, 5, 3]
    many = Permutations(7).permuted(np.arange(3000))
    assert hashlib.sha256(many.tobytes()).hexdigest().startswith("1477b7a59e0eab9c")
    assert [Permutations(3).permuted(np.arange(size)).tolist() for size in (0, 1)] == [[], [0]]


@pytest.mark.parametrize("method", numpy_streams._LAST)
@pytest.mark.parametrize(("factor", "more", "is_told"), [(1 + 1e-7, 0, False), (1, 20, True)])
def test_what_numpy_draws_otherwise_is_told(method, factor, more, is_told, monkeypatch):
    """But not what only rounds otherwise."""
    monkeypatch.setitem(numpy_streams._LAST, method, factor * numpy_streams._LAST[method] + more)
    assert len(other_numbers.__wrapped__()) == is_told * len(numpy_streams._LAST)
