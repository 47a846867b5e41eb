"""A clock that stands still while numba compiles loops or loads their machine code: that is no part of a run's time."""

from __future__ import annotations

import time


class Clock:
    """Seconds of this process, without those from a `stop` to its `start`. A loop compiles those that it calls, so that
    stops are nested: `compiling` is their number."""

    def __init__(self) -> None:
        self.compiling, self._stopped, self._lost = 0, (0.0, 0.0), (0.0, 0.0)

    def stop(self) -> None:
        """Stand still until `start` has been called as often."""
        if not self.compiling:
            self._stopped = time.monotonic(), time.process_time()
        self.compiling += 1

    def start(self) -> None:
        """Go on, where the last `stop` ends."""
        wall, cpu = self.read()
        self.compiling -= 1
        if not self.compiling:
            self._lost = time.monotonic() - wall, time.process_time() - cpu

    def read(self) -> tuple[float, float]:
        """Wall-clock and CPU seconds, as of `time.monotonic` and `time.process_time`."""
        wall, cpu = self._stopped if self.compiling else (time.monotonic(), time.process_time())
        return wall - self._lost[0], cpu - self._lost[1]


clock = Clock()
