"""Short runs show the same lists, clicks and numbers as ever. A change on purpose: `make golden`, and read the diff."""

from __future__ import annotations

import pytest

from tests.golden.traces import CASES, FOLDER, trace


def values(text: str) -> tuple[list[list[str]], list[float]]:
    """The words of every line, and apart from them the numbers with a decimal point."""
    words = [line.split() for line in text.splitlines() if not line.startswith("#")]
    numbers = [float(word) for line in words for word in line if "." in word]
    return [[word for word in line if "." not in word] for line in words], numbers


@pytest.mark.parametrize("name", CASES)
def test_nothing_has_changed(name):
    expected, found = (FOLDER / f"{name}.txt").read_text(), trace(name)
    (lists, numbers), (found_lists, found_numbers) = values(expected), values(found)
    assert found_lists == lists
    assert found_numbers == pytest.approx(numbers, abs=1.5e-6, rel=0)  # 1e-6, and the sixth decimal is rounded
    assert found.splitlines()[:3] == expected.splitlines()[:3]


def test_every_trace_has_a_case():
    assert {file.stem for file in FOLDER.glob("*.txt")} == set(CASES)
