"""Turns Ctrl-C and SIGTERM into requests to stop, so that a run can finish its round and write a checkpoint."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def stop_signals() -> Iterator[list[int]]:
    """A list to which the first SIGINT or SIGTERM is appended; a second one raises KeyboardInterrupt at once.

    The list stays empty outside of the main thread, because Python delivers signals only there.
    """
    stop: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def request(number: int, _: object) -> None:
        if stop:
            raise KeyboardInterrupt
        stop.append(number)

    previous = {number: signal.signal(number, request) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
