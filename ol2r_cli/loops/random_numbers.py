"""Philox4x32-10 (tensor/streams.py explains it), number by number."""

from __future__ import annotations

import math
from zlib import crc32

import numpy as np

from ol2r_cli.loops.compile import compiled, part_of_caller
from ol2r_cli.loops.lanes import barrier, lane, lanes
from ol2r_cli.loops.workspace import mark, release, take, take_integers

_WORD = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_FIRST, _SECOND = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_WEYL_0, _WEYL_1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)


# The numbers of the streams of a round (tensor/streams.py).
QUERY, CLICK, PAIRS = (crc32(name) for name in (b"query/", b"click/", b"pairs/"))
EXPLORE, DOCUMENT, COIN = (crc32(name) for name in (b"explore/", b"explore/document", b"explore/coin"))
TURNS, AUTHOR = (crc32(name) for name in (b"explore/turns", b"explore/author"))
JUDGE, LEARN, POLICY = (crc32(name) for name in (b"judge/", b"learn/ranker/", b"learn/ranker/policy"))
FACTORED, NEW_PAIRS, ALL_PAIRS = (crc32(b"learn/ranker/" + name) for name in (b"factor", b"pairs", b"every pair"))

NORMAL_AT_ONCE = 256  # numbers that `normal_numbers` makes normal at once


@compiled
def in_fours(count):
    """Return the next multiple of 4: so many numbers are drawn at once."""
    return (count + 3) // 4 * 4


@compiled
def uniform(seed, stream, t, numbers):
    """Fill `numbers` [n] with float64 numbers strictly between 0 and 1, those of round t; n is a multiple of 4, because
    a counter gives four numbers."""
    for block in range(lane(), len(numbers) // 4, lanes()):
        x, y, z, w = np.uint64(block), np.uint64(t), np.uint64(stream), np.uint64(0)
        k0, k1 = np.uint64(seed) & _WORD, np.uint64(seed) >> _HALF
        for _ in range(10):
            p, q = x * _FIRST, z * _SECOND
            x, y, z, w = (q >> _HALF) ^ y ^ k0, q & _WORD, (p >> _HALF) ^ w ^ k1, p & _WORD
            k0, k1 = (k0 + _WEYL_0) & _WORD, (k1 + _WEYL_1) & _WORD
        numbers[4 * block] = (np.float64(x) + 0.5) * 2.0**-32
        numbers[4 * block + 1] = (np.float64(y) + 0.5) * 2.0**-32
        numbers[4 * block + 2] = (np.float64(z) + 0.5) * 2.0**-32
        numbers[4 * block + 3] = (np.float64(w) + 0.5) * 2.0**-32
    barrier()


@part_of_caller
def drawn(space, seed, stream, t, count):
    """Return the first `count` numbers of `uniform`, and up to three more, which nothing else uses as in `take`."""
    numbers = take(space, in_fours(count))
    uniform(seed, stream, t, numbers)
    return numbers


@part_of_caller
def drawn_normal(space, seed, stream, t, rows, columns):
    """Return standard normal numbers [rows, columns], which nothing else uses as in `take`."""
    numbers = take(space, in_fours(rows * columns))
    normal_numbers(seed, stream, t, numbers, space)
    return numbers[: rows * columns].reshape((rows, columns))


@compiled
def number_at(seed, stream, t, index):
    """Return the number of `uniform` at an index.

    `uniform` repeats the ten lines below, because a function of its own would keep its blocks from being vectorised.
    """
    x, y, z, w = np.uint64(index // 4), np.uint64(t), np.uint64(stream), np.uint64(0)
    k0, k1 = np.uint64(seed) & _WORD, np.uint64(seed) >> _HALF
    for _ in range(10):
        p, q = x * _FIRST, z * _SECOND
        x, y, z, w = (q >> _HALF) ^ y ^ k0, q & _WORD, (p >> _HALF) ^ w ^ k1, p & _WORD
        k0, k1 = (k0 + _WEYL_0) & _WORD, (k1 + _WEYL_1) & _WORD
    place = index % 4
    word = x if place == 0 else y if place == 1 else z if place == 2 else w
    return (np.float64(word) + 0.5) * 2.0**-32


@compiled
def normal_numbers(seed, stream, t, numbers, space):
    """Fill `numbers` [n] with standard normal numbers, the quantiles of those of `uniform`; n is a multiple of 4."""
    before = mark(space)
    most = min(len(numbers), NORMAL_AT_ONCE)
    chance, outer = take(space, most), take_integers(space, most)
    uniform(seed, stream, t, numbers)
    for first in range(0, len(numbers), most):
        part = numbers[first : first + most]
        for i in range(lane(), len(part), lanes()):
            chance[i] = part[i]
        normal_quantiles(chance[: len(part)], part, outer)
    barrier()
    release(space, before)


@compiled
def normal(chance):
    """Return the standard normal quantiles of numbers [n] of `uniform`."""
    quantile, outer = np.empty(len(chance)), np.empty(len(chance), np.int64)
    normal_quantiles(chance, quantile, outer)
    return quantile


@compiled
def normal_quantiles(chance, quantile, outer):
    """Write the standard normal quantiles of a lane's share of numbers [n] of `uniform`; `outer` [n] is room.

    Algorithm AS 241 (Wichura, Applied Statistics 1988), whose relative error is 1e-16, without its last case: for a
    chance below e^-25, which `uniform` does not give. The numbers in the middle, most of them, are vectorised; the
    others are found apart, because a branch for each would cost more than its logarithm.
    """
    count = 0
    for i in range(lane(), len(chance), lanes()):
        q = chance[i] - 0.5
        r = 0.180625 - q * q
        top = 2509.0809287301226727 * r + 33430.575583588128105
        top = (((top * r + 67265.770927008700853) * r + 45921.953931549871457) * r + 13731.693765509461125) * r
        top = ((top + 1971.5909503065514427) * r + 133.14166789178437745) * r + 3.3871328727963666080
        bottom = 5226.4952788528545610 * r + 28729.085735721942674
        bottom = (((bottom * r + 39307.895800092710610) * r + 21213.794301586595867) * r + 5394.1960214247511077) * r
        bottom = ((bottom + 687.18700749205790830) * r + 42.313330701600911252) * r + 1.0
        quantile[i] = q * top / bottom
    for i in range(lane(), len(chance), lanes()):
        outer[lane() + lanes() * count] = i
        count += abs(chance[i] - 0.5) > 0.425
    for k in range(count):
        i = outer[lane() + lanes() * k]
        r = math.sqrt(-math.log(min(chance[i], 1 - chance[i]))) - 1.6
        top = 7.74545014278341407640e-4 * r + 2.27238449892691845833e-2
        top = ((top * r + 0.241780725177450611770) * r + 1.27045825245236838258) * r + 3.64784832476320460504
        top = ((top * r + 5.76949722146069140550) * r + 4.63033784615654529590) * r + 1.42343711074968357734
        bottom = 1.05075007164441684324e-9 * r + 5.47593808499534494600e-4
        bottom = ((bottom * r + 1.51986665636164571966e-2) * r + 0.148103976427480074590) * r
        bottom = ((bottom + 0.689767334985100004550) * r + 1.67638483018380384940) * r
        bottom = (bottom + 2.05319162663775882187) * r + 1.0
        quantile[i] = math.copysign(top / bottom, chance[i] - 0.5)
