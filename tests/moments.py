"""Something that happens at a certain moment of a run in this process."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ol2r_cli.progress import Progress


def at_round(monkeypatch: pytest.MonkeyPatch, round: int, happens: Callable[[], object]) -> None:
    """Let something happen after a round."""
    update = Progress.update

    def and_then(self: Progress, done: int) -> None:
        update(self, done)
        if done == round:
            happens()

    monkeypatch.setattr(Progress, "update", and_then)
