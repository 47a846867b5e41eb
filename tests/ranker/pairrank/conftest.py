from __future__ import annotations

import pytest

from tests.loops.lanes_by_threads import Lanes, loops_by


@pytest.fixture(params=["compiled", "lanes"])
def played(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops are compiled, or played by lanes."""
    if request.param == "lanes":
        loops_by(Lanes(6, "random"), monkeypatch)  # an even number: products have two lanes side by side
