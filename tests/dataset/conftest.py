"""A folder for the files of a fold."""

from __future__ import annotations

import pytest

from tests.dataset.letor_files import Fold


@pytest.fixture
def fold(tmp_path) -> Fold:
    return Fold(tmp_path)
