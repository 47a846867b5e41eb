"""Philox4x32-10 (tensor/streams.py explains it), number by number."""

from __future__ import annotations

import numpy as np

from ol2r_cli.loops.compile import compiled

_WORD = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_FIRST, _SECOND = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_WEYL_0, _WEYL_1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)


@compiled
def uniform(seeds, stream, first, rounds, width):
    """Return [rounds, B, width] float64 numbers strictly between 0 and 1, of rounds first, first + 1, ..

    `width` is a multiple of 4: a counter gives four numbers.
    """
    numbers = np.empty((rounds, len(seeds), width))
    for t in range(rounds):
        for b in range(len(seeds)):
            seed = np.uint64(seeds[b])
            for block in range(width // 4):
                x, y, z, w = np.uint64(block), np.uint64(first + t), np.uint64(stream), np.uint64(0)
                k0, k1 = seed & _WORD, seed >> _HALF
                for _ in range(10):
                    p, q = x * _FIRST, z * _SECOND
                    x, y, z, w = (q >> _HALF) ^ y ^ k0, q & _WORD, (p >> _HALF) ^ w ^ k1, p & _WORD
                    k0, k1 = (k0 + _WEYL_0) & _WORD, (k1 + _WEYL_1) & _WORD
                numbers[t, b, 4 * block] = (np.float64(x) + 0.5) * 2.0**-32
                numbers[t, b, 4 * block + 1] = (np.float64(y) + 0.5) * 2.0**-32
                numbers[t, b, 4 * block + 2] = (np.float64(z) + 0.5) * 2.0**-32
                numbers[t, b, 4 * block + 3] = (np.float64(w) + 0.5) * 2.0**-32
    return numbers


@compiled
def uniform_at(seeds, stream, round, index):
    """Return the numbers of one round at the indices [B, n], without the others.

    `uniform` repeats the ten lines below, because a function of its own would keep its blocks from being vectorised.
    """
    numbers = np.empty(index.shape)
    for b in range(len(seeds)):
        seed = np.uint64(seeds[b])
        for i in range(index.shape[1]):
            x, y, z, w = np.uint64(index[b, i] // 4), np.uint64(round), np.uint64(stream), np.uint64(0)
            k0, k1 = seed & _WORD, seed >> _HALF
            for _ in range(10):
                p, q = x * _FIRST, z * _SECOND
                x, y, z, w = (q >> _HALF) ^ y ^ k0, q & _WORD, (p >> _HALF) ^ w ^ k1, p & _WORD
                k0, k1 = (k0 + _WEYL_0) & _WORD, (k1 + _WEYL_1) & _WORD
            place = index[b, i] % 4
            word = x if place == 0 else y if place == 1 else z if place == 2 else w
            numbers[b, i] = (np.float64(word) + 0.5) * 2.0**-32
    return numbers
