from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from ol2r_cli.config.composer import Composer
from ol2r_cli.config.overrides import split_search_path
from ol2r_cli.plugins.search import space
from tests.plugins.search.spaces import COMPOSER

_COMPOSERS: dict[tuple[Path, ...], Composer] = {(): COMPOSER}


@pytest.fixture(autouse=True)
def _compose_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spaces of the same folders share a composer, so that Hydra composes each set of choices once."""

    def composer(words: Sequence[str]) -> Composer:
        folders = tuple(split_search_path(words)[1])
        if folders not in _COMPOSERS:
            _COMPOSERS[folders] = Composer(words)
        return _COMPOSERS[folders]

    monkeypatch.setattr(space, "Composer", composer)
