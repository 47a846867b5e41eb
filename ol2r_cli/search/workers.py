"""Several processes that search together: each is `ol2r search` with the words of the first, told to be a worker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import ol2r_cli
from ol2r_cli.search.study import ATTEMPTS, Study
from ol2r_cli.signals import stop_signals

_PAUSE = 0.1  # seconds between looks at the workers


def work(study: Study, arguments: Sequence[str], jobs: int) -> bool:
    """Have `jobs` workers search until they end; False when they were asked to stop.

    A trial whose worker was killed is taken up by another one, by a new one if there is none left.
    """
    with stop_signals() as stop:
        _see_through(arguments, jobs, stop)
        for _ in range(ATTEMPTS):
            if stop or not study.deserted():
                break
            _see_through(arguments, 1, stop)
    return not stop


def _see_through(arguments: Sequence[str], jobs: int, stop: list[int]) -> None:
    """Run workers until all have ended. They are told of a signal that comes; a second one kills them."""
    command = [sys.executable, "-m", "ol2r_cli", "search", *arguments, "--worker"]
    found = os.pathsep.join([str(Path(ol2r_cli.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": found.rstrip(os.pathsep)}
    # In a session of their own: of a Ctrl-C they hear from this process, and only once.
    workers = [subprocess.Popen(command, env=environment, start_new_session=True) for _ in range(jobs)]
    try:
        told = False
        while any(worker.poll() is None for worker in workers):
            if stop and not told:
                told = True
                for worker in workers:
                    worker.send_signal(signal.SIGTERM)
            time.sleep(_PAUSE)
    finally:
        for worker in workers:
            worker.kill()  # nothing, where it has ended
            worker.wait()
