"""Finished runs that the exports share."""

from __future__ import annotations

import pytest

from tests.export.finished import FinishedRuns, finished_runs


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> FinishedRuns:
    return finished_runs(tmp_path_factory)
