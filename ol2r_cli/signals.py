"""Ctrl-C and SIGTERM are requests: the round is finished and a checkpoint written before a run stops."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def stop_signals() -> Iterator[list[int]]:
    """The list fills with the first SIGINT or SIGTERM, to be acted on after the round; a second interrupts at once."""
    stop: list[int] = []

    def ask(number: int, _: object) -> None:
        if stop:
            raise KeyboardInterrupt
        stop.append(number)

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
