"""Philox4x32-10, the counter-based generator, in plain integers.

Salmon, Moraes, Dror, Shaw: Parallel Random Numbers: As Easy as 1, 2, 3 (SC 2011), Section 3.3; the constants and the
published answers are those of the authors' Random123 (`philox.h` and `kat_vectors`).
"""

from __future__ import annotations

MULTIPLIERS, INCREMENTS = (0xD2511F53, 0xCD9E8D57), (0x9E3779B9, 0xBB67AE85)
LOW = (1 << 32) - 1

Block = tuple[int, int, int, int]
Key = tuple[int, int]

# kat_vectors, "philox4x32 10": (counter, key, answer)
PUBLISHED: list[tuple[Block, Key, Block]] = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((LOW,) * 4, (LOW,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


def philox4x32(counter: Block, key: Key) -> Block:
    """Four random 32-bit words for a counter of four and a key of two 32-bit words, least significant first.

    Each of ten rounds multiplies two words and mixes the high halves with the other two and the key, which moves on.
    """
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        product_0, product_2 = MULTIPLIERS[0] * c0, MULTIPLIERS[1] * c2
        c0, c1, c2, c3 = (product_2 >> 32) ^ c1 ^ k0, product_2 & LOW, (product_0 >> 32) ^ c3 ^ k1, product_0 & LOW
        k0, k1 = (k0 + INCREMENTS[0]) & LOW, (k1 + INCREMENTS[1]) & LOW
    return c0, c1, c2, c3
