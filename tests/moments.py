"""A callback or a signal at a chosen round of a run in this process."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

from ol2r_cli.run.progress import Progress


def at_round(monkeypatch, round: int, happens: Callable[[], object]):
    """Call `happens` after this round."""
    update = Progress.update

    def and_then(self: Progress, done: int):
        update(self, done)
        if done == round:
            happens()

    monkeypatch.setattr(Progress, "update", and_then)


def stop_at(monkeypatch, round: int, number: int = signal.SIGTERM):
    """Send a signal to this process after this round."""
    at_round(monkeypatch, round, lambda: os.kill(os.getpid(), number))
