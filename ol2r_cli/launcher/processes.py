"""Runs jobs in processes of this machine, each forked within milliseconds from a server that has imported torch and
loaded what jobs share."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import tempfile
import threading
import time
import types
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import wait as wait_for_any
from typing import Any, Literal

import torch

from ol2r_cli.config.instantiate import build
from ol2r_cli.config.ranges import Count, Positive, WholeNumber
from ol2r_cli.launcher.job import THREAD_VARIABLES, Job, Outcome, reason, run_payload
from ol2r_cli.launcher.preloaded import VARIABLE, make
from ol2r_cli.run import INTERRUPTED
from ol2r_cli.run.experiment import Make

GRACE = 60.0  # seconds between asking a job to stop, after its timeout or without its parent, and killing it
_SERVER = multiprocessing.get_context("forkserver")
# Polars is imported along with them. Its threads would not survive a fork, but it starts them only when it is used.
_SERVER.set_forkserver_preload(
    ["torch", "ol2r_cli.run.runner", "ol2r_cli.launcher.processes", "ol2r_cli.loops.preloaded"]
)


@dataclass
class _Running:
    process: Any
    gpu: str | None
    deadline: float  # of time.monotonic(): then the job is asked to stop, and after another deadline it is killed
    timed_out: bool = False


class Processes:
    """Runs `jobs` at a time (auto: `per_gpu` on each GPU, or cores / `threads`), each with `threads` threads.

    `gpus` are the GPUs that jobs may use, one each: auto for all visible ones, or their numbers. `timeout` is in
    minutes. `fresh`: whether jobs find no data and loops in memory. `retries` and `fail_fast` are those of `Launcher`.
    """

    def __init__(
        self,
        jobs: Literal["auto"] | Count,
        threads: Count,
        gpus: Literal["auto"] | Sequence[WholeNumber],
        per_gpu: Count,
        timeout: Positive | None,
        fresh: bool,
        retries: WholeNumber,
        fail_fast: bool,
    ):
        self.threads, self.timeout, self.retries, self.fail_fast = threads, timeout, retries, fail_fast
        self.make, self._shared = build if fresh else make, list[bytes]()
        if gpus == "auto":
            visible = [name.strip() for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
            names = (visible or list(map(str, range(torch.cuda.device_count()))))[: torch.cuda.device_count()]
        else:  # in the form of CUDA_VISIBLE_DEVICES
            names = [str(number) for number in gpus]
        devices = names * per_gpu
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        slots = jobs if isinstance(jobs, int) else len(devices) or max(1, cores // threads)
        if devices and slots > len(devices):
            enough = -(-slots * per_gpu // len(devices))
            advice = f"type launcher.per_gpu={enough}, or device=cpu"
            raise ValueError(f"launcher.jobs must be at most {len(devices)} with these GPUs, got {slots}: {advice}")
        self._free: list[str | None] = [*devices[:slots]] or [None] * slots
        self._running: dict[Job, _Running] = {}

    def free_slots(self) -> int:
        return len(self._free)

    def share(self, payloads: Sequence[bytes]) -> None:
        """Load the data and compile the loops of these runs before the first job, in the process that forks all."""
        self._shared = [] if self.make is build or torch.cuda.is_available() else list(payloads)

    def submit(self, jobs: Sequence[Job]) -> None:
        """Start these jobs; their output is appended to their logs."""
        for job in jobs:
            gpu = self._free.pop(0)
            job.log.parent.mkdir(parents=True, exist_ok=True)
            job.log.touch()
            arguments = job.payload_now(), self.make, str(job.log), self.threads, gpu, dict(os.environ)
            process = _SERVER.Process(target=_main, args=arguments, name=f"ol2r job {job.number}")
            try:
                with _fork_server(self.threads, self._shared):
                    process.start()
            except (EOFError, ConnectionError):  # the server was killed, perhaps for lack of memory
                time.sleep(1)  # until it has ended; another one loads nothing
                with _fork_server(self.threads):
                    process.start()
            deadline = time.monotonic() + (self.timeout * 60 if self.timeout else float("inf"))
            self._running[job] = _Running(process, gpu, deadline)

    def poll(self, wait: float) -> list[tuple[Job, Outcome]]:
        """The jobs that have ended. Jobs whose time is up are asked to stop, and killed if they do not."""
        if self._running:
            wait_for_any([running.process.sentinel for running in self._running.values()], timeout=wait)
        ended = []
        for job, running in list(self._running.items()):
            if time.monotonic() >= running.deadline and running.timed_out:
                running.process.kill()
            elif time.monotonic() >= running.deadline:
                running.process.terminate()
                running.timed_out, running.deadline = True, time.monotonic() + GRACE
            if (code := running.process.exitcode) is not None:
                del self._running[job]
                self._free.append(running.gpu)
                running.process.join()
                limit = f"out of time after {self.timeout or 0:g} minutes (launcher.timeout): what was done is kept"
                ended.append((job, Outcome(code, limit if running.timed_out and code else reason(job, code))))
        return ended

    def location(self, job: Job) -> str:
        running = self._running[job]
        return f"pid {running.process.pid}" + (f" gpu {running.gpu}" if running.gpu is not None else "")

    def stop(self) -> None:
        for running in self._running.values():
            running.process.terminate()

    def close(self) -> None:
        for running in self._running.values():
            running.process.kill()
        for running in self._running.values():
            running.process.join()
        self._running.clear()


def _main(payload: bytes, make: Make, log: str, threads: int, gpu: str | None, environment: Mapping[str, str]) -> None:
    os.setpgid(0, 0)  # Ctrl-C on the terminal must reach the sweep only, which then asks its jobs to stop
    os.environ.clear()
    os.environ.update({name: str(threads) for name in THREAD_VARIABLES} | dict(environment))
    if gpu is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu
    sys.stdout.flush()
    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND), 1)
    os.dup2(1, 2)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # prints are in the log before an error
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(threads)
    sys.exit(run_payload(payload, make=make))


def _end_with_parent() -> None:
    """Stop this job when the process of the sweep has ended, for instance because it was killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)  # the run writes a checkpoint
        time.sleep(GRACE)
        os._exit(INTERRUPTED)


@contextmanager
def _fork_server(threads: int, shared: Sequence[bytes] = ()) -> Iterator[None]:
    """The environment in which the fork server starts, with the first job, and in which it forks.

    The program that started the sweep is hidden: otherwise every job would execute the user's script again.
    """
    environment, program = dict(os.environ), sys.modules["__main__"]
    for name in THREAD_VARIABLES:
        os.environ.setdefault(name, str(threads))
    os.environ["PYTHONSAFEPATH"] = "1"  # the server would import from the current folder first
    os.environ["PYTHONPATH"] = os.pathsep.join(os.path.abspath(folder) for folder in sys.path)
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        with tempfile.NamedTemporaryFile() as file:
            file.write(pickle.dumps(shared))
            file.flush()
            os.environ[VARIABLE] = file.name
            yield
    finally:
        os.environ.clear()
        os.environ.update(environment)
        sys.modules["__main__"] = program
