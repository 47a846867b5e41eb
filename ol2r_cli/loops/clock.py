"""A clock that stands still while numba compiles loops or loads their machine code: that is no part of a run's time."""

from __future__ import annotations

import time


class Clock:
    """Wall-clock and CPU seconds of this process, as those of `time`, without the time between `stop` and `start`."""

    def __init__(self) -> None:
        self._depth, self._lost, self._lost_cpu = 0, 0.0, 0.0
        self._stopped = 0.0, 0.0

    @property
    def compiling(self) -> bool:
        """Whether it stands still."""
        return self._depth > 0

    def stop(self) -> None:
        """Stand still until `start` has been called as often as `stop`: a loop compiles those that it calls."""
        if not self._depth:
            self._stopped = time.monotonic(), time.process_time()
        self._depth += 1

    def start(self) -> None:
        """Go on."""
        self._depth -= 1
        if not self._depth:
            self._lost += time.monotonic() - self._stopped[0]
            self._lost_cpu += time.process_time() - self._stopped[1]

    def monotonic(self) -> float:
        """Wall-clock seconds."""
        return (self._stopped[0] if self._depth else time.monotonic()) - self._lost

    def process_time(self) -> float:
        """CPU seconds of the process and its threads."""
        return (self._stopped[1] if self._depth else time.process_time()) - self._lost_cpu


clock = Clock()
