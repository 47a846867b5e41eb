"""Jobs in processes of this machine, each a fresh one, forked in milliseconds from a server that has torch imported."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
import types
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import wait as wait_for_any
from typing import Any

from ol2r_cli.launcher.ending import killed_for_memory, reason
from ol2r_cli.launcher.job import Job, Outcome, run_payload

GRACE = 60.0  # seconds from the request to stop, after which a job that ran out of time, or lost its parent, is killed
_LIBRARIES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_SERVER = multiprocessing.get_context("forkserver")
# Polars is imported along with them; its threads would not survive a fork, but have not started while it is unused.
_SERVER.set_forkserver_preload(["torch", "hydra", "ol2r_cli.experiment", "ol2r_cli.sitting", "ol2r_cli.run"])


@dataclass
class _Running:
    process: Any
    gpu: str | None
    starved: int  # `killed_for_memory` when it began
    deadline: float  # of time.monotonic(); when it passes, the job is asked to stop, then killed
    late: bool = False


class Processes:
    """Runs `jobs` at a time (auto: as many as GPUs x `per_gpu`, or cores / `threads`), each with `threads` threads.

    `gpus` are those that jobs may use, one each: auto for those that are visible, or their numbers. `timeout` is in
    minutes. `retries` and `fail_fast` are for who drives the sweep.
    """

    def __init__(
        self,
        jobs: int | str,
        threads: int,
        gpus: str | Sequence[int],
        per_gpu: int,
        timeout: float | None,
        retries: int,
        fail_fast: bool,
    ):
        for name, value, least in ("threads", threads, 1), ("per_gpu", per_gpu, 1), ("retries", retries, 0):
            if value < least:
                raise ValueError(f"launcher.{name} must be {least} or more, got {value!r}")
        if timeout is not None and not timeout > 0:
            raise ValueError(f"launcher.timeout must be null or minutes above 0, got {timeout!r}")
        if jobs != "auto" and (isinstance(jobs, str) or jobs < 1):
            raise ValueError(f"launcher.jobs must be auto or 1 and more, got {jobs!r}")
        self.threads, self.timeout, self.retries, self.fail_fast = threads, timeout, retries, fail_fast
        devices = [gpu for _ in range(per_gpu) for gpu in _visible(gpus)]
        wanted = jobs if isinstance(jobs, int) else len(devices) or max(1, _cores() // threads)
        if devices and wanted > len(devices):
            advice = f"type launcher.per_gpu={-(-wanted * per_gpu // len(devices))}, or launcher.gpus=[] for the CPU"
            raise ValueError(f"launcher.jobs must be at most {len(devices)} with these GPUs, got {wanted}: {advice}")
        self._free: list[str | None] = [*devices[:wanted]] or [None] * wanted
        self._running: dict[Job, _Running] = {}

    def room(self) -> int:
        """How many more jobs can start now."""
        return len(self._free)

    def submit(self, jobs: Sequence[Job]) -> None:
        """Start these jobs; what they print is added to their logs."""
        for job in jobs:
            gpu = self._free.pop(0)
            job.log.parent.mkdir(parents=True, exist_ok=True)
            job.log.touch()
            given = job.payload, str(job.log), self.threads, gpu, dict(os.environ)
            process = _SERVER.Process(target=_main, args=given, name=f"ol2r job {job.number}")
            with _environment(self.threads), _no_main_module():
                process.start()
            deadline = time.monotonic() + (self.timeout * 60 if self.timeout else float("inf"))
            self._running[job] = _Running(process, gpu, killed_for_memory(), deadline)

    def ended(self, wait: float) -> list[tuple[Job, Outcome]]:
        """The jobs that have ended; waits up to `wait` seconds for the first of them."""
        if self._running:
            wait_for_any([one.process.sentinel for one in self._running.values()], timeout=wait)
        for one in self._running.values():
            self._hurry(one)
        done = [job for job, one in self._running.items() if one.process.exitcode is not None]
        return [(job, self._outcome(job)) for job in done]

    def place(self, job: Job) -> str:
        """The process of a running job, and its GPU."""
        one = self._running[job]
        return f"pid {one.process.pid}" + (f" gpu {one.gpu}" if one.gpu is not None else "")

    def stop(self) -> None:
        """Ask every job to keep what it has and end."""
        for one in self._running.values():
            one.process.terminate()

    def close(self) -> None:
        """Kill what still runs."""
        for one in self._running.values():
            one.process.kill()
        for one in self._running.values():
            one.process.join()
        self._running.clear()

    def _hurry(self, one: _Running) -> None:
        """Ask a job whose time is up to stop; kill it when it takes too long about it."""
        if time.monotonic() < one.deadline:
            return
        if one.late:
            one.process.kill()
        else:
            one.process.terminate()
            one.late, one.deadline = True, time.monotonic() + GRACE

    def _outcome(self, job: Job) -> Outcome:
        one = self._running.pop(job)
        self._free.append(one.gpu)
        code = int(one.process.exitcode)
        one.process.join()
        if one.late and code:
            return Outcome(
                code, f"out of time after {self.timeout:g} minutes (launcher.timeout): what was done is kept"
            )
        return Outcome(code, reason(job, code, starved=killed_for_memory() > one.starved))


def _main(payload: bytes, log: str, threads: int, gpu: str | None, environment: Mapping[str, str]) -> None:
    """What the process of one job does."""
    os.setpgid(0, 0)  # Ctrl-C on the terminal is for the sweep, which asks its jobs to stop
    os.environ.clear()
    os.environ.update({name: str(threads) for name in _LIBRARIES} | dict(environment))
    if gpu is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu
    sys.stdout.flush()
    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND), 1)
    os.dup2(1, 2)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    import torch

    torch.set_num_threads(threads)
    sys.exit(run_payload(payload))


def _end_with_parent() -> None:
    """Nobody is left to see to this job once the process of the sweep is gone, killed for instance."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)  # the run keeps what it has
        time.sleep(GRACE)
        os._exit(130)


@contextmanager
def _environment(threads: int) -> Iterator[None]:
    """What the server reads when it starts, with the first job: libraries count their threads when they are loaded."""
    before = dict(os.environ)
    for name in _LIBRARIES:
        os.environ.setdefault(name, str(threads))
    os.environ["PYTHONPATH"] = os.pathsep.join(os.path.abspath(place) for place in sys.path)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def _no_main_module() -> Iterator[None]:
    """Jobs need nothing of the program that started the sweep: a user's script would run once more in each of them."""
    program = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = program


def _visible(gpus: str | Sequence[int]) -> list[str]:
    """The GPUs that `gpus` names, as CUDA_VISIBLE_DEVICES has them."""
    if gpus != "auto":
        if isinstance(gpus, str) or not all(isinstance(number, int) and number >= 0 for number in gpus):
            raise ValueError(f"launcher.gpus must be auto or a list of numbers such as [0,1], got {gpus!r}")
        return [str(number) for number in gpus]
    import torch

    named = [name.strip() for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
    count = torch.cuda.device_count()
    return named[:count] if named else [str(number) for number in range(count)]


def _cores() -> int:
    """Processors this process may use."""
    with suppress(AttributeError):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
