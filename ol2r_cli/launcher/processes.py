"""Runs jobs in processes of this machine, each forked within milliseconds from a server that has imported torch and
loaded what jobs share."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import resource
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for_any
from typing import Annotated, Any, Literal

import torch

from ol2r_cli.config.instantiate import build
from ol2r_cli.config.ranges import Count, Positive, Range, WholeNumber
from ol2r_cli.launcher.job import THREAD_VARIABLES, Job, Outcome, reason, run_payload, run_payloads, without_program
from ol2r_cli.launcher.preloaded import VARIABLE, make
from ol2r_cli.run import DONE, FAILED, INTERRUPTED
from ol2r_cli.run.experiment import Make

GRACE = 60.0  # seconds between asking a job to stop, after its timeout or without its parent, and killing it
_SERVER = multiprocessing.get_context("forkserver")
# Polars is imported along with them. Its threads would not survive a fork, but it starts them only when it is used.
_SERVER.set_forkserver_preload(
    ["torch", "ol2r_cli.run.runner", "ol2r_cli.launcher.processes", "ol2r_cli.loops.preloaded"]
)


@dataclass(eq=False)
class _Running:
    """A process, with the jobs of its batch that have not ended, by their place in the batch.

    deadline: by time.monotonic; then its job is asked to stop, and after another deadline it is killed.
    """

    process: Any
    jobs: dict[int, Job]
    ends: Connection  # from which the place of a job and its exit code come as soon as it has ended
    is_batch: bool
    gpu: str | None
    deadline: float
    timed_out: bool = False


class Processes:
    """Runs `jobs` processes at a time (auto: `per_gpu` on each GPU, or cores / `threads`), of `threads` threads each.

    `gpus` are the GPUs that jobs may use, one each: auto for all visible ones, or their numbers. `timeout` is in
    minutes. `fresh`: whether jobs find no data and loops in memory. `batch` is how many jobs a process plays together
    at most, auto what the scheduler takes for fast; with `fresh` or `timeout` it is 1, as these are about one job.
    `retries` and `fail_fast` are those of `Launcher`.
    """

    def __init__(
        self,
        jobs: Literal["auto"] | Count,
        threads: Count,
        gpus: Literal["auto"] | Sequence[WholeNumber],
        per_gpu: Count,
        timeout: Positive | None,
        batch: Literal["auto"] | Annotated[int, Range(1, 1000)],
        fresh: bool,
        retries: WholeNumber,
        fail_fast: bool,
    ):
        self.threads, self.timeout, self.retries, self.fail_fast = threads, timeout, retries, fail_fast
        self.make, self._shared = build if fresh else make, list[bytes]()
        self.batch = batch
        about_one_job = "launcher.timeout" if timeout is not None else "launcher.fresh=true" if fresh else ""
        if about_one_job:
            if batch not in ("auto", 1):
                raise ValueError(f"launcher.batch must be 1 with {about_one_job}, got {batch}: type launcher.batch=1")
            self.batch = 1
        devices = _gpus(gpus) * per_gpu
        slots = jobs if isinstance(jobs, int) else len(devices) or max(1, _cores() // threads)
        if devices and slots > len(devices):
            enough = -(-slots * per_gpu // len(devices))
            advice = f"type launcher.per_gpu={enough}, or device=cpu"
            raise ValueError(f"launcher.jobs must be at most {len(devices)} with these GPUs, got {slots}: {advice}")
        self._free: list[str | None] = [*devices[:slots]] or [None] * slots
        self._running: list[_Running] = []

    def free_slots(self) -> int:
        return len(self._free)

    def share(self, payloads: Sequence[bytes]) -> None:
        """Load the data and compile the loops of these runs before the first job, in the process that forks all."""
        self._shared = [] if self.make is build or torch.cuda.is_available() else list(payloads)

    def submit(self, jobs: Sequence[Job]) -> None:
        """Start these jobs, each in a process; their output is appended to their logs."""
        for job in jobs:
            self.submit_batch([job])

    def submit_batch(self, jobs: Sequence[Job]) -> None:
        """Start these jobs in one process, which plays them together if there are several."""
        gpu = self._free.pop(0)
        for job in jobs:
            job.log.parent.mkdir(parents=True, exist_ok=True)
            job.log.touch()
        receiving, sending = _SERVER.Pipe(duplex=False)
        batch = [(job.payload_now(), str(job.log)) for job in jobs]
        arguments = batch, sending, self.make, self.threads, gpu, dict(os.environ)
        process = _SERVER.Process(target=_main, args=arguments, name=f"ol2r job {jobs[0].number}")
        try:
            with _fork_server(self.threads, self._shared):
                process.start()
        except (EOFError, ConnectionError):  # the server was killed, perhaps for lack of memory
            time.sleep(1)  # until it has ended; another one loads nothing
            with _fork_server(self.threads):
                process.start()
        sending.close()
        deadline = time.monotonic() + (self.timeout * 60 if self.timeout else float("inf"))
        self._running.append(_Running(process, dict(enumerate(jobs)), receiving, len(jobs) > 1, gpu, deadline))

    def poll(self, wait: float) -> list[tuple[Job, Outcome]]:
        """Return the jobs that have ended. Jobs whose time is up are asked to stop, and killed if they do not."""
        awaited = [running.process.sentinel for running in self._running]
        awaited += [running.ends for running in self._running]
        if awaited:
            wait_for_any(awaited, timeout=wait)
        ended = []
        for running in list(self._running):
            if time.monotonic() >= running.deadline and running.timed_out:
                running.process.kill()
            elif time.monotonic() >= running.deadline:
                running.process.terminate()
                running.timed_out, running.deadline = True, time.monotonic() + GRACE
            code = running.process.exitcode  # before the last ends are received
            ended += _received(running)
            if code is not None:
                ended += self._left(running, code)
        return ended

    def _left(self, running: _Running, code: int) -> list[tuple[Job, Outcome]]:
        """Return the jobs that have not ended before their process has, with its exit code."""
        self._running.remove(running)
        self._free.append(running.gpu)
        running.process.join()
        running.ends.close()
        limit = f"out of time after {self.timeout or 0:g} minutes (launcher.timeout): what was done is kept"
        why = limit if running.timed_out and code else ""
        if running.is_batch and code == DONE:
            code = FAILED  # for jobs of which it did not say so
        left = running.jobs.values()
        return [(job, Outcome(code, why or reason(job, code), again_alone=running.is_batch)) for job in left]

    def location(self, job: Job) -> str:
        running = next(running for running in self._running if job in running.jobs.values())
        return f"pid {running.process.pid}" + (f" gpu {running.gpu}" if running.gpu is not None else "")

    def stop(self) -> None:
        for running in self._running:
            running.process.terminate()

    def close(self) -> None:
        for running in self._running:
            running.process.kill()
        for running in self._running:
            running.process.join()
        self._running.clear()


def _gpus(gpus: Literal["auto"] | Sequence[int]) -> list[str]:
    """Return the GPUs that jobs may use, in the form of CUDA_VISIBLE_DEVICES; `auto` are all visible ones."""
    if gpus != "auto":
        return [str(number) for number in gpus]
    number = torch.cuda.device_count()
    visible = [name.strip() for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
    return (visible or [str(place) for place in range(number)])[:number]


def _cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _received(running: _Running) -> list[tuple[Job, Outcome]]:
    """Return the jobs of a batch that have ended."""
    ended = []
    with suppress(EOFError, OSError):  # its process has ended
        while running.ends.poll():
            place, received = running.ends.recv()
            job = running.jobs.pop(place)
            code = FAILED if received is None else received
            ended.append((job, Outcome(code, reason(job, code), again_alone=received is None)))
    return ended


def _main(
    batch: Sequence[tuple[bytes, str]],
    ends: Connection,
    make: Make,
    threads: int,
    gpu: str | None,
    environment: Mapping[str, str],
) -> None:
    """Run the payloads of a batch, with their logs, in a process of their own."""
    os.setpgid(0, 0)  # Ctrl-C on the terminal must reach the sweep only, which then asks its jobs to stop
    os.environ.clear()
    os.environ.update({name: str(threads) for name in THREAD_VARIABLES} | dict(environment))
    if gpu is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu
    payloads, logs = zip(*batch, strict=True)
    sys.stdout.flush()
    os.dup2(os.open(logs[0], os.O_WRONLY | os.O_CREAT | os.O_APPEND), 1)
    os.dup2(1, 2)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # prints are in the log before an error
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(threads)
    if len(payloads) == 1:
        sys.exit(run_payload(payloads[0], make=make))

    def ended(place: int, code: int | None) -> None:
        with suppress(OSError):  # the sweep has ended
            ends.send((place, code))

    with suppress(OSError, ValueError):  # every job has a lock and two more files open
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    run_payloads(payloads, logs, ended, make)


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
    """Return the environment in which the fork server starts, with the first job, and in which it forks."""
    environment = dict(os.environ)
    for name in THREAD_VARIABLES:
        os.environ.setdefault(name, str(threads))
    os.environ["PYTHONSAFEPATH"] = "1"  # the server would import from the current folder first
    os.environ["PYTHONPATH"] = os.pathsep.join(os.path.abspath(folder) for folder in sys.path)
    try:
        with without_program(), tempfile.NamedTemporaryFile() as file:
            file.write(pickle.dumps(shared))
            file.flush()
            os.environ[VARIABLE] = file.name
            yield
    finally:
        os.environ.clear()
        os.environ.update(environment)
