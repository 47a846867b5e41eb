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
        lambda: torch.ones(2**40, 2**40),  # more than 64 bits
        lambda: torch.full((HUGE,), 3),
        lambda: torch.arange(HUGE),
        lambda: torch.eye(2**25),
        lambda: torch.ones(3).new_zeros(HUGE),
        lambda: torch.eye(4).repeat(HUGE, 1, 1),
    ):
        with pytest.raises(MemoryError, match=r"GiB of 1\.0"), MemoryLimit(2**30):
            allocate()


def test_what_fits_is_made_and_counted():
    for number, allocate in enumerate(
        (
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
        )
    ):
        with MemoryLimit(2**20) as limit:
            made = allocate()
        assert limit.allocated == made.nbytes, number
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
    cpu = torch.device("cpu")
    monkeypatch.setattr(memory, "_GROUP_LIMITS", (str(tmp_path / "none"), str(tmp_path / "missing")))
    assert available_memory(cpu) > 10**8
    monkeypatch.setattr(memory, "_GROUP_LIMITS", (str(tmp_path / "none"), str(tmp_path / "limit")))
    assert available_memory(cpu) == 12345
