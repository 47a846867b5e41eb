from __future__ import annotations

import pytest

from ol2r_cli.run import trace


@pytest.fixture
def small_parts(monkeypatch) -> None:
    """Tables have parts after few rounds, as after a million: one for each flush, which comes after six rows."""
    monkeypatch.setattr(trace, "PART_BYTES", 1)
    monkeypatch.setattr(trace, "FLUSH_ROWS", 6)
