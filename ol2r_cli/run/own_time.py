"""The time that one run takes of a process which may play others too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ol2r_cli.loops import clock

Seconds = tuple[float, float]  # by the clock on the wall, and of the CPU


class OwnTime:
    """Counts the seconds within `counting`, without those in which loops are compiled, and what is added."""

    def __init__(self) -> None:
        self._counted: Seconds = (0.0, 0.0)
        self._since: Seconds | None = None

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count until the end of the block."""
        self._since = clock.read()
        try:
            yield
        finally:
            self._counted, self._since = self.read(), None

    def add(self, seconds: Seconds) -> None:
        """Count seconds that were measured elsewhere, the share of a run in what was done for several."""
        self._counted = self._counted[0] + seconds[0], self._counted[1] + seconds[1]

    def read(self) -> Seconds:
        """Return what was counted so far."""
        if self._since is None:
            return self._counted
        now = clock.read()
        return self._counted[0] + now[0] - self._since[0], self._counted[1] + now[1] - self._since[1]
