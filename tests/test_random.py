"""The random streams: a known construction, and what makes replicas and rounds independent of each other."""

from __future__ import annotations

import pytest
import torch

from ol2r_cli.random import Streams, philox
from tests.reference.philox import philox4x32


def words(*numbers: int) -> list[torch.Tensor]:
    return [torch.tensor(number) for number in numbers]


@pytest.mark.parametrize(
    ("counter", "key", "answer"),
    [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_philox_gives_the_known_answers_of_random123(counter, key, answer):
    assert tuple(int(word) for word in philox(words(*counter), words(*key))) == answer


def test_a_number_is_the_philox_word_of_its_seed_round_stream_and_index():
    from zlib import crc32

    seed, round, index = 5 + (7 << 32), 300, 6
    drawn = Streams(torch.tensor([1, seed])).at("click", round).uniform(9, "x")[1, index]
    block = philox4x32((index // 4, round, crc32(b"click/x"), 0), (5, 7))
    assert float(drawn) == (block[index % 4] + 0.5) / 2**32


def test_numbers_depend_on_nothing_but_seed_stream_round_and_index():
    together = Streams(torch.tensor([3, 4, 9]))
    together.at("other", 0).uniform(50)
    long = together.at("pairs", 700).uniform(33, "a")
    alone = Streams(torch.tensor([4]), ahead=1).at("pairs", 700).uniform(5, "a")
    assert torch.equal(long[1, :5], alone[0])
    assert not torch.equal(long[0], long[1])
    for different in (("pairs", 701, "a"), ("pairs", 700, "b"), ("pair", 700, "a")):
        stream, round, name = different
        assert not torch.equal(together.at(stream, round).uniform(33, name), long)


def test_uniforms_are_uniform_and_stay_inside_the_interval():
    from scipy.stats import kstest

    drawn = torch.cat([Streams(torch.tensor([0])).at("u", t).uniform(64)[0] for t in range(200)])
    assert 0 < drawn.min() < drawn.max() < 1
    assert kstest(drawn.numpy(), "uniform").pvalue > 0.01


def test_integers_cover_their_range_evenly():
    from scipy.stats import chisquare

    streams = Streams(torch.arange(500))
    drawn = torch.cat([streams.at("query", t).integer(7) for t in range(20)])
    assert chisquare(torch.bincount(drawn, minlength=7).numpy()).pvalue > 0.01


def test_exponentials_have_rate_one():
    from scipy.stats import kstest

    drawn = Streams(torch.arange(100)).at("clock", 3).exponential(100).flatten()
    assert kstest(drawn.numpy(), "expon").pvalue > 0.01


def test_a_negative_seed_is_refused():
    with pytest.raises(ValueError, match="seed must be 0 or more, got -1"):
        Streams(torch.tensor([-1]))
