"""Runs jobs on a Slurm cluster: hands them over in arrays, through submitit, and finds out how they end."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import io
import math
import os
import re
import shutil
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from ol2r_cli.config.ranges import Count, Positive, WholeNumber
from ol2r_cli.formatting import one_line
from ol2r_cli.launcher.job import Job, Outcome, last_line, reason, setting
from ol2r_cli.launcher.slurm_files import ExchangeFolder, is_newer, result_name
from ol2r_cli.launcher.slurm_queue import UNKNOWN, State, cancel, queue, record, send_signal
from ol2r_cli.launcher.slurm_task import STOP, Task
from ol2r_cli.run import MANIFEST
from ol2r_cli.run.exit_status import BAD_CONFIGURATION, DONE, FAILED, INTERRUPTED
from ol2r_cli.run.run import read_manifest

_PAUSE = 0.5  # seconds between two listings of the exchange folder
# Seconds that a result may take to appear on a shared file system after Slurm has said that the job ended.
_SETTLE = {"COMPLETED": 60.0, UNKNOWN: 30.0}
_SETTLE_ELSE = 5.0  # in other states, in which there need not be a result
_RESTARTED = ("PREEMPTED", "NODE_FAIL", "BOOT_FAIL", "TIMEOUT")  # final states for which the job is not to blame
_UNLIMITED = 1 << 20


@dataclass
class _Submitted:
    """A job that Slurm has. ended: since when Slurm says that it has ended without a result, by `time.monotonic`."""

    id: str
    restarts: int  # how often it may still be started again
    state: State = State("PENDING")
    ended: float | None = None


class Slurm:
    """Every job of the sweep is a job of Slurm, in arrays of up to `array` jobs.

    `partition`, `account`, `qos` and `constraint` are options of Slurm; null is the default of the cluster. A job has
    `cpus`, `gpus`, `memory_gb` (null: the default of the cluster) and `minutes`. `notice` seconds before its time limit
    it writes a checkpoint; it is started again up to `requeue` times, as after pre-emption. At most `at_once` jobs run
    and at most `queued` jobs wait or run at a time (null: any number). `setup` are lines of shell before each job,
    `sbatch` further options of sbatch by name. `folder` is for the files of submitit, and all nodes must see it. `poll`
    is the number of seconds between two questions to Slurm. `retries` and `fail_fast` are those of `Launcher`.
    """

    def __init__(
        self,
        partition: str | None,
        account: str | None,
        qos: str | None,
        constraint: str | None,
        minutes: Count,
        memory_gb: Positive | None,
        cpus: Count,
        gpus: WholeNumber,
        array: Count,
        at_once: Count | None,
        queued: Count | None,
        requeue: WholeNumber,
        notice: Count,
        setup: Sequence[str],
        sbatch: Mapping[str, Any],
        folder: str,
        poll: Positive,
        retries: WholeNumber,
        fail_fast: bool,
    ):
        if notice >= 60 * minutes:
            raise ValueError(
                f"{setting('notice')} must be from 1 to {60 * minutes - 1} seconds with "
                f"{setting('minutes')}={minutes}, got {notice}"
            )
        check_submitit()
        self.minutes, self.cpus, self.array, self.at_once, self.queued = minutes, cpus, array, at_once, queued
        self.requeue, self.poll_seconds, self.retries, self.fail_fast = requeue, poll, retries, fail_fast
        name = f"{time.strftime('%Y%m%d-%H%M%S')}-{uuid4().hex[:6]}"
        self.files = ExchangeFolder(Path(os.path.expanduser(folder)).absolute() / name)
        optional: dict[str, Any] = {"partition": partition, "account": account, "qos": qos, "constraint": constraint}
        optional |= {"mem": f"{math.ceil(memory_gb * 1024)}M" if memory_gb else None, "gpus_per_node": gpus or None}
        if len(str(self.files.path).splitlines()) > 1:  # the script of a job is made of lines
            raise ValueError(f"{setting('folder')} must be a path in one line, got {str(self.files.path)!r}")
        self._parameters: dict[str, Any] = {name: value for name, value in optional.items() if value is not None} | {
            "job_name": "ol2r",
            "time": minutes,
            "cpus_per_task": cpus,
            "srun_args": [f"--cpus-per-task={cpus}"],  # since Slurm 22.05 srun ignores the option of sbatch
            "signal_delay_s": notice,
            "setup": list(setup),
            "additional_parameters": {"requeue" if requeue else "no-requeue": True, **sbatch},
        }
        self._jobs: dict[Job, _Submitted] = {}
        self._since = math.nan  # when the first job was submitted, by the clock of the file system
        self._listed = self._asked = -math.inf  # when the folder was listed and Slurm was asked, by `time.monotonic`
        self._stopping = False

    def free_slots(self) -> int:
        """The number of jobs that may be added to Slurm's queue."""
        return (self.queued or _UNLIMITED) - len(self._jobs)

    def submit(self, jobs: Sequence[Job]) -> None:
        """Submit the jobs to Slurm; ValueError, with the message of sbatch, if it refuses them."""
        arrays = [jobs[first : first + self.array] for first in range(0, len(jobs), self.array)]
        for array in arrays:
            self._submit(array, math.ceil((self.at_once or len(jobs)) / len(arrays)), self.requeue)

    def _submit(self, jobs: Sequence[Job], at_once: int, restarts: int) -> None:
        if math.isnan(self._since):
            self._since = self.files.now()
        tasks = [Task(_with_absolute_paths(job), self.cpus, self.minutes, restarts, self._since) for job in jobs]
        for job, id in zip(jobs, hand_over(tasks, self.files.path, self._parameters, at_once), strict=True):
            self._jobs[job] = _Submitted(id, restarts)

    def poll(self, wait: float) -> list[tuple[Job, Outcome]]:
        """The jobs that have left a result, and those that have ended without one; waits up to `wait` seconds."""
        until = time.monotonic() + wait
        while not (ended := self._ended()) and self._jobs and (left := until - time.monotonic()) > 0:
            time.sleep(min(_PAUSE, left))
        return ended

    def _ended(self) -> list[tuple[Job, Outcome]]:
        """The jobs that have ended; none if the folder was listed less than a moment ago."""
        if time.monotonic() - self._listed < _PAUSE:
            return []
        self._listed = time.monotonic()
        names = self.files.names() if self._jobs else set()
        every = min(self.poll_seconds, 1.0) if self._stopping else self.poll_seconds
        if self._jobs and time.monotonic() - self._asked > every:
            self._update_states()
        ended = []
        for job, submitted in list(self._jobs.items()):
            has_result = result_name(submitted.id) in names
            if has_result:
                outcome: Outcome | None = Outcome(*self.files.result(submitted.id))
            else:
                outcome = self._outcome_without_result(job, submitted)
            if outcome is not None:
                del self._jobs[job]
                self.files.remove(submitted.id, errors=has_result or outcome.code in (DONE, INTERRUPTED))
                ended.append((job, outcome))
        return ended

    def _update_states(self) -> None:
        """Ask Slurm for the states of all jobs; without an answer they stay as they are."""
        self._asked = time.monotonic()
        states = queue(submitted.id for submitted in self._jobs.values())
        if states is None:
            return
        for submitted in self._jobs.values():
            submitted.state = states.get(submitted.id, State(UNKNOWN))
            if submitted.state.final or submitted.state.name == UNKNOWN:
                submitted.ended = submitted.ended or time.monotonic()
            else:
                submitted.ended = None
        if self._stopping:  # repeated, because a job that was just starting has not received the last signal
            send_signal(self._arrays(), STOP)

    def _outcome_without_result(self, job: Job, submitted: _Submitted) -> Outcome | None:
        """The outcome of a job that has left no result; None while it may still leave one."""
        if (outcome := never_starts(submitted.state)) is not None:
            cancel([submitted.id])
            return outcome
        settle = 0.0 if self._stopping else _SETTLE.get(submitted.state.name, _SETTLE_ELSE)
        if submitted.ended is None or time.monotonic() - submitted.ended < settle:
            return None
        state = record(submitted.id) or submitted.state
        outcome = slurm_outcome(job, state, self._since, self.files.errors(submitted.id))
        if self._stopping and outcome.code:
            return Outcome(INTERRUPTED, reason(job, INTERRUPTED))
        if state.name in _RESTARTED and submitted.restarts and outcome.code:
            with suppress(ValueError):  # if Slurm refuses the job, this outcome is final
                self._submit([job], 1, submitted.restarts - 1)
                self.files.remove(submitted.id, errors=False)
                return None
        return outcome

    def location(self, job: Job) -> str:
        """The job of Slurm and its state, with the reason while it waits."""
        submitted = self._jobs[job]
        why = f" ({submitted.state.why})" if submitted.state.name == "PENDING" and submitted.state.why else ""
        return f"slurm {submitted.id} {submitted.state.name.lower()}{why}"

    def stop(self) -> None:
        """Cancel the jobs that wait, and ask those that run to write a checkpoint and end."""
        self._stopping, self._asked = True, -math.inf
        cancel(self._arrays(), "PENDING")
        send_signal(self._arrays(), STOP)

    def close(self) -> None:
        """Cancel all jobs that are left."""
        cancel(self._arrays())
        self._jobs.clear()
        self.files.clean_up()

    def _arrays(self) -> list[str]:
        """The arrays, or single jobs, that have not ended. All jobs of an array belong to this sweep."""
        return sorted({submitted.id.partition("_")[0] for submitted in self._jobs.values()})


def _with_absolute_paths(job: Job) -> Job:
    return dataclasses.replace(job, directory=job.directory.absolute(), log=job.log.absolute())


def check_submitit() -> None:
    """ValueError, with the command to type, if submitit is not installed."""
    if not all(map(importlib.util.find_spec, ("submitit", "cloudpickle"))):
        raise ValueError("launcher=slurm needs submitit: type pip install 'ol2r[slurm]'")


def hand_over(tasks: Sequence[Task], folder: Path, parameters: Mapping[str, Any], at_once: int) -> list[str]:
    """Submit an array of jobs and return their ids (`12_0`, `12_1`); ValueError, with the message of sbatch, if it
    refuses them.

    `parameters` are those of submitit's executor; `at_once` is the number of jobs that may run at a time.
    """
    import submitit

    if not all(map(shutil.which, ("sbatch", "srun"))):
        raise ValueError("launcher=slurm needs a machine that has sbatch, a login node: else launcher=processes")
    executor = submitit.SlurmExecutor(folder)
    executor.python += " -P"  # without modules of the working directory
    executor.update_parameters(**parameters, array_parallelism=at_once)
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # submitit prints the message of the error as well
            return [job.job_id for job in executor.submit_array(tasks)]
    except submitit.core.utils.FailedJobError as error:
        raise ValueError(f"launcher=slurm: sbatch must take the jobs, got {_sbatch_message(str(error))}") from None


def _sbatch_message(error: str) -> str:
    """The message of sbatch within the traceback of submitit, in one line."""
    lines = [one_line(line) for line in error.splitlines() if line.strip()]
    messages = [line for line in lines if line.startswith("sbatch: error:")] or lines[-1:]
    return "; ".join(line.removeprefix("sbatch: error: ") for line in messages)


# What to type, by the reason for which a job waits that will never start.
_NEVER = {
    "PartitionTimeLimit": "launcher.minutes must be within the limit of the partition (`sinfo`)",
    "PartitionNodeLimit": "launcher.partition has no node like this",
    "BadConstraints": "launcher.constraint must be one that a node has (`sinfo --format=%f`)",
}
_FAILURES = {  # what to say, by the final state
    "TIMEOUT": "out of time: raise launcher.minutes or launcher.requeue",
    "NODE_FAIL": "its node failed",
    "BOOT_FAIL": "its node did not start",
    "PREEMPTED": "pre-empted: raise launcher.requeue",
    "DEADLINE": "its deadline passed",
}


def never_starts(state: State) -> Outcome | None:
    """The outcome of a job that waits in the queue and will never start; None for any other job."""
    if state.name != "PENDING":
        return None
    if state.why in _NEVER:
        return Outcome(BAD_CONFIGURATION, f"Slurm will not start it ({state.why}): {_NEVER[state.why]}")
    if "requeued" in state.why and "held" in state.why:
        return Outcome(FAILED, f"Slurm could not start it and holds it: {state.why}")
    return None


def slurm_outcome(job: Job, state: State, since: float, errors: Path) -> Outcome:
    """The outcome of a job without a result that is in a final state, or that Slurm does not know any more.

    `since` is when the sweep started, by the clock of the file system; `errors` is the file with what was printed to
    stderr around the run.
    """
    if _finished(job, since):  # its node failed after the last step of the run and before the result was written
        return Outcome(DONE)
    if state.name == UNKNOWN:
        return Outcome(FAILED, f"Slurm does not know it any more, and it left no result{_last_output(job, errors)}")
    if state.name == "CANCELLED":
        return Outcome(-signal.SIGTERM, f"cancelled by {state.user or 'a user'} (scancel)")
    if state.name == "OUT_OF_MEMORY":
        return Outcome(-signal.SIGKILL, "memory ran out: raise launcher.memory_gb")
    if state.name in _FAILURES:
        return Outcome(FAILED, _FAILURES[state.name])
    if state.signal or _srun_says_killed(errors):
        number = state.signal or signal.SIGKILL
        return Outcome(-number, reason(job, -number))
    if state.code == INTERRUPTED:
        return Outcome(-signal.SIGTERM, "ended by the cluster or by a user (SIGTERM): what was done is kept")
    code = "" if state.code is None else f" with exit code {state.code}"
    return Outcome(FAILED, f"ended{code} and left no result{_last_output(job, errors)}")


def _finished(job: Job, since: float) -> bool:
    """Whether the run has finished after `since`."""
    with suppress(ValueError):
        manifest = read_manifest(job.directory) or {}
        return manifest.get("status") == "finished" and is_newer(job.directory / MANIFEST, since)
    return False


def _srun_says_killed(errors: Path) -> bool:
    """Whether srun has printed that the job was killed; its exit code does not distinguish signals from codes."""
    with suppress(OSError):
        return bool(re.search(r"^srun: error: .*: Killed$", errors.read_text(errors="replace"), re.MULTILINE))
    return False


def _last_output(job: Job, errors: Path) -> str:
    """The last line that was printed around the run or by it. Without output, the usual reason is the folder."""
    output = last_line(errors) or last_line(job.log)
    return f": {output}" if output else f": can the nodes see {errors.parent}? (launcher.folder)"
