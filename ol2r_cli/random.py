"""Random numbers that are a function of (seed, stream name, round, index): nothing to save, nothing to disturb.

Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011): Philox4x32 with 10 rounds. The
key is the replica's seed; the counter is (index // 4, round, stream, 0). The same seed therefore meets the same queries
and the same users under every ranker, a replica does not notice its neighbours, and a CPU and a GPU draw equal bits.
"""

from __future__ import annotations

from functools import cache
from zlib import crc32

import torch
from torch import Tensor

from ol2r_cli.shapes import Float, Int

_WORD = 0xFFFFFFFF
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)


def philox(counter: list[Tensor], key: list[Tensor]) -> list[Tensor]:
    """Philox4x32-10: four 32-bit words per counter, all int64 tensors that broadcast against each other.

    A product of two words wraps around in int64, which leaves its 64 bits intact: shift and mask give its halves.
    """
    (a, b, c, d), (k0, k1) = counter, key
    for _ in range(10):
        first, second = a * _MULTIPLIERS[0], c * _MULTIPLIERS[1]
        a, b, c, d = (
            (second >> 32 & _WORD) ^ b ^ k0,
            second & _WORD,
            (first >> 32 & _WORD) ^ d ^ k1,
            first & _WORD,
        )
        k0, k1 = k0 + _WEYL[0] & _WORD, k1 + _WEYL[1] & _WORD
    return [a, b, c, d]


@cache
def _stream_number(name: str) -> int:
    return crc32(name.encode())


class Streams:
    """All random numbers of a run with seeds [B]. Draws rounds ahead, because small draws cost as much as large ones.

    At most `ahead` rounds at once, and so many that a draw stays below `CELLS` numbers, or at least 16 if these stay
    below `MOST`.
    """

    CELLS = 1 << 17
    MOST = 1 << 20

    def __init__(self, seeds: Int[Tensor, "B"], ahead: int = 256):
        if bool((seeds < 0).any()):
            raise ValueError(f"seed must be 0 or more, got {int(seeds.min())}")
        self.key = [(seeds & _WORD)[:, None], (seeds >> 32 & _WORD)[:, None]]
        self.device, self.replicas, self.ahead = seeds.device, len(seeds), ahead
        self._drawn: dict[str, tuple[int, int, Tensor]] = {}  # name -> first round, first beyond, [rounds B width]

    def at(self, stream: str, round: int) -> Random:
        """The numbers of one stream in one round."""
        return Random(self, stream, round)

    def uniform(self, name: str, round: int, count: int) -> Float[Tensor, "B n"]:
        """`count` float64 numbers per replica, strictly between 0 and 1 (multiples of 2^-32, less half of one)."""
        first, end, drawn = self._drawn.get(name, (0, 0, self.key[0]))
        if not first <= round < end or drawn.shape[2] < count:
            room = 3 * drawn.shape[-1] // 4  # lists differ in length: the next may be as long as the last ones
            width = -(-max(count, room if end else 0) // 4) * 4
            numbers = self.replicas * width + 1
            first, end = round, round + min(self.ahead, max(self.CELLS // numbers, min(16, self.MOST // numbers), 1))
            drawn = self._draw(_stream_number(name), range(first, end), width)
            self._drawn[name] = first, end, drawn
        return drawn[round - first, :, :count]

    def uniform_at(self, name: str, round: int, index: Int[Tensor, "B n"]) -> Float[Tensor, "B n"]:
        """The numbers that `uniform` has at these places, without drawing the others."""
        zero = torch.zeros((), dtype=torch.int64, device=self.device)
        words = torch.stack(philox([index // 4, zero + round, zero + _stream_number(name), zero], self.key), dim=-1)
        return (words.gather(-1, (index % 4)[..., None]).squeeze(-1).double() + 0.5) * 2.0**-32

    def _draw(self, stream: int, rounds: range, width: int) -> Float[Tensor, "T B n"]:
        blocks = torch.arange(width // 4, device=self.device)
        round = torch.arange(rounds.start, rounds.stop, device=self.device)[:, None, None]
        zero = torch.zeros((), dtype=torch.int64, device=self.device)
        words = torch.stack(philox([blocks, round, zero + stream, zero], self.key), dim=-1)
        return (words.flatten(-2).double() + 0.5) * 2.0**-32


class Random:
    """What a role is handed: the numbers of its own stream in this round; `name` keeps several draws apart."""

    __slots__ = ("_round", "_stream", "_streams")

    def __init__(self, streams: Streams, stream: str, round: int):
        self._streams, self._stream, self._round = streams, stream, round

    @property
    def round(self) -> int:
        """Which round it is, from 0."""
        return self._round

    def uniform(self, count: int, name: str = "") -> Float[Tensor, "B n"]:
        """Uniform on (0, 1), float64; the i-th number is the same however many are asked for."""
        return self._streams.uniform(f"{self._stream}/{name}", self._round, count)

    def exponential(self, count: int, name: str = "") -> Float[Tensor, "B n"]:
        """Exponential with rate 1."""
        return -self.uniform(count, name).log()

    def integer(self, below: int, name: str = "") -> Int[Tensor, "B"]:
        """One integer in 0 .. below - 1 (bias below `below` / 2^32)."""
        return (self.uniform(1, name)[:, 0] * below).long()

    def normal(self, count: int, name: str = "") -> Float[Tensor, "B n"]:
        """Standard normal, within 6.3: the inverse of its distribution function, one uniform number each."""
        return torch.special.ndtri(self.uniform(count, name))

    def normal_at(self, index: Int[Tensor, "B n"], name: str = "") -> Float[Tensor, "B n"]:
        """Those of the normal numbers that have this index."""
        return torch.special.ndtri(self._streams.uniform_at(f"{self._stream}/{name}", self._round, index))
