"""Philox4x32-10, the counter-based generator, in plain integers; Philox4x64-10 checks the same rounds against numpy.

Salmon, Moraes, Dror, Shaw: Parallel Random Numbers: As Easy as 1, 2, 3 (SC 2011), Section 3.3; the constants and the
published answers are those of the authors' Random123 (`philox.h` and `kat_vectors`).
"""

from __future__ import annotations

from typing import NamedTuple


class Words(NamedTuple):
    """What distinguishes the two generators: bits in a word, multipliers of the rounds, increments of the key."""

    bits: int
    multipliers: tuple[int, int]
    weyl: tuple[int, int]


WORDS_32 = Words(32, (0xD2511F53, 0xCD9E8D57), (0x9E3779B9, 0xBB67AE85))
WORDS_64 = Words(64, (0xD2E7470EE14C6C93, 0xCA5A826395121157), (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B))

Block = tuple[int, int, int, int]
Key = tuple[int, int]

# kat_vectors, "philox4x32 10": (counter, key, answer)
PUBLISHED_32: list[tuple[Block, Key, Block]] = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    (
        (0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF),
        (0xFFFFFFFF, 0xFFFFFFFF),
        (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
    ),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


def philox4x32(counter: Block, key: Key, rounds: int = 10) -> Block:
    """Four random 32-bit words for a counter of four and a key of two 32-bit words, least significant first."""
    return _philox(counter, key, rounds, WORDS_32)


def philox4x64(counter: Block, key: Key, rounds: int = 10) -> Block:
    """The same with 64-bit words."""
    return _philox(counter, key, rounds, WORDS_64)


def _philox(counter: Block, key: Key, rounds: int, words: Words) -> Block:
    """A round multiplies two words and mixes the high halves with the other two and the key; then the key moves on."""
    low = (1 << words.bits) - 1
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(rounds):
        product_0, product_2 = words.multipliers[0] * c0, words.multipliers[1] * c2
        c0, c1, c2, c3 = (
            (product_2 >> words.bits) ^ c1 ^ k0,
            product_2 & low,
            (product_0 >> words.bits) ^ c3 ^ k1,
            product_0 & low,
        )
        k0, k1 = (k0 + words.weyl[0]) & low, (k1 + words.weyl[1]) & low
    return c0, c1, c2, c3
