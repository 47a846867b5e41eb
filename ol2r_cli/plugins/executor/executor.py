"""Runs jobs by any `concurrent.futures.Executor`: of Dask, of Parsl, of MPI, or of one's own."""

from __future__ import annotations

import concurrent.futures
import os
import re
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Future
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from ol2r_cli.config.instantiate import Deferred, import_target
from ol2r_cli.config.ranges import Count, WholeNumber
from ol2r_cli.launcher.job import Job, Outcome, reason, run_status, without_program
from ol2r_cli.plugins.executor.executor_task import STOP, location_file, run_job
from ol2r_cli.run import DONE, FAILED, INTERRUPTED
from ol2r_cli.text.formatting import error_line

_EXTRAS = {"distributed": "dask", "dask": "dask", "dask_jobqueue": "dask", "parsl": "parsl"}  # by package
# The command by which classes of dask-jobqueue and providers of Parsl submit workers.
_COMMANDS = {
    **dict.fromkeys(("PBSCluster", "SGECluster", "PBSProProvider", "TorqueProvider", "GridEngineProvider"), "qsub"),
    **dict.fromkeys(("SLURMCluster", "SlurmProvider"), "sbatch"),
    **dict.fromkeys(("LSFCluster", "LSFProvider"), "bsub"),
    **dict.fromkeys(("HTCondorCluster", "CondorProvider"), "condor_submit"),
    **{"OARCluster": "oarsub", "MoabCluster": "msub"},
}


class Executor:
    """Every job of the sweep is a call of a `concurrent.futures.Executor`, which `executor` names with its arguments.

    It is made, by `hydra.utils.instantiate`, when the first job is submitted, and again after it has broken. A worker
    runs a job in a process of its own, and has ol2r installed. `queued` is how many jobs it has at a time (null: all).
    `threads` is the number of threads of a job. `folder` is for files by which the sweep and its jobs see each other:
    all workers must see it, as well as the folder of the results. `retries` and `fail_fast` are those of `Launcher`; a
    job whose worker is lost has failed.
    """

    def __init__(
        self,
        executor: Deferred,
        queued: Count | None,
        threads: Count,
        folder: str,
        retries: WholeNumber,
        fail_fast: bool,
    ):
        self._settings = executor
        try:
            import_target(str(executor.get("_target_")))
        except ImportError as error:
            raise ValueError(_not_imported("launcher.executor", executor.get("_target_"), error)) from None
        name = f"{time.strftime('%Y%m%d-%H%M%S')}-{uuid4().hex[:6]}"
        self.folder = Path(os.path.expanduser(folder)).absolute() / name
        self.queued, self.threads, self.retries, self.fail_fast = queued, threads, retries, fail_fast
        self._executor: concurrent.futures.Executor | None = None
        self._jobs: dict[Future[tuple[int, str]], Job] = {}
        self._stopping = False
        self._opened = ExitStack()

    def refusal(self) -> str:
        """Return why no job can ever begin: a package, or the command of a cluster, is missing; empty otherwise."""
        return _refusal(self._settings, "launcher.executor")

    def free_slots(self) -> int:
        """Return how many more jobs the executor may have."""
        return (self.queued or sys.maxsize) - len(self._jobs)

    def submit(self, jobs: Sequence[Job]) -> None:
        """Hand the jobs to the executor; ValueError, with its message, if it cannot be made or refuses them."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for job in jobs:
            location_file(self.folder, job).unlink(missing_ok=True)  # of an earlier attempt
            try:
                future = self._submitted(job)
            except Exception as error:
                cause = error.__cause__ or error  # hydra says where it was raised
                raise ValueError(f"launcher.executor must take the jobs, got {error_line(cause)}") from None
            self._jobs[future] = job

    def _submitted(self, job: Job) -> Future[tuple[int, str]]:
        """Return the future of a job; where the executor has broken, that of a new one."""
        if self._executor is None:
            self._opened.enter_context(without_program())
            self._executor = _made(self._settings)
        try:
            return self._executor.submit(run_job, job, self.folder, self.threads)
        except BrokenExecutor:
            self._leave_broken()
            return self._submitted(job)

    def _leave_broken(self) -> None:
        """Shut an executor down that has broken, so that the next job gets another one."""
        if self._executor is not None:
            self._executor.shutdown(wait=False)
        self._executor = None
        self._opened.close()

    def poll(self, wait: float) -> list[tuple[Job, Outcome]]:
        """Return the jobs that have ended; waits up to `wait` seconds for the first one."""
        if not self._jobs:
            return []
        done, _ = concurrent.futures.wait(self._jobs, timeout=wait, return_when=concurrent.futures.FIRST_COMPLETED)
        ended = [(self._jobs.pop(future), future) for future in done]
        return [(job, self._outcome(job, future)) for job, future in ended]

    def _outcome(self, job: Job, future: Future[tuple[int, str]]) -> Outcome:
        """Return how a job has ended, also if its worker was lost."""
        try:
            return Outcome(*future.result())
        except CancelledError:
            return Outcome(INTERRUPTED, reason(job, INTERRUPTED))
        except Exception as error:
            if isinstance(error, BrokenExecutor):
                self._leave_broken()
            if run_status(job) == "finished":  # its worker was lost after the last step of the run
                return Outcome(DONE)
            return Outcome(FAILED, f"its worker was lost: {error_line(error)}")

    def waits(self, job: Job) -> bool:
        """Return whether no worker has begun with a job."""
        return not location_file(self.folder, job).exists()

    def location(self, job: Job) -> str:
        """Return the host and the process of the worker that runs a job."""
        with suppress(OSError):
            return location_file(self.folder, job).read_text()
        return "waiting"

    def stop(self) -> None:
        """Ask the jobs that run to write a checkpoint and end, and cancel those that wait."""
        # First the file: a job that starts now has either said so, and is waited for, or finds the file.
        (self.folder / STOP).touch()
        for future, job in list(self._jobs.items()):
            if not location_file(self.folder, job).exists():
                self._cancel(future, job)

    def _cancel(self, future: Future[tuple[int, str]], job: Job) -> None:
        """Cancel a job that waits. If the executor cannot, as that of Parsl, the job ends as soon as it starts."""
        with suppress(NotImplementedError):
            future.cancel()
        if not future.done():
            del self._jobs[future]
            ended: Future[tuple[int, str]] = Future()
            ended.set_result((INTERRUPTED, reason(job, INTERRUPTED)))
            self._jobs[ended] = job

    def close(self) -> None:
        """Stop all jobs that are left, and the executor."""
        shutil.rmtree(self.folder, ignore_errors=True)  # which stops them
        with suppress(OSError):  # not empty
            self.folder.parent.rmdir()
        if self._executor is not None:
            self._executor.shutdown(wait=not self._jobs)
        self._executor = None
        self._opened.close()
        self._jobs.clear()


def _not_imported(place: str, target: object, error: ImportError) -> str:
    """Return why what settings name cannot be imported, and what to install."""
    extras = [extra for package, extra in _EXTRAS.items() if re.search(rf"\b{package}\b", str(error))]
    hint = f": type pip install 'ol2r[{extras[0]}]'" if extras else ""
    return f"{place}._target_ must be a class or function that can be imported, got {target}: {error}{hint}"


def _refusal(node: Any, place: str) -> str:
    """Return why the classes that settings name, at whatever depth, cannot work here; empty where they can."""
    if not isinstance(node, Mapping):
        return "".join(_refusal(entry, place) for entry in node[:1]) if isinstance(node, list) else ""
    if "_target_" in node:
        target = str(node["_target_"])
        try:
            made = import_target(target)
        except ImportError as error:
            return _not_imported(place, target, error)
        command = _COMMANDS.get(getattr(made, "__name__", ""))
        if command and shutil.which(command) is None:
            return f"{place} is {target}, which needs {command}: type the command on a login node of the cluster"
    return next(filter(None, (_refusal(entry, f"{place}.{name}") for name, entry in node.items())), "")


def _made(settings: Mapping[str, Any]) -> concurrent.futures.Executor:
    """Return the executor that settings name."""
    from hydra.utils import instantiate

    # The programs of an executor, such as those of Parsl, are beside Python, also where the environment is not active.
    folder = os.path.dirname(sys.executable)
    if folder not in os.environ["PATH"].split(os.pathsep):
        os.environ["PATH"] = os.pathsep.join([folder, os.environ["PATH"]])
    made: concurrent.futures.Executor = instantiate(settings, _convert_="all")
    return made
