"""The random streams: a known construction, and what makes replicas and rounds independent of each other."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ol2r_cli.tensor.streams import Streams, philox
from tests.reference.philox import PUBLISHED, philox4x32


def words(*numbers: int) -> list[torch.Tensor]:
    return [torch.tensor(number) for number in numbers]


def test_philox_gives_the_known_answers_of_random123():
    for counter, key, answer in PUBLISHED:
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


def test_normals_are_normal_also_in_the_tails():
    from scipy.stats import kstest, norm

    drawn = Streams(torch.arange(2000)).at("noise", 3).normal(1000)
    count = drawn.numel()
    assert abs(float(drawn.mean())) < 4 * count**-0.5
    assert abs(float(drawn.square().mean()) - 1) < 4 * (2 / count) ** 0.5, "E[z^4] = 3, so that z^2 has variance 2"
    for bound in 1.0, 2.0, 3.0, 4.0:
        for side in drawn, -drawn:
            share = norm.sf(bound)
            assert abs(float((side > bound).double().mean()) - share) < 4 * (share * (1 - share) / count) ** 0.5
    assert kstest(drawn[:, :50].flatten().numpy(), "norm").pvalue > 0.01


def test_a_normal_is_the_quantile_of_its_uniform_number():
    from scipy.stats import norm

    streams = Streams(torch.tensor([3, 4]))
    drawn, uniform = (getattr(streams.at("noise", 9), name)(50, "factor") for name in ("normal", "uniform"))
    torch.testing.assert_close(drawn, torch.from_numpy(norm.ppf(uniform.numpy())), rtol=0, atol=1e-12)


def test_the_i_th_normal_does_not_depend_on_the_number_of_draws():
    long = Streams(torch.tensor([3, 4, 9])).at("noise", 70).normal(1000, "a")
    for count in (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100, 999):
        assert torch.equal(Streams(torch.tensor([3, 4, 9])).at("noise", 70).normal(count, "a"), long[:, :count])
        assert torch.equal(Streams(torch.tensor([4]), ahead=1).at("noise", 70).normal(count, "a")[0], long[1, :count])
    for stream, round, name in (("noise", 71, "a"), ("noise", 70, "b"), ("nois", 70, "a")):
        assert not torch.equal(Streams(torch.tensor([3, 4, 9])).at(stream, round).normal(1000, name), long)


draws = st.lists(st.tuples(st.integers(0, 600), st.integers(1, 60), st.sampled_from("ab")), min_size=1, max_size=25)


@settings(max_examples=30)
@given(draws, st.integers(1, 300), st.sampled_from([64, 1 << 12, 1 << 17]))
def test_earlier_draws_change_nothing(earlier, ahead, cells):
    """Widths grow and shrink, rounds are skipped and revisited, and different numbers of rounds are drawn ahead."""
    streams = Streams(torch.tensor([3, 1 << 40]), ahead)
    streams.CELLS = cells
    for round, count, name in earlier:
        found = streams.at("pairs", round).uniform(count, name)
        assert torch.equal(found, Streams(torch.tensor([3, 1 << 40]), 1).at("pairs", round).uniform(count, name))


indices = st.lists(st.integers(0, 5000), min_size=1, max_size=40)


@settings(max_examples=25)
@given(indices, st.integers(0, 600))
def test_numbers_at_indices_are_those_of_the_full_draw(places, round):
    """Indices are in any order, may repeat, and differ between replicas."""
    random = Streams(torch.tensor([3, 4 + (1 << 40)])).at("noise", round)
    index = torch.tensor([places, places[::-1]])
    uniform, normal = random.uniform(5001, "a"), random.normal(5001, "a")
    found = random._streams.uniform_at("noise/a", round, index)
    assert torch.equal(found, uniform.gather(1, index))
    assert torch.equal(random.normal_at(index, "a"), normal.gather(1, index))


@pytest.mark.parametrize(("replicas", "count"), [(1, 1 << 12), (3, 1 << 16), (3, 1 << 17), (1, (1 << 19) + 1)])
def test_wide_draws_use_no_more_memory_than_they_need(replicas, count, monkeypatch):
    """Rounds are drawn ahead only within 2^20 numbers, and the numbers equal those of separate draws."""
    sizes, draw = [], Streams._draw

    def counted(streams, stream, rounds, width):
        sizes.append(len(rounds) * replicas * width)
        return draw(streams, stream, rounds, width)

    seeds = torch.tensor([3, 4, 9][:replicas])
    streams = Streams(seeds)
    monkeypatch.setattr(Streams, "_draw", counted)
    found = [streams.at("network", round).uniform(count) for round in (0, 1)]
    assert max(sizes) <= max(1 << 20, replicas * (count + 3))
    assert (len(sizes) == 1) == (2 * replicas * count < 1 << 20), "two rounds at once where they fit"
    for round, numbers in enumerate(found):
        assert torch.equal(numbers, Streams(seeds, ahead=1).at("network", round).uniform(count))


def test_a_negative_seed_is_refused():
    with pytest.raises(ValueError, match="seed must be 0 or more, got -1"):
        Streams(torch.tensor([-1]))
