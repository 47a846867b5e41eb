"""Jobs whose payload executes Python source when it is unpickled, so that they need no configuration; how they end."""

from __future__ import annotations

import pickle
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ol2r_cli.launcher.job import Job, Launcher, Outcome, manifest_bytes


class _Source:
    def __init__(self, source: str):
        self.source = source

    def __reduce__(self) -> tuple:
        return exec, (self.source,)


def payload_of(source: str) -> bytes:
    """A payload that executes Python source."""
    return pickle.dumps(_Source(source))


def does(source: str, folder: Path, number: int = 0) -> Job:
    """A job that executes Python source. It ends with code 1 unless the source ends the process."""
    directory, log = folder / "runs" / str(number), folder / ".sweep" / "one" / f"{number}.log"
    return Job(number, payload_of(source), directory, log, manifest_bytes(directory))


def until(reached: Callable[[], Any], process: subprocess.Popen[str] | None = None) -> Any:
    """What a condition gives as soon as it is true; the process must not end before."""
    end = time.monotonic() + 400  # seconds; the machine may be busy
    while not (found := reached()):
        assert time.monotonic() < end, "it has not come about"
        assert process is None or process.poll() is None, process.communicate()
        time.sleep(0.01)
    return found


def outcomes(launcher: Launcher, count: int) -> dict[int, Outcome]:
    """The outcomes of the next `count` jobs that end, by number."""
    ended: dict[int, Outcome] = {}

    def poll() -> bool:
        ended.update((job.number, outcome) for job, outcome in launcher.poll(0.2))
        return len(ended) >= count

    until(poll)
    return ended
