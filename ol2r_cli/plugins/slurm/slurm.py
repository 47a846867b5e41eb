"""Runs jobs on a Slurm cluster: hands them over in arrays, through submitit, and finds out how they end.

Each job that ends by itself leaves the result file of submitit. `squeue` says which jobs have ended without one.
Submitit's own states come from the accounting (`sacct`) alone: on a cluster without it, submitit waits for ever for a
job that was killed, and its states do not say why a job waits that will never start.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import math
import os
import pickle
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict, Unpack
from uuid import uuid4

from ol2r_cli.config.ranges import Count, Positive, WholeNumber
from ol2r_cli.launcher.job import Job, Outcome, last_line, reason, run_status
from ol2r_cli.plugins.slurm.slurm_task import STOP, Task
from ol2r_cli.run import BAD_CONFIGURATION, DONE, FAILED, INTERRUPTED
from ol2r_cli.text.formatting import one_line

_ANSWER, _SENT = 60, 10  # seconds to wait for an answer; scancel retries for minutes on jobs that are ending
_UNLIMITED = 1 << 20
_RESTARTED = ("PREEMPTED", "NODE_FAIL", "BOOT_FAIL", "TIMEOUT")  # final states for which the job is not to blame
_SIGNAL = ("--state=RUNNING", f"--signal={STOP.name}")
_FAILURES = {  # the code and what to say, by the final state
    "CANCELLED": (-signal.SIGTERM, "cancelled by a user (scancel)"),
    "OUT_OF_MEMORY": (-signal.SIGKILL, "memory ran out: raise launcher.memory_gb"),
    "TIMEOUT": (FAILED, "out of time: raise launcher.minutes or launcher.requeue"),
    "NODE_FAIL": (FAILED, "its node failed"),
    "BOOT_FAIL": (FAILED, "its node did not start"),
    "PREEMPTED": (FAILED, "pre-empted: raise launcher.requeue"),
    "DEADLINE": (FAILED, "its deadline passed"),
}
# States in which a job has ended for good. Any other state, including those of future versions, counts as waiting.
_FINAL = frozenset({"COMPLETED", "FAILED", *_FAILURES})
_NEVER = {  # what to type, by the reason for which a job waits that will never start
    "PartitionTimeLimit": "launcher.minutes must be within the limit of the partition (`sinfo`)",
    "PartitionNodeLimit": "launcher.partition has no node like this",
    "BadConstraints": "launcher.constraint must be one that a node has (`sinfo --format=%f`)",
}


@dataclass
class _Submitted:
    """A job that Slurm has.

    job: that of submitit. restarts: how often it may still be started again. state: Slurm's name of its state, UNKNOWN
    if Slurm does not know it any more. why: Slurm's reason for it. ended: since when Slurm says that it has ended
    without a result, by `time.monotonic`.
    """

    job: Any
    restarts: int
    state: str = "PENDING"
    why: str = ""
    ended: float | None = None


class Allocation(TypedDict):
    """What a job asks of the cluster; null is the default of the cluster."""

    partition: str | None
    account: str | None
    qos: str | None
    constraint: str | None
    minutes: Count
    memory_gb: Positive | None
    cpus: Count
    gpus: WholeNumber
    notice: Count  # seconds before its time limit at which it writes a checkpoint
    setup: Sequence[str]  # lines of shell before the job
    sbatch: Mapping[str, Any]  # other options of sbatch, by name


class Slurm:
    """Every job of the sweep is a job of Slurm, in arrays of up to `array` jobs, each with the same allocation.

    At most `at_once` jobs run and at most `queued` jobs wait or run at a time (null: any number). A job is started
    again up to `requeue` times, after its time limit as after pre-emption. `folder` is for the files of submitit, and
    all nodes must see it. `poll` is the number of seconds between two questions to Slurm. `retries` and `fail_fast` are
    those of `Launcher`.
    """

    pause = 0.5  # seconds between two listings of the folder
    # Seconds that a result may take to appear on a shared file system after Slurm has said that the job ended.
    settle: Mapping[str, float] = {"COMPLETED": 60.0, "UNKNOWN": 30.0}
    settle_else = 5.0  # in other states, in which there need not be a result

    def __init__(
        self,
        array: Count,
        at_once: Count | None,
        queued: Count | None,
        requeue: WholeNumber,
        folder: str,
        poll: Positive,
        retries: WholeNumber,
        fail_fast: bool,
        **allocation: Unpack[Allocation],
    ):
        minutes, notice = allocation["minutes"], allocation["notice"]
        if notice >= 60 * minutes:
            raise ValueError(
                f"launcher.notice must be from 1 to {60 * minutes - 1} seconds with "
                f"launcher.minutes={minutes}, got {notice}"
            )
        if importlib.util.find_spec("submitit") is None:
            raise ValueError("launcher=slurm needs submitit: type pip install 'ol2r[slurm]'")
        name = f"{time.strftime('%Y%m%d-%H%M%S')}-{uuid4().hex[:6]}"
        self.folder = Path(os.path.expanduser(folder)).absolute() / name
        if len(str(self.folder).splitlines()) > 1:  # the script of a job is made of lines
            raise ValueError(f"launcher.folder must be a path in one line, got {str(self.folder)!r}")
        self.minutes, self.cpus = minutes, allocation["cpus"]
        self.array, self.at_once, self.queued, self.requeue = array, at_once, queued, requeue
        self.poll_seconds, self.retries, self.fail_fast = poll, retries, fail_fast
        self._parameters = _parameters(allocation, may_start_again=requeue > 0)
        self._jobs: dict[Job, _Submitted] = {}
        self._explained: set[Path] = set()  # files with what was printed around jobs that have left no result
        self._listed = self._asked = -math.inf  # when the folder was listed and Slurm was asked, by `time.monotonic`
        self._stopping = False

    def refusal(self) -> str:
        """Return why no job can ever begin: the commands of Slurm are missing; empty otherwise."""
        has_slurm = all(map(shutil.which, ("sbatch", "srun")))
        return (
            "" if has_slurm else "launcher=slurm needs a machine that has sbatch, a login node: else launcher=processes"
        )

    def free_slots(self) -> int:
        """Return how many more jobs may wait or run."""
        return (self.queued or _UNLIMITED) - len(self._jobs)

    def submit(self, jobs: Sequence[Job]) -> None:
        """Submit the jobs to Slurm; ValueError, with the message of sbatch, if it refuses them."""
        arrays = [jobs[first : first + self.array] for first in range(0, len(jobs), self.array)]
        for array in arrays:
            self._submit(array, math.ceil((self.at_once or len(jobs)) / len(arrays)), self.requeue)

    def _submit(self, jobs: Sequence[Job], at_once: int, restarts: int) -> None:
        import submitit

        if refusal := self.refusal():
            raise ValueError(refusal)
        executor = submitit.SlurmExecutor(self.folder)
        executor.python += " -P"  # without modules of the working directory
        executor.update_parameters(**self._parameters, array_parallelism=at_once)
        try:
            with contextlib.redirect_stderr(io.StringIO()):  # submitit prints the message of the error as well
                submitted = executor.submit_array([Task(job, self.cpus, self.minutes, restarts) for job in jobs])
        except submitit.core.utils.FailedJobError as error:  # a traceback, in which sbatch may have said why
            lines = [one_line(line) for line in str(error).splitlines() if line.strip()]
            messages = [line for line in lines if line.startswith("sbatch: error:")] or lines[-1:]
            text = "; ".join(line.removeprefix("sbatch: error: ") for line in messages)
            raise ValueError(f"launcher=slurm: sbatch must take the jobs, got {text}") from None
        self._jobs |= {job: _Submitted(of_slurm, restarts) for job, of_slurm in zip(jobs, submitted, strict=True)}

    def poll(self, wait: float) -> list[tuple[Job, Outcome]]:
        """Return the jobs that have left a result, and those that have ended without one.

        It waits up to `wait` seconds.
        """
        until = time.monotonic() + wait
        while True:
            ended = self._ended()
            left = until - time.monotonic()
            if ended or not self._jobs or left <= 0:
                return ended
            time.sleep(min(self.pause, left))

    def _ended(self) -> list[tuple[Job, Outcome]]:
        """Return the jobs that have ended; none if the folder was listed less than a moment ago."""
        now = time.monotonic()
        if now - self._listed < self.pause or not self._jobs:
            return []
        self._listed = now
        names = self._file_names()
        if now - self._asked > (min(self.poll_seconds, 1.0) if self._stopping else self.poll_seconds):
            self._ask_slurm(now)
        ended = []
        for job, submitted in list(self._jobs.items()):
            if submitted.job.paths.result_pickle.name in names:
                outcome: Outcome | None = _taken_result(submitted.job.paths)
            else:
                outcome = self._outcome_without_result(job, submitted)
            if outcome is not None:
                del self._jobs[job]
                ended.append((job, outcome))
        return ended

    def _file_names(self) -> set[str]:
        """Return the names of the files of submitit."""
        with suppress(OSError):  # of network file systems, which read a folder again once its time has changed
            os.utime(self.folder)
            return set(os.listdir(self.folder))
        return set()

    def _ask_slurm(self, now: float) -> None:
        """Ask for the states of all jobs; while the sweep stops, signal them again."""
        self._asked = now
        for submitted, state, why in self._states():
            submitted.state, submitted.why = state, why
            if state not in _FINAL and state != "UNKNOWN":
                submitted.ended = None
            elif submitted.ended is None:
                submitted.ended = now
        if self._stopping:  # repeated, because a job that was just starting has not received the last signal
            self._cancel(*_SIGNAL)

    def _states(self) -> Iterator[tuple[_Submitted, str, str]]:
        """Yield each job with the state that squeue says, UNKNOWN if it does not know the job, and Slurm's reason.

        Nothing without an answer, so that jobs stay as they were.
        """
        command = ("squeue", "--noheader", "--array", "--states=all", "--format=%i|%T|%r")
        answer = _output(*command, f"--jobs={','.join(self._arrays())}")
        if answer is None:  # for example if there is a single id and Slurm does not know it any more
            answer = _output(*command, "--me")
        if answer is None:
            return
        rows = (line.split("|") for line in answer.splitlines() if line.count("|") == 2)
        states = {id: (state, "" if why == "None" else why) for id, state, why in rows}
        for submitted in self._jobs.values():
            state, why = states.get(submitted.job.job_id, ("UNKNOWN", ""))
            yield submitted, state, why

    def _outcome_without_result(self, job: Job, submitted: _Submitted) -> Outcome | None:
        """Return the outcome of a job that has left no result, or that Slurm does not know any more.

        None while it may still leave a result, and where it is started again.
        """
        never = _never_starts(submitted)
        if never is not None:
            _output("scancel", "--quiet", submitted.job.job_id, timeout=_SENT)
            return never
        if not self._has_settled(submitted):
            return None
        status = run_status(job)
        if status == "finished":  # its node failed after the last step of the run and before the result was written
            return Outcome(DONE)
        if self._stopping:
            return Outcome(INTERRUPTED, reason(job, INTERRUPTED))
        if self._starts_again(job, submitted):
            return None
        printed = submitted.job.paths.stderr
        self._explained.add(printed)
        return _explained_end(job, submitted.state, status, printed)

    def _has_settled(self, submitted: _Submitted) -> bool:
        """Return whether the job has ended so long ago that it will leave no result any more."""
        if submitted.ended is None:
            return False
        settle = 0.0 if self._stopping else self.settle.get(submitted.state, self.settle_else)
        return time.monotonic() - submitted.ended >= settle

    def _starts_again(self, job: Job, submitted: _Submitted) -> bool:
        """Submit a job once more that is not to blame for its end; return whether Slurm has taken it."""
        if submitted.state not in _RESTARTED or not submitted.restarts:
            return False
        try:
            self._submit([job], 1, submitted.restarts - 1)
        except ValueError:  # Slurm refuses the job, so that this end is final
            return False
        return True

    def waits(self, job: Job) -> bool:
        """Return whether Slurm has not begun with a job."""
        return self._jobs[job].state not in ("RUNNING", "COMPLETING", "UNKNOWN", *_FINAL)

    def location(self, job: Job) -> str:
        """Return the job of Slurm and its state, with the reason while it waits."""
        submitted = self._jobs[job]
        why = f" ({submitted.why})" if submitted.state == "PENDING" and submitted.why else ""
        return f"slurm {submitted.job.job_id} {submitted.state.lower()}{why}"

    def stop(self) -> None:
        """Cancel the jobs that wait, and ask those that run to write a checkpoint and end."""
        self._stopping, self._asked = True, -math.inf
        self._cancel("--state=PENDING")
        self._cancel(*_SIGNAL)

    def close(self) -> None:
        """Cancel all jobs that are left, and remove all files but the stderr of jobs that have left no result."""
        self._cancel()
        self._jobs.clear()
        for path in set(self.folder.glob("*")) - self._explained:
            path.unlink(missing_ok=True)
        with suppress(OSError):  # not empty
            self.folder.rmdir()
            self.folder.parent.rmdir()

    def _arrays(self) -> list[str]:
        """Return the arrays, or single jobs, that have not ended. All jobs of an array belong to this sweep."""
        return sorted({submitted.job.job_id.partition("_")[0] for submitted in self._jobs.values()})

    def _cancel(self, *options: str) -> None:
        """Cancel all jobs, or those that the options of scancel choose, or send these a signal."""
        arrays = self._arrays()
        if arrays:
            _output("scancel", "--quiet", *options, *arrays, timeout=_SENT)


def _parameters(allocation: Allocation, may_start_again: bool) -> dict[str, Any]:
    """Return the parameters of submitit's executor for jobs with this allocation."""
    memory, cpus = allocation["memory_gb"], allocation["cpus"]
    of_slurm = {
        "partition": allocation["partition"],
        "account": allocation["account"],
        "qos": allocation["qos"],
        "constraint": allocation["constraint"],
        "mem": f"{math.ceil(memory * 1024)}M" if memory else None,
        "gpus_per_node": allocation["gpus"] or None,
    }
    return {name: value for name, value in of_slurm.items() if value is not None} | {
        "job_name": "ol2r",
        "time": allocation["minutes"],
        "cpus_per_task": cpus,
        "srun_args": [f"--cpus-per-task={cpus}"],  # since Slurm 22.05 srun ignores the option of sbatch
        "signal_delay_s": allocation["notice"],
        "setup": list(allocation["setup"]),
        "additional_parameters": {"requeue" if may_start_again else "no-requeue": True, **allocation["sbatch"]},
    }


def _taken_result(files: Any) -> Outcome:
    """Return the outcome that a job has left in its files, those of submitit, and remove them."""
    status, content = pickle.loads(files.result_pickle.read_bytes())
    for path in (files.result_pickle, files.submitted_pickle, files.stdout, files.stderr):
        path.unlink(missing_ok=True)  # so that the folder stays small
    if status == "success":
        return Outcome(*content)
    return Outcome(FAILED, f"could not be started on its node: {content.strip().splitlines()[-1]}")


def _never_starts(submitted: _Submitted) -> Outcome | None:
    """Return the outcome of a job that waits and will never start; None for any other."""
    if submitted.state != "PENDING":
        return None
    if submitted.why in _NEVER:
        return Outcome(BAD_CONFIGURATION, f"Slurm will not start it ({submitted.why}): {_NEVER[submitted.why]}")
    if "requeued" in submitted.why and "held" in submitted.why:
        return Outcome(FAILED, f"Slurm could not start it and holds it: {submitted.why}")
    return None


def _explained_end(job: Job, state: str, status: str | None, printed: Path) -> Outcome:
    """Return how a job ended whose final state is `state`.

    `status` is that of its run, and the file `printed` has what was printed around the run.
    """
    if state in _FAILURES:
        return Outcome(*_FAILURES[state])
    text = printed.read_text(errors="replace") if printed.is_file() else ""
    if re.search(r"^srun: error: .*: Killed$", text, re.MULTILINE):
        return Outcome(-signal.SIGKILL, reason(job, -signal.SIGKILL))
    if status == "interrupted":
        return Outcome(-signal.SIGTERM, "ended by the cluster or by a user (SIGTERM): what was done is kept")
    how = "Slurm does not know it any more, and it" if state == "UNKNOWN" else "ended and"
    # What was printed last, around the run or by it. Without output, the usual reason is the folder.
    output = last_line(printed) or last_line(job.log) or f"can the nodes see {printed.parent}? (launcher.folder)"
    return Outcome(FAILED, f"{how} left no result: {output}")


def _output(*command: str, timeout: float = _ANSWER) -> str | None:
    """Return the output of a command of Slurm; None if it fails, does not exist or does not answer in time."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=timeout).stdout
    except (OSError, subprocess.SubprocessError):
        return None
