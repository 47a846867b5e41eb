from __future__ import annotations

import pytest

from ol2r_cli.plugins.search import space
from tests.plugins.search.spaces import COMPOSER


@pytest.fixture(autouse=True)
def _compose_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spaces share a composer, so that Hydra composes each set of choices once."""
    monkeypatch.setattr(space, "Composer", lambda words: COMPOSER)
