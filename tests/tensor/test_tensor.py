"""Random streams, a known construction that makes replicas and rounds independent; gathers; the limit of memory."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import TypeCheckError
from scipy.stats import chisquare, kstest, norm

from ol2r_cli.loops import random_numbers
from ol2r_cli.tensor import memory
from ol2r_cli.tensor.gather import gather, unique_rows
from ol2r_cli.tensor.memory import MemoryLimit, available_memory
from ol2r_cli.tensor.streams import Streams


def test_numbers_have_their_distributions():
    streams = Streams(torch.arange(500))
    uniform, exponential, normal = (
        getattr(streams.at("u", 3), name)(100).flatten().numpy() for name in ("uniform", "exponential", "normal")
    )
    assert 0 < uniform.min() < uniform.max() < 1
    np.testing.assert_allclose(normal, norm.ppf(uniform), rtol=0, atol=1e-12)
    tails = np.concatenate([2.0 ** -np.arange(1, 34), 1 - 2.0 ** -np.arange(1, 34)])
    np.testing.assert_allclose(random_numbers.normal(tails), norm.ppf(tails), rtol=1e-14, atol=1e-14)
    for drawn, distribution in (uniform, "uniform"), (exponential, "expon"), (normal, "norm"):
        assert kstest(drawn, distribution).pvalue > 0.01, distribution
    integers = torch.cat([streams.at("query", t).integer(7) for t in range(20)])
    assert chisquare(torch.bincount(integers, minlength=7).numpy()).pvalue > 0.01


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
    streams = Streams(torch.tensor([3, 4 + (1 << 40)]))
    random = streams.at("noise", round)
    index = torch.tensor([places, places[::-1]])
    uniform, normal = random.uniform(5001, "a"), random.normal(5001, "a")
    found = streams.uniform_at("noise/a", round, index)
    assert torch.equal(found, uniform.gather(1, index))
    assert torch.equal(random.normal_at(index, "a"), normal.gather(1, index))


def test_wide_draws_use_no_more_memory_than_they_need(monkeypatch):
    """Rounds are drawn ahead only within 2^17 numbers, and the numbers equal those of separate draws."""
    sizes, draw = [], Streams._draw

    def counted(streams, stream, rounds, width):
        sizes.append(len(rounds) * streams.replicas * width)
        return draw(streams, stream, rounds, width)

    for replicas, count in (1, 1 << 12), (3, 1 << 14), (1, (1 << 16) + 1):
        seeds = torch.tensor([3, 4, 9][:replicas])
        alone = [Streams(seeds, ahead=1).at("network", round).uniform(count) for round in (0, 1)]
        with monkeypatch.context() as patch:
            patch.setattr(Streams, "_draw", counted)
            streams = Streams(seeds)
            assert all(torch.equal(streams.at("network", t).uniform(count), alone[t]) for t in (0, 1))
        assert max(sizes) <= max(1 << 17, replicas * (count + 3)), count
        assert (len(sizes) == 1) == (2 * replicas * count < 1 << 17), "two rounds at once where they fit"
        sizes.clear()


def test_a_negative_seed_is_refused():
    with pytest.raises(ValueError, match="seed must be 0 or more, got -1"):
        Streams(torch.tensor([-1]))


def test_rows_are_those_of_plain_indexing():
    generator = torch.Generator().manual_seed(0)
    table = torch.rand(3, 5, 2, generator=generator)
    index, replica = torch.randint(4, (3, 4), generator=generator), torch.arange(3)[:, None]
    assert torch.equal(gather(table, index), table[replica, index])
    assert torch.equal(gather(table[:, 1:4], index % 3), table[:, 1:4][replica, index % 3])  # not contiguous


HUGE = 2**50
BYTES = torch.zeros(3, dtype=torch.uint8)


@pytest.mark.parametrize(
    "allocate",
    [
        lambda: torch.zeros(HUGE),
        lambda: torch.zeros((2, HUGE // 2), dtype=torch.bool),
        lambda: torch.ones(2**40, 2**40),  # more than 64 bits
        lambda: torch.full((HUGE,), 3),
        lambda: torch.arange(HUGE),
        lambda: torch.eye(2**25),
        lambda: torch.ones(3).new_zeros(HUGE),
        lambda: torch.eye(4).repeat(HUGE, 1, 1),
    ],
)
def test_what_does_not_fit_is_refused_before_it_is_allocated(allocate):
    with pytest.raises(MemoryError, match=r"GiB of 1\.0"), MemoryLimit(2**30):
        allocate()


def test_the_limit_imports_no_compiler():
    """Torch's takes a second, at the start of every run."""
    run = "from ol2r_cli.tensor.memory import MemoryLimit; import sys, torch\nwith MemoryLimit(2**20):\n"
    run += (
        "    torch.eye(4, dtype=torch.float64).repeat(2, 1, 1).new_full((2,), 3), torch.arange(7), torch.zeros(2, 3)\n"
    )
    run += "assert not {'sympy', 'torch._dynamo'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", run], check=True)


@pytest.mark.parametrize(
    "allocate",
    [
        lambda: torch.zeros(2, 3),
        lambda: torch.zeros(size=(2, 3), dtype=torch.bool),
        lambda: torch.ones(0, 5, dtype=torch.float64),
        lambda: torch.empty([4]),
        lambda: torch.full((2, 2), True),
        lambda: torch.eye(3, 4, dtype=torch.float64),
        lambda: torch.arange(7),
        lambda: BYTES.new_zeros((2, 3), dtype=torch.int64),
        lambda: BYTES.new_full((5,), 3),
        lambda: BYTES.repeat((2, 3)),
    ],
)
def test_what_fits_is_made_and_counted(allocate):
    with MemoryLimit(2**20) as limit:
        made = allocate()
    assert limit.allocated == made.nbytes


def test_what_is_made_at_several_times_is_added_up():
    limit = MemoryLimit(1000)
    for _ in range(6):
        with limit:
            torch.zeros(20, dtype=torch.float64)
            torch.zeros(4, out=torch.empty_like(BYTES[:0], dtype=torch.float32))
    with limit, pytest.raises(MemoryError):
        torch.zeros(20, dtype=torch.float64)


def test_the_limit_of_a_container_counts(tmp_path, monkeypatch):
    (tmp_path / "limit").write_text("12345\n")
    (tmp_path / "none").write_text("max\n")
    assert available_memory(torch.device("cpu")) > 10**8
    monkeypatch.setattr(memory, "_GROUP_LIMITS", [str(tmp_path / name) for name in ("none", "missing", "limit")])
    assert available_memory(torch.device("cpu")) == 12345


def test_shapes_are_checked_while_testing():
    with pytest.raises(TypeCheckError, match="index"):
        gather(torch.zeros(2, 3), torch.zeros(2, 2, 2, dtype=torch.int64))


def test_different_numbers_of_rows_are_those_of_torch_row_by_row():
    values = torch.tensor([[7, 3, 7, 0, 3], [5, 5, 5, 5, 5], [4, 3, 2, 1, 0]])
    different, places = unique_rows(values)
    for row, numbers, place in zip(values, different, places, strict=True):
        expected, expected_place = row.unique(return_inverse=True)
        assert numbers.tolist() == expected.tolist() + [0] * (5 - len(expected))
        assert place.tolist() == expected_place.tolist()
    different, places = unique_rows(values[:, :0])
    assert different.shape == places.shape == (3, 0)
