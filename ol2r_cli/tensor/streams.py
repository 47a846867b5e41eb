"""Counter-based random numbers: each is a function of (seed, stream name, round, index), so there is no state.

Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011): Philox4x32 with 10 rounds. The
key is the replica's seed; the counter is (index // 4, round, stream, 0). Therefore the same seed has the same queries
and the same users under every ranker, replicas are independent of each other, and CPU and GPU draw the same bits.
"""

from __future__ import annotations

from functools import cache, cached_property
from typing import Any
from zlib import crc32

import torch
from torch import Tensor

from ol2r_cli import loops
from ol2r_cli.tensor.shapes import Float, Int


@cache
def _stream_number(name: str) -> int:
    return crc32(name.encode())


class Streams:
    """All random numbers of a run with seeds [B], each 0 or more.

    A small draw costs as much as a large one, so numbers are drawn for several rounds at once: at most `ahead` rounds,
    and at most `CELLS` numbers.
    """

    CELLS = 1 << 17

    def __init__(self, seeds: Int[Tensor, "B"], ahead: int = 256):
        if bool((seeds < 0).any()):
            raise ValueError(f"seed must be 0 or more, got {int(seeds.min())}")
        self.seeds, self.device, self.replicas, self.ahead = seeds, seeds.device, len(seeds), ahead
        self._drawn: dict[str, tuple[int, Tensor]] = {}  # name -> first round, [rounds B width]

    @cached_property
    def seeds_of_draws(self) -> Any:
        """The seeds as loops take them."""
        return loops.launch.unchanging(self.seeds)

    def at(self, stream: str, round: int) -> Random:
        """Return the source of one stream's numbers in one round."""
        return Random(self, stream, round)

    def uniform(self, name: str, round: int, count: int) -> Float[Tensor, "B n"]:
        """Return float64 numbers strictly between 0 and 1: (n + 1/2) 2^-32 for a 32-bit word n."""
        first, drawn = self._drawn.get(name, (0, self.seeds.new_empty(0, 0, 0)))
        if not first <= round < first + len(drawn) or drawn.shape[2] < count:
            width = -(-count // 4) * 4
            rounds = min(self.ahead, max(1, self.CELLS // max(1, self.replicas * width)))
            first, drawn = round, self._draw(_stream_number(name), range(round, round + rounds), width)
            self._drawn[name] = first, drawn
        return drawn[round - first, :, :count]

    def uniform_at(self, name: str, round: int, index: Int[Tensor, "B n"]) -> Float[Tensor, "B n"]:
        """Return the numbers of `uniform` at these indices, without drawing the others."""
        numbers = torch.empty(index.shape, dtype=torch.float64, device=self.device)
        given = self.seeds, _stream_number(name), round, index.contiguous(), numbers
        loops.launch.launch(loops.single.draw_at, self.replicas, 0, *given)
        return numbers

    def first_numbers(self, name: str, round: int, rounds: int) -> Float[Tensor, "R B"]:
        """Return the first number of `uniform` in each of so many rounds, from number `round` on."""
        return self._draw(_stream_number(name), range(round, round + rounds), 4)[..., 0]

    def _draw(self, stream: int, rounds: range, width: int) -> Float[Tensor, "T B n"]:
        numbers = torch.empty(len(rounds), self.replicas, width, dtype=torch.float64, device=self.device)
        given = self.seeds, stream, rounds.start, numbers
        loops.launch.launch(loops.single.draw_rounds, self.replicas, 0, *given)
        return numbers


class Random:
    """The random numbers of one stream in one round, as a role receives them. `name` separates several draws."""

    __slots__ = ("_round", "_stream", "_streams")

    def __init__(self, streams: Streams, stream: str, round: int):
        self._streams, self._stream, self._round = streams, stream, round

    @property
    def round(self) -> int:
        """The number of the round, from 0."""
        return self._round

    def draw(self, name: str = "") -> Any:
        """Return what a loop draws these numbers from (loops/single.py)."""
        return loops.single.Draw(self._streams.seeds_of_draws, _stream_number(f"{self._stream}/{name}"), self._round)

    def uniform(self, count: int, name: str = "") -> Float[Tensor, "B n"]:
        """Return uniform numbers on (0, 1), float64. The i-th number does not depend on `count`."""
        return self._streams.uniform(f"{self._stream}/{name}", self._round, count)

    def exponential(self, count: int, name: str = "") -> Float[Tensor, "B n"]:
        """Return exponential numbers with rate 1."""
        return -self.uniform(count, name).log()

    def integer(self, below: int, name: str = "") -> Int[Tensor, "B"]:
        """Return one integer in 0 .. below - 1 per replica, with a bias of less than below / 2^32."""
        return (self.uniform(1, name)[:, 0] * below).long()

    def normal(self, count: int, name: str = "") -> Float[Tensor, "B n"]:
        """Return standard normal numbers, at most 6.3 in size: the normal quantile of one uniform number each."""
        return self._quantile(self.uniform(count, name))

    def normal_at(self, index: Int[Tensor, "B n"], name: str = "") -> Float[Tensor, "B n"]:
        """Return the numbers of `normal` at these indices, without drawing the others."""
        return self._quantile(self._streams.uniform_at(f"{self._stream}/{name}", self._round, index))

    def _quantile(self, chance: Float[Tensor, "B n"]) -> Float[Tensor, "B n"]:
        if chance.device.type != "cpu":
            return torch.special.ndtri(chance)
        return torch.from_numpy(loops.random_numbers.normal(chance.flatten().numpy())).view_as(chance)
