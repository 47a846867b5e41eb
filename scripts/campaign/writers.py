"""Several processes that start the same run, with and without working locks.

Each case draws how many processes start and when, what the file system does with locks, and which of them are killed or
suspended. Every process must finish, or end with one line; then the same command must give the results of an
undisturbed run.
"""

from __future__ import annotations

import fcntl
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

from faults import Disturbance, How, ended, start
from small_run import SmallRun, bad_output
from tally import Tally

LOCKS = ("flock", "flock has no effect", "flock is refused")


def run(seed: int, count: int, folder: Path) -> Tally:
    """`count` cases."""
    tally, small = Tally("two to six processes"), SmallRun(folder / "run")
    for number in range(count):
        draw = random.Random(f"{seed} {number}")
        locks = draw.choice(LOCKS)
        small.clear()
        if draw.random() < 0.5:  # resume what a killed process has left
            kill = Disturbance(draw.randint(1, len(small.operations)), How.KILL_AFTER)
            ended(start(small.words, small.folder, kill))
        processes = []
        for index in range(draw.randint(2, 6)):
            kill = Disturbance(draw.randint(1, len(small.operations)), draw.choice([How.KILL_BEFORE, How.KILL_AFTER]))
            before = _before(locks, draw.choice([0.0, 0.0, draw.uniform(0, 0.6)]))
            started = start(small.words, small.folder, kill if draw.random() < 0.2 else None, before, f".{index}")
            processes.append(started)
        if draw.random() < 0.5:
            _suspend(draw.choice(processes).pid, draw.uniform(0.1, 0.8))
        problem = ""
        for process in processes:
            end = ended(process)
            if end.code not in (0, 1, 2, -signal.SIGKILL) or bad_output(end.errors):
                problem = problem or f"a process ended with {end.code}: {end.errors[-300:]!r}"
        tally.add(f"case {number} ({locks})", problem or small.wrong_at_the_end())
    return tally


def _before(locks: str, pause: float) -> Callable[[], object]:
    """What a process does before it starts the run."""

    def no_locks(*_: object) -> None:
        if locks == "flock is refused":
            raise OSError(37, os.strerror(37))

    def before() -> None:
        if locks != "flock":
            fcntl.flock = no_locks  # type: ignore[assignment]
        time.sleep(pause)

    return before


def _suspend(process: int, after: float) -> None:
    """Suspend a process, unless it has ended."""
    time.sleep(after)
    os.kill(process, signal.SIGSTOP)
    time.sleep(1.5)
    os.kill(process, signal.SIGCONT)
