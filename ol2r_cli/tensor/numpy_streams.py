"""Random numbers on which ids and published values rest, made from what numpy promises to keep.

numpy promises that the bits of PCG64, Philox and SeedSequence are the same in every version. It does not promise what
`numpy.random.Generator` makes of them (NEP 19, "Random number generator policy"). So permutations are written out here,
and `other_numbers` tells whether this numpy draws other numbers than earlier ones: ids depend on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

DRAWS_OF = "2.1 to 2.4"  # versions of numpy
_LAST = {  # the last of 100 numbers that these draw by each method; a processor may round it otherwise
    "random": 0.8223738275430704,
    "standard_normal": -1.401520214917428,
    "standard_normal of float32": 0.9587796926498413,
    "gamma": 4.211588748629357,
    "integers": 832646,
    "permutation": 95,
    "binomial": 12,
}
_WORD = 0xFFFFFFFF  # the largest number of 32 bits


class Permutations:
    """Random permutations, one after the other: those of `numpy.random.default_rng(seed).permutation` in numpy 2.1.

    The algorithm is the shuffle of Fisher and Yates, from the last place to the second (Knuth, "The art of computer
    programming", volume 2, 3.4.2, algorithm P). A place is the first number that is small enough, in as many low bits
    as it needs.
    """

    def __init__(self, seed: int):
        self._words = _words(np.random.PCG64(seed))

    def permuted(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the values [n] in a random order, each order equally likely."""
        order, words = values.tolist(), self._words
        for last in range(len(order) - 1, 0, -1):
            bits = (1 << last.bit_length()) - 1
            place = next(words) & bits
            while place > last:
                place = next(words) & bits
            order[last], order[place] = order[place], order[last]
        return np.array(order, np.int64)


def _words(generator: np.random.BitGenerator) -> Iterator[int]:
    """Yield numbers of 32 bits: of each word the lower half, and then the upper one."""
    while True:
        for word in generator.random_raw(256).tolist():
            yield word & _WORD
            yield word >> 32


@cache
def other_numbers() -> list[float]:
    """Return nothing if this numpy draws what numpy 2.1 to 2.4 draw, otherwise some numbers that it draws.

    They are hashed with the settings of generated data and of fits, so that one id never stands for two results.
    """
    last = _last_numbers()
    return [] if np.allclose(last, list(_LAST.values()), rtol=1e-5) else [round(number, 3) for number in last]


def _last_numbers() -> list[float]:
    """Return the last of 100 numbers of each method."""
    methods: list[Callable[[np.random.Generator], Any]] = [
        lambda random: random.random(100),
        lambda random: random.standard_normal(100),
        lambda random: random.standard_normal(100, dtype=np.float32),
        lambda random: random.gamma(3, size=100),
        lambda random: random.integers(1_000_003, size=100),
        lambda random: random.permutation(100),
        lambda random: random.binomial(20, 0.7, 100),
    ]
    return [float(method(np.random.Generator(np.random.PCG64(0)))[-1]) for method in methods]
