"""Loops of one source: the stages of a round, one replica and one document after the other.

numba compiles them for a CPU and numba-cuda for a GPU (docs/explanation/architecture.md, *One source*), so they read
like the papers' pseudo-code. Here is what all share; the loops of a ranker or an exploration are beside it, in files
`.._loops.py`. They import nothing else of ol2r_cli but `source` and `plugins`. The modules of a round are imported when
the first of them is used.
"""

from __future__ import annotations

import sys
import time
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ol2r_cli.plugins import launching

if TYPE_CHECKING:
    from ol2r_cli.loops import directions as directions
    from ol2r_cli.loops import gradient_steps as gradient_steps
    from ol2r_cli.loops import launch as launch
    from ol2r_cli.loops import orders as orders
    from ol2r_cli.loops import pairs as pairs
    from ol2r_cli.loops import parts as parts
    from ol2r_cli.loops import random_numbers as random_numbers
    from ol2r_cli.loops import rounds as rounds
    from ol2r_cli.loops import single as single
    from ol2r_cli.loops import users as users


class Clock:
    """Seconds of this process, without those from a `stop` to its `start`: while numba compiles loops or loads their
    machine code, which is no part of a run's time. A loop compiles those that it calls, so that stops are nested:
    `compiling` is their number."""

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
        """Return wall-clock and CPU seconds, as of `time.monotonic` and `time.process_time`."""
        wall, cpu = self._stopped if self.compiling else (time.monotonic(), time.process_time())
        return wall - self._lost[0], cpu - self._lost[1]


clock = Clock()


def compiled() -> bool:
    """Return whether loops are compiled: NUMBA_DISABLE_JIT=1 leaves them to Python."""
    return not import_module("numba").config.DISABLE_JIT


def slow_compilation() -> str:
    """Return why loops are compiled slowly in this process; empty if they are not, or if none has been used."""
    parts = sys.modules.get(f"{__name__}.parts")
    if parts is None or not parts.LACKING:
        return ""
    lacks = f"numba {import_module('numba').__version__} lacks {', '.join(parts.LACKING)}"
    return f"{lacks}, so that loops are compiled in its ordinary way, which takes longer: type pip install -U numba"


def gpu_is_missing() -> str:
    """Return why loops cannot be compiled for a GPU, such as `numba-cuda is not installed`; empty if they can."""
    of_gpu = launching()
    return "the plug-in for GPUs is not installed" if of_gpu is None else of_gpu.missing()


def __getattr__(name: str) -> Any:
    """Import a module of this package when it is first used: numba takes half a second."""
    if name.startswith("_") or find_spec(f"{__name__}.{name}") is None:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return import_module(f"{__name__}.{name}")
