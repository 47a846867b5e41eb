"""Ctrl-C and SIGTERM are requests: the round is finished and a checkpoint written before a run stops."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def stop_signals() -> Iterator[list[int]]:
    """The list fills with the first SIGINT or SIGTERM, to be acted on after the round; a second interrupts at once.

    Outside of the main thread, where Python hears of no signals, it stays empty.
    """
    stop: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

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
