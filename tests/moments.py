"""A callback at a chosen round of a run in this process."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ol2r_cli.run.progress import Progress


def at_round(monkeypatch: pytest.MonkeyPatch, round: int, happens: Callable[[], object]) -> None:
    """Call `happens` after this round."""
    update = Progress.update

    def and_then(self: Progress, done: int) -> None:
        update(self, done)
        if done == round:
            happens()

    monkeypatch.setattr(Progress, "update", and_then)
