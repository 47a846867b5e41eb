"""Jobs, how they end, and what a launcher does with them. A launcher does not know rankers, settings or grids."""

from __future__ import annotations

import os
import pickle
import re
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import spawn
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from ol2r_cli.config.catalogue import targets
from ol2r_cli.plugins import launching, plugins, run_kinds
from ol2r_cli.run import DONE, FAILED, INTERRUPTED, MANIFEST
from ol2r_cli.run.own_code import own_code
from ol2r_cli.run.run import read_manifest

if TYPE_CHECKING:
    from ol2r_cli.run.experiment import Make

# Environment variables by which libraries decide how many threads to start; they read them when they are loaded.
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True, eq=False)
class Job:
    """One run of a sweep.

    number: from 0, in the order of the sweep. payload: the argument of `run_payload`. directory: where the run is
    written. log: the file for its output. Both paths are absolute, for the nodes of a cluster. before: `manifest_bytes`
    of the directory when the job was made.
    """

    number: int
    payload: bytes
    directory: Path
    log: Path
    before: bytes | None = None

    def has_begun(self) -> bool:
        """Return whether its run has begun since the job was made, or an earlier attempt at it."""
        return manifest_bytes(self.directory) != self.before

    def payload_now(self) -> bytes:
        """Return the payload; of a run that has begun with force=false, so that it resumes and does not start once
        more."""
        if not self.has_begun():
            return self.payload
        run = pickle.loads(self.payload)
        return pickle.dumps({**run, "config": {**run["config"], "force": False}})


def manifest_bytes(directory: Path) -> bytes | None:
    """Return the content of run.json in a directory; None without one."""
    with suppress(OSError):  # the job itself says what is wrong with its directory
        return (directory / MANIFEST).read_bytes()
    return None


@contextmanager
def without_program() -> Iterator[None]:
    """Start processes in a block that do not execute the program which started the sweep, as a user's script once more.

    Workers that a library starts while the block lasts, also from other threads, need nothing of it.
    """
    prepared = spawn.get_preparation_data

    def without(name: str) -> dict[str, object]:
        return {key: value for key, value in prepared(name).items() if not key.startswith("init_main")}

    spawn.get_preparation_data = without
    try:
        yield
    finally:
        spawn.get_preparation_data = prepared


def run_status(job: Job) -> str | None:
    """Return the status in run.json; None before the run has begun, and if the file is damaged."""
    if not job.has_begun():
        return None
    with suppress(ValueError):
        return (read_manifest(job.directory) or {}).get("status")
    return None


@dataclass(frozen=True)
class Outcome:
    """How a job ended.

    code: the exit code of `ol2r run` (`run/__init__.py`), or minus the number of the signal that killed its process
    (-9). reason: one line for the user, empty if the job is done. again_alone: whether this was the end of a process
    that played other jobs too, any of which can be to blame: what this one does is known when it is run alone.
    """

    code: int
    reason: str = ""
    again_alone: bool = False


@runtime_checkable
class Launcher(Protocol):
    """A choice of the group `launcher`: where the jobs of a sweep run and how many at a time.

    retries: how often a job that failed or was killed is submitted again; a bad configuration is not retried.
    fail_fast: whether the sweep ends when the first job has failed and has no retries left.

    A launcher whose processes play several jobs has, besides, `batch`, the number of these or `auto`, and a method
    `submit_batch`, which receives the jobs of one process. One that has a method `share` is told before the first job
    which payloads are typical. One that has a method `refusal` says by it, in a line, why no job can ever begin here:
    a package or a command is missing; empty where nothing is. One that has a method `waits` says by it of a submitted
    job whether it is still in a queue.
    """

    retries: int
    fail_fast: bool

    def free_slots(self) -> int:
        """Return the number of jobs that may be submitted now."""

    def submit(self, jobs: Sequence[Job]) -> None:
        """Start these jobs or queue them. A job may be submitted again after it has ended."""

    def poll(self, wait: float) -> list[tuple[Job, Outcome]]:
        """Return the jobs that have ended since the last call; waits up to `wait` seconds for the first one."""

    def location(self, job: Job) -> str:
        """Return where a submitted job runs or waits, in a few words: `pid 4711`, `slurm 12_3 pending`."""

    def stop(self) -> None:
        """Ask all running jobs to stop: each writes a checkpoint and ends with code 130. Cancel those that wait."""

    def close(self) -> None:
        """Kill the jobs that still run and release all resources. Called once, also after an error."""


def payload(
    config: Mapping[str, Any],
    choices: Mapping[str, str],
    overrides: Sequence[str],
    id: str,
    kind: str = "run",
    shares_gpu: bool = False,
) -> bytes:
    """Return a run for `run_payload`: its resolved configuration in plain containers, its choices, its overrides and
    its id.

    `kind` is the name of its `RunKind`. `shares_gpu` is whether it is played on a GPU where it
    is in a batch; alone it does as its configuration says.

    It includes the working directory and the module search path, so that relative paths and the user's modules work,
    and the classes of a notebook or a script, which no other process can import or read: their `code` is that of the
    run.
    """
    run: dict[str, Any] = {"config": config, "choices": dict(choices), "overrides": list(overrides), "id": id}
    run["kind"] = kind
    run |= {"shares_gpu": True} if shares_gpu else {}
    if names := [target.removeprefix("__main__.") for _, target in targets(config) if target.startswith("__main__.")]:
        code = own_code(config)  # ValueError where no plug-in knows such classes
        run |= {"classes": next(plugin.pickled for plugin in plugins() if plugin.pickled)(names), "code": code}
    return pickle.dumps(run | {"folder": os.getcwd(), "modules": [os.path.abspath(folder) for folder in sys.path]})


def run_payload(payload: bytes, **more: Any) -> int:
    """Run a payload in this process and return the exit code of `ol2r run`. Never raises.

    `more` are arguments of `run_experiment`.
    """
    try:
        run = _loaded(payload)
        # Imported here to keep the process small that supervises a job of Slurm: it imports this module too.
        from ol2r_cli.run.runner import run_experiment

        # Nothing is printed in the end, since the log of a job that is done is removed.
        more |= {"id": run["id"], "code": run.get("code"), "render": lambda *_: ""}
        more["kind"] = run_kinds()[run["kind"]]
        return run_experiment(run["config"], run["choices"], run["overrides"], **more)
    except KeyboardInterrupt:  # a second request to stop, which does not wait for the end of the round
        return INTERRUPTED
    except BaseException:  # an error in the program is the failure of this job only
        traceback.print_exc()
        return FAILED


def run_payloads(
    payloads: Sequence[bytes], logs: Sequence[str], ended: Callable[[int, int | None], object], make: Make
) -> None:
    """Run the payloads of a batch in this process, each with its output in its log.

    `ended` is called with the place of a payload and its exit code as soon as its run has ended, with None if it must
    be run alone. Never raises; whatever has not ended by then, has not.
    """
    try:
        batches = launching()
        assert batches is not None, "without it there are no batches"
        jobs = []
        for payload, log in zip(payloads, logs, strict=True):
            run = _loaded(payload)
            words = run["config"], run["choices"], run["overrides"], run["id"]
            jobs.append(batches.job(*words, Path(log), run.get("shares_gpu", False)))
        batches.play(jobs, ended, make)
    except BaseException:
        traceback.print_exc()


def _loaded(payload: bytes) -> dict[str, Any]:
    """Return the run of a payload, for which this process has then the working directory, the modules and the
    classes."""
    run: dict[str, Any] = pickle.loads(payload)
    os.chdir(run["folder"])
    sys.path += [folder for folder in run["modules"] if folder not in sys.path]
    for name, cls in pickle.loads(run["classes"]).items() if "classes" in run else ():
        setattr(sys.modules["__main__"], name, cls)
    return run


_END = 8192  # bytes at the end of a log that are read


def reason(job: Job, code: int) -> str:
    """Return why a job ended with this code, in one line; empty for code 0."""
    if code == DONE:
        return ""
    if code == -signal.SIGKILL:
        return "killed (signal 9): by another process, or because memory ran out"
    if code < 0:
        names = {int(number): number.name for number in signal.Signals}
        return f"killed (signal {-code}, {names.get(-code, 'unknown')})"
    if code == INTERRUPTED:
        return "interrupted: what was done is kept"
    output = re.sub(r"^ol2r \w+: ", "", last_line(job.log))
    with suppress(ValueError, OSError):
        manifest = read_manifest(job.directory) or {} if code == FAILED else {}
        if manifest.get("status") == "failed" and manifest.get("error"):
            return str(manifest["error"])
    return output or ("failed without output" if code == FAILED else f"ended with exit code {code}")


def last_line(path: Path) -> str:
    """Return the last line of a file that is not blank, at most 300 characters; of a traceback this is the error."""
    with suppress(OSError), open(path, "rb") as file:
        file.seek(max(0, path.stat().st_size - _END))
        lines = [line.strip() for line in file.read().decode(errors="replace").splitlines() if line.strip()]
        if lines:
            return lines[-1][:300]
    return ""
