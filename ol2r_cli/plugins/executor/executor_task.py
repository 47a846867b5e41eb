"""A job on a worker of an executor: a process of its own runs the payload, and the worker watches whether the sweep
still wants it.

So signals, memory and threads of a job stay out of the worker, and a job ends with its worker: its process reads a pipe
from the worker, and stops at the end of it.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

from ol2r_cli.launcher.job import THREAD_VARIABLES, Job, reason, run_payload
from ol2r_cli.run import INTERRUPTED

STOP = "stop"  # the file in the folder of a sweep by which all of its jobs are asked to stop
_LOOK = 2.0  # seconds between two looks for it
_GRACE = 60.0  # seconds between asking a job to stop and killing it
_PLAY = "from ol2r_cli.plugins.executor.executor_task import play; play()"


def run_job(job: Job, folder: Path, threads: int) -> tuple[int, str]:
    """Run a job on this worker; returns the code and the reason of its outcome.

    `folder` is that of the sweep, which all workers see. There the job says where it runs, and finds out whether it is
    to stop: with a file `STOP` in it, or without the folder. `threads` is the number of threads of libraries.
    """
    with suppress(OSError):  # the sweep has ended
        location_file(folder, job).write_text(f"{socket.gethostname()} pid {os.getpid()}")
    if _is_to_stop(folder):
        return INTERRUPTED, reason(job, INTERRUPTED)
    code = _run(job, folder, threads)
    if code == -signal.SIGINT:  # it was stopped before it could handle the signal
        code = INTERRUPTED
    return code, reason(job, code)


def location_file(folder: Path, job: Job) -> Path:
    """Return the file in which a job says where it runs."""
    return folder / str(job.number)


def _is_to_stop(folder: Path) -> bool:
    return (folder / STOP).exists() or not folder.exists()


def _run(job: Job, folder: Path, threads: int) -> int:
    """Run the payload in a process of its own; returns its exit code, or minus the signal that killed it."""
    job.log.parent.mkdir(parents=True, exist_ok=True)
    # PYTHONUNBUFFERED: prints are in the log at once. -P: without modules of the working directory.
    environment = {**os.environ, **dict.fromkeys(THREAD_VARIABLES, str(threads)), "PYTHONUNBUFFERED": "1"}
    with open(job.log, "ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", _PLAY],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env=environment,
            start_new_session=True,  # Ctrl-C on the terminal must reach the sweep only, which then asks jobs to stop
        )
    assert process.stdin is not None
    try:
        with suppress(BrokenPipeError):  # it has died at once
            pickle.dump(job.payload_now(), process.stdin)
            process.stdin.flush()
        while process.poll() is None and not _is_to_stop(folder):
            with suppress(subprocess.TimeoutExpired):
                process.wait(_LOOK)
    finally:
        with suppress(BrokenPipeError):
            process.stdin.close()
        try:
            process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    return process.returncode


def play() -> None:
    """Run the payload that the worker writes to the standard input of this process, until it closes it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a worker may have been started with SIGINT ignored
    payload = pickle.load(sys.stdin.buffer)
    threading.Thread(target=_stop_with_worker, daemon=True).start()
    sys.exit(run_payload(payload))


def _stop_with_worker() -> None:
    """Ask this process to stop when the worker closes the pipe, or ends."""
    os.read(sys.stdin.fileno(), 1)  # not from the buffer, whose lock a thread may not hold when Python ends
    os.kill(os.getpid(), signal.SIGINT)  # the run writes a checkpoint
