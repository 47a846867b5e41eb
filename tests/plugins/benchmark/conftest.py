"""A folder of recipes for one test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.plugins.benchmark.small import use


@pytest.fixture
def recipes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder without recipes, but with the datasets of the papers, in place of those of ol2r."""
    return use(tmp_path / "recipes", monkeypatch)
