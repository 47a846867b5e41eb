"""Runs jobs on a Slurm cluster: hands them over in arrays, through submitit, and finds out how they end.

Each job that ends by itself leaves the result file of submitit. `squeue` says which jobs have ended without one. The
accounting (`sacct`) is not asked: some clusters have none, and others lose records.
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
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any
from uuid import uuid4

from ol2r_cli.config.ranges import Count, Positive, WholeNumber
from ol2r_cli.formatting import one_line
from ol2r_cli.launcher.job import THREAD_VARIABLES, Job, Outcome, last_line, reason
from ol2r_cli.run import BAD_CONFIGURATION, DONE, FAILED, INTERRUPTED
from ol2r_cli.run.run import read_manifest

STOP = signal.SIGUSR1  # from the sweep: stop for good
LIMIT = signal.SIGUSR2  # from Slurm, some time before the time limit; submitit configures this signal
END = signal.SIGTERM  # from Slurm: pre-empted, requeued or cancelled
_RUN = "import sys; from ol2r_cli.launcher.job import run_payload; sys.exit(run_payload(sys.stdin.buffer.read()))"
_PAUSE = 0.5  # seconds between two listings of the folder
_ANSWER, _SENT = 60, 10  # seconds to wait for an answer; scancel retries for minutes on jobs that are ending
# Seconds that a result may take to appear on a shared file system after Slurm has said that the job ended.
_SETTLE = {"COMPLETED": 60.0, "UNKNOWN": 30.0}
_SETTLE_ELSE = 5.0  # in other states, in which there need not be a result
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
                f"launcher.notice must be from 1 to {60 * minutes - 1} seconds with "
                f"launcher.minutes={minutes}, got {notice}"
            )
        if importlib.util.find_spec("submitit") is None:
            raise ValueError("launcher=slurm needs submitit: type pip install 'ol2r[slurm]'")
        self.minutes, self.cpus, self.array, self.at_once, self.queued = minutes, cpus, array, at_once, queued
        self.requeue, self.poll_seconds, self.retries, self.fail_fast = requeue, poll, retries, fail_fast
        name = f"{time.strftime('%Y%m%d-%H%M%S')}-{uuid4().hex[:6]}"
        self.folder = Path(os.path.expanduser(folder)).absolute() / name
        if len(str(self.folder).splitlines()) > 1:  # the script of a job is made of lines
            raise ValueError(f"launcher.folder must be a path in one line, got {str(self.folder)!r}")
        optional: dict[str, Any] = {"partition": partition, "account": account, "qos": qos, "constraint": constraint}
        optional |= {"mem": f"{math.ceil(memory_gb * 1024)}M" if memory_gb else None, "gpus_per_node": gpus or None}
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
        self._explained: set[Path] = set()  # files with what was printed around jobs that have left no result
        self._listed = self._asked = -math.inf  # when the folder was listed and Slurm was asked, by `time.monotonic`
        self._stopping = False

    def free_slots(self) -> int:
        return (self.queued or _UNLIMITED) - len(self._jobs)

    def submit(self, jobs: Sequence[Job]) -> None:
        """Submit the jobs to Slurm; ValueError, with the message of sbatch, if it refuses them."""
        arrays = [jobs[first : first + self.array] for first in range(0, len(jobs), self.array)]
        for array in arrays:
            self._submit(array, math.ceil((self.at_once or len(jobs)) / len(arrays)), self.requeue)

    def _submit(self, jobs: Sequence[Job], at_once: int, restarts: int) -> None:
        import submitit

        if not all(map(shutil.which, ("sbatch", "srun"))):
            raise ValueError("launcher=slurm needs a machine that has sbatch, a login node: else launcher=processes")
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
        """The jobs that have left a result, and those that have ended without one; waits up to `wait` seconds."""
        until = time.monotonic() + wait
        while not (ended := self._ended()) and self._jobs and (left := until - time.monotonic()) > 0:
            time.sleep(min(_PAUSE, left))
        return ended

    def _ended(self) -> list[tuple[Job, Outcome]]:
        """The jobs that have ended; none if the folder was listed less than a moment ago."""
        now = time.monotonic()
        if now - self._listed < _PAUSE or not self._jobs:
            return []
        self._listed, names = now, set[str]()
        with suppress(OSError):  # of network file systems, which read a folder again once its time has changed
            os.utime(self.folder)
            names = set(os.listdir(self.folder))
        if now - self._asked > (min(self.poll_seconds, 1.0) if self._stopping else self.poll_seconds):
            self._asked = now
            for submitted, state, why in self._states():
                submitted.state, submitted.why = state, why
                submitted.ended = (submitted.ended or now) if state in _FINAL or state == "UNKNOWN" else None
            if self._stopping:  # repeated, because a job that was just starting has not received the last signal
                self._cancel(*_SIGNAL)
        ended = []
        for job, submitted in list(self._jobs.items()):
            files = submitted.job.paths
            if files.result_pickle.name in names:
                status, content = pickle.loads(files.result_pickle.read_bytes())
                outcome: Outcome | None = Outcome(*content) if status == "success" else None
                if outcome is None:
                    error = content.strip().splitlines()[-1]
                    outcome = Outcome(FAILED, f"could not be started on its node: {error}")
                for path in (files.result_pickle, files.submitted_pickle, files.stdout, files.stderr):
                    path.unlink(missing_ok=True)  # so that the folder stays small
            else:
                outcome = self._outcome_without_result(job, submitted)
            if outcome is not None:
                del self._jobs[job]
                ended.append((job, outcome))
        return ended

    def _states(self) -> list[tuple[_Submitted, str, str]]:
        """Each job with the state that squeue says, UNKNOWN if it does not know the job, and Slurm's reason for it.

        Empty without an answer, so that jobs stay as they were.
        """
        command = ("squeue", "--noheader", "--array", "--states=all", "--format=%i|%T|%r")
        answer = _output(*command, f"--jobs={','.join(self._arrays())}")
        if answer is None:  # for example if there is a single id and Slurm does not know it any more
            answer = _output(*command, "--me")
        if answer is None:
            return []
        rows = (line.split("|") for line in answer.splitlines() if line.count("|") == 2)
        states = {id: (state, "" if why == "None" else why) for id, state, why in rows}
        return [(each, *states.get(each.job.job_id, ("UNKNOWN", ""))) for each in self._jobs.values()]

    def _outcome_without_result(self, job: Job, submitted: _Submitted) -> Outcome | None:
        """The outcome of a job that has left no result, or that Slurm does not know any more.

        None while it may still leave a result, and where it is started again.
        """
        state, why, errors = submitted.state, submitted.why, submitted.job.paths.stderr
        if state == "PENDING" and (why in _NEVER or ("requeued" in why and "held" in why)):
            _output("scancel", "--quiet", submitted.job.job_id, timeout=_SENT)
            if why in _NEVER:
                return Outcome(BAD_CONFIGURATION, f"Slurm will not start it ({why}): {_NEVER[why]}")
            return Outcome(FAILED, f"Slurm could not start it and holds it: {why}")
        settle = 0.0 if self._stopping else _SETTLE.get(state, _SETTLE_ELSE)
        if submitted.ended is None or time.monotonic() - submitted.ended < settle:
            return None
        status = None
        with suppress(ValueError):
            status = (read_manifest(job.directory) or {}).get("status") if job.has_begun() else None
        if status == "finished":  # its node failed after the last step of the run and before the result was written
            return Outcome(DONE)
        if self._stopping:
            return Outcome(INTERRUPTED, reason(job, INTERRUPTED))
        if state in _RESTARTED and submitted.restarts:
            with suppress(ValueError):  # if Slurm refuses the job, this end is final
                self._submit([job], 1, submitted.restarts - 1)
                return None
        self._explained.add(errors)
        printed = errors.read_text(errors="replace") if errors.is_file() else ""
        # What was printed last, around the run or by it. Without output, the usual reason is the folder.
        output = last_line(errors) or last_line(job.log) or f"can the nodes see {errors.parent}? (launcher.folder)"
        if state in _FAILURES:
            return Outcome(*_FAILURES[state])
        if re.search(r"^srun: error: .*: Killed$", printed, re.MULTILINE):
            return Outcome(-signal.SIGKILL, reason(job, -signal.SIGKILL))
        if status == "interrupted":
            return Outcome(-signal.SIGTERM, "ended by the cluster or by a user (SIGTERM): what was done is kept")
        how = "Slurm does not know it any more, and it" if state == "UNKNOWN" else "ended and"
        return Outcome(FAILED, f"{how} left no result: {output}")

    def location(self, job: Job) -> str:
        """The job of Slurm and its state, with the reason while it waits."""
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
        """The arrays, or single jobs, that have not ended. All jobs of an array belong to this sweep."""
        return sorted({submitted.job.job_id.partition("_")[0] for submitted in self._jobs.values()})

    def _cancel(self, *options: str) -> None:
        """Cancel all jobs, or those that the options of scancel choose, or send these a signal."""
        if arrays := self._arrays():
            _output("scancel", "--quiet", *options, *arrays, timeout=_SENT)


class Task:
    """A job as submitit calls it on the node; it is pickled on the way. It runs the payload in a process of its own.

    cpus: the number of threads of libraries. minutes: the time limit of the job. requeue: how often Slurm may start it
    again.
    """

    def __init__(self, job: Job, cpus: int, minutes: int, requeue: int):
        self.job, self.cpus, self.minutes, self.requeue = job, cpus, minutes, requeue
        self.received: list[int] = []  # signals

    def __call__(self) -> tuple[int, str]:
        """The code and the reason of the outcome.

        SystemExit, which leaves no result, if the job was requeued or ended by Slurm: only Slurm knows what comes next.
        """
        code = self._run()
        if self.received and code == -signal.SIGINT:  # interrupted before it could handle the signal
            code = INTERRUPTED
        if code == INTERRUPTED and LIMIT in self.received[:1]:
            array, index = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
            id = f"{array}_{index}" if array else os.environ["SLURM_JOB_ID"]
            may_start = int(os.environ.get("SLURM_RESTART_COUNT", 0)) < self.requeue
            if may_start and subprocess.run(["scontrol", "requeue", id]).returncode == 0:
                raise SystemExit(INTERRUPTED)
            return FAILED, f"out of time: raise launcher.minutes (now {self.minutes}) or launcher.requeue"
        if code == INTERRUPTED and END in self.received[:1]:
            raise SystemExit(INTERRUPTED)
        return code, reason(self.job, code)

    def _run(self) -> int:
        """Run the payload in a process of its own; returns its exit code, or minus the signal that killed it."""
        self.job.log.parent.mkdir(parents=True, exist_ok=True)
        # The new process would inherit that SIGINT is ignored, as after `nohup` or `&`.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.pthread_sigmask(signal.SIG_BLOCK, (STOP, LIMIT, END))  # in the new process they stay blocked
        with open(self.job.log, "ab") as log:
            command = [sys.executable, "-P", "-c", _RUN]  # -P: without modules of the working directory
            threads = dict.fromkeys(THREAD_VARIABLES, str(self.cpus))
            environment = {**os.environ, **threads, "PYTHONUNBUFFERED": "1"}  # prints are in the log at once
            run = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment)

        def pass_on(number: int, _: FrameType | None) -> None:
            self.received.append(number)
            if len(self.received) == 1:
                run.send_signal(signal.SIGINT)

        for number in (STOP, LIMIT, END):
            signal.signal(number, pass_on)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (STOP, LIMIT, END))
        run.communicate(self.job.payload_now())  # of a job that was requeued, the run has begun
        return run.returncode


def _output(*command: str, timeout: float = _ANSWER) -> str | None:
    """The output of a command of Slurm; None if it fails, does not exist or does not answer in time."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=timeout).stdout
    except (OSError, subprocess.SubprocessError):
        return None
