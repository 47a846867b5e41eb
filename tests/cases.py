"""Cases of a test as lines of text."""

from __future__ import annotations

from typing import Any

import pytest


def lines(table: str) -> list[Any]:
    """A case for each line: its cells stand between bars, and its id is the first of them."""
    rows = [line.split(" | ") for line in table.strip("\n").splitlines()]
    return [pytest.param(*cells, id=cells[0]) for cells in rows]
