"""Finished runs that the exports share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.export.finished import make


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return make(tmp_path_factory.mktemp("exported"), "linear", "skip", "ties", "network", "oracle")
