"""The check of what a set-up allocates: nothing is allocated beyond the limit."""

from __future__ import annotations

import pytest
import torch

from ol2r_cli.tensor import memory
from ol2r_cli.tensor.memory import MemoryLimit, available_memory

HUGE = 2**50
BYTES = torch.zeros(3, dtype=torch.uint8)


def test_what_does_not_fit_is_refused_before_it_is_allocated():
    for allocate in (
        lambda: torch.zeros(HUGE),
        lambda: torch.zeros((2, HUGE // 2), dtype=torch.bool),
        lambda: torch.ones(HUGE),
        lambda: torch.empty(HUGE),
        lambda: torch.full((HUGE,), 3),
        lambda: torch.arange(HUGE),
        lambda: torch.eye(2**25),
        lambda: torch.ones(3).new_zeros(HUGE),
        lambda: torch.ones(3).new_full((HUGE,), 1.0),
        lambda: torch.eye(4).repeat(HUGE, 1, 1),
    ):
        with pytest.raises(MemoryError, match=r"GiB of 1\.0"), MemoryLimit(2**30):
            allocate()


def test_allocations_add_up():
    limit = MemoryLimit(1000)
    for _ in range(6):
        with limit:
            torch.zeros(20, dtype=torch.float64)
    with limit, pytest.raises(MemoryError):
        torch.zeros(20, dtype=torch.float64)
    assert limit.allocated == 1120


def test_what_fits_is_what_it_would_be_without():
    with MemoryLimit(2**20) as limit:
        assert torch.equal(torch.zeros(3, dtype=torch.int8), torch.tensor([0, 0, 0]))
        assert torch.arange(3).repeat(2).tolist() == [0, 1, 2, 0, 1, 2]
        torch.zeros(4, out=torch.ones(4))
    assert limit.allocated == 3 + 24 + 48 + 16


def test_the_limit_of_a_container_counts(tmp_path, monkeypatch):
    (tmp_path / "limit").write_text("12345\n")
    (tmp_path / "none").write_text("max\n")
    cpu = torch.device("cpu")
    monkeypatch.setattr(memory, "_GROUP_LIMITS", (str(tmp_path / "none"), str(tmp_path / "missing")))
    assert available_memory(cpu) > 10**8
    monkeypatch.setattr(memory, "_GROUP_LIMITS", (str(tmp_path / "none"), str(tmp_path / "limit")))
    assert available_memory(cpu) == 12345


def test_the_size_of_what_is_made_is_known_before():
    for number, allocate in enumerate(
        (
            lambda: torch.zeros(2, 3),
            lambda: torch.zeros((2, 3), dtype=torch.bool),
            lambda: torch.zeros(size=(2, 3)),
            lambda: torch.zeros(()),
            lambda: torch.ones(0, 5, dtype=torch.float64),
            lambda: torch.empty([4]),
            lambda: torch.full((2, 2), -1),
            lambda: torch.full((2, 2), True),
            lambda: torch.full((2, 2), 0.5),
            lambda: torch.full((2, 2), -1, dtype=torch.int8),
            lambda: torch.eye(3),
            lambda: torch.eye(3, 4, dtype=torch.float64),
            lambda: torch.arange(7),
            lambda: BYTES.new_zeros(2, 3),
            lambda: BYTES.new_zeros((2, 3), dtype=torch.int64),
            lambda: BYTES.new_full((5,), 3),
            lambda: BYTES.repeat(2, 3),
            lambda: BYTES.repeat((2, 3)),
        )
    ):
        with MemoryLimit(2**20) as limit:
            made = allocate()
        assert limit.allocated == made.nbytes, number
