"""Jobs of a sweep on a Slurm cluster: submitted as arrays through submitit, watched without trusting the accounting."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from ol2r_cli.launcher import slurm_files as files
from ol2r_cli.launcher.job import Job, Outcome
from ol2r_cli.launcher.slurm_ending import hopeless, outcome
from ol2r_cli.launcher.slurm_queue import UNKNOWN, State, cancel, queue, record, signal
from ol2r_cli.launcher.slurm_submission import check_submitit, hand_over
from ol2r_cli.launcher.slurm_task import INTERRUPTED, STOP, Task

_PAUSE = 0.5  # seconds between two looks into the folder
_SETTLE = {"COMPLETED": 60.0, UNKNOWN: 30.0}  # seconds that a result may take to come through a shared file system,
_SETTLE_ELSE = 5.0  # where there need not be one
_AGAIN = ("PREEMPTED", "NODE_FAIL", "BOOT_FAIL", "TIMEOUT")  # ends that are not the job's fault
_MANY = 1 << 20


@dataclass
class _Submitted:
    """A job that Slurm has. ended: since when it is known to have ended without a result, by `time.monotonic`."""

    id: str
    again: int  # how often it may still be started again
    state: State = State("PENDING")
    ended: float | None = None


class Slurm:
    """Every job of the sweep is a job of Slurm, in arrays of up to `array`.

    `partition`, `account`, `qos` and `constraint` are Slurm's, null for the cluster's own. A job has `cpus`, `gpus`,
    `memory_gb` (null: the cluster's own) and `minutes`; `notice` seconds before these are over it writes a checkpoint,
    and it is started again up to `requeue` times, as after pre-emption. `at_once` jobs run and `queued` jobs wait or
    run at a time (null: any number). `setup` are lines of shell before each job, `sbatch` further options of sbatch by
    name. `folder` is for the files of submitit and must be seen by all nodes. `poll` are the seconds
    between two questions to Slurm. `retries` and `fail_fast` are for who drives the sweep.
    """

    def __init__(
        self,
        partition: str | None,
        account: str | None,
        qos: str | None,
        constraint: str | None,
        minutes: int,
        memory_gb: float | None,
        cpus: int,
        gpus: int,
        array: int,
        at_once: int | None,
        queued: int | None,
        requeue: int,
        notice: int,
        setup: Sequence[str],
        sbatch: Mapping[str, Any],
        folder: str,
        poll: float,
        retries: int,
        fail_fast: bool,
    ):
        _at_least(1, minutes=minutes, cpus=cpus, array=array, at_once=at_once, queued=queued)
        _at_least(0, gpus=gpus, requeue=requeue, retries=retries)
        for name, value in ("memory_gb", memory_gb), ("poll", poll):
            if value is not None and not value > 0:
                raise ValueError(f"launcher.{name} must be above 0, got {value!r}")
        if not 0 < notice < 60 * minutes:
            raise ValueError(
                f"launcher.notice must be 1 .. {60 * minutes - 1} seconds with these minutes, got {notice}"
            )
        check_submitit()
        self.minutes, self.cpus, self.array, self.at_once, self.queued = minutes, cpus, array, at_once, queued
        self.requeue, self.poll, self.retries, self.fail_fast = requeue, poll, retries, fail_fast
        self.folder = Path(folder).expanduser().absolute() / f"{time.strftime('%Y%m%d-%H%M%S')}-{uuid4().hex[:6]}"
        wanted: dict[str, Any] = {"partition": partition, "account": account, "qos": qos, "constraint": constraint}
        wanted |= {"mem": f"{math.ceil(memory_gb * 1024)}M" if memory_gb else None, "gpus_per_node": gpus or None}
        self._parameters: dict[str, Any] = {name: value for name, value in wanted.items() if value is not None} | {
            "job_name": "ol2r",
            "time": minutes,
            "cpus_per_task": cpus,
            "srun_args": [f"--cpus-per-task={cpus}"],  # since Slurm 22.05 srun does not take it from sbatch
            "signal_delay_s": notice,
            "setup": list(setup),
            "additional_parameters": {"requeue" if requeue else "no-requeue": True, **sbatch},
        }
        self._jobs: dict[Job, _Submitted] = {}
        self._since = math.nan  # when the first job was submitted, by the clock of the file system
        self._looked = self._asked = -math.inf  # the last time, by `time.monotonic`
        self._stopping = False

    def room(self) -> int:
        """How many more jobs may be in Slurm's queue."""
        return (self.queued or _MANY) - len(self._jobs)

    def submit(self, jobs: Sequence[Job]) -> None:
        """Hand the jobs to Slurm; ValueError, with what sbatch says, where it does not take them."""
        arrays = [jobs[first : first + self.array] for first in range(0, len(jobs), self.array)]
        for array in arrays:
            self._submit(array, math.ceil((self.at_once or len(jobs)) / len(arrays)), self.requeue)

    def _submit(self, jobs: Sequence[Job], at_once: int, again: int) -> None:
        if math.isnan(self._since):
            self._since = files.now(self.folder)
        tasks = [Task(files.rooted(job), self.cpus, self.minutes, again, self._since) for job in jobs]
        for job, id in zip(jobs, hand_over(tasks, self.folder, self._parameters, at_once), strict=True):
            self._jobs[job] = _Submitted(id, again)

    def ended(self, wait: float) -> list[tuple[Job, Outcome]]:
        """The jobs that have left a result, or of which Slurm says that they are over."""
        until = time.monotonic() + wait
        while not (found := self._look()) and self._jobs and (left := until - time.monotonic()) > 0:
            time.sleep(min(_PAUSE, left))
        return found

    def _look(self) -> list[tuple[Job, Outcome]]:
        if time.monotonic() - self._looked < _PAUSE:
            return []
        self._looked = time.monotonic()
        there = files.names(self.folder) if self._jobs else set()
        if self._jobs and time.monotonic() - self._asked > (min(self.poll, 1.0) if self._stopping else self.poll):
            self._ask()
        found = []
        for job, one in list(self._jobs.items()):
            told = files.result(one.id) in there
            end = Outcome(*files.read_result(self.folder, one.id)) if told else self._end(job, one)
            if end is not None:
                del self._jobs[job]
                files.remove(self.folder, one.id, errors=told or end.code in (0, INTERRUPTED))
                found.append((job, end))
        return found

    def _ask(self) -> None:
        """Bring the states up to date; without an answer they stay as they are."""
        self._asked = time.monotonic()
        states = queue(one.id for one in self._jobs.values())
        if states is None:
            return
        for one in self._jobs.values():
            one.state = states.get(one.id, State(UNKNOWN))
            if one.state.final or one.state.name == UNKNOWN:
                one.ended = one.ended or time.monotonic()
            else:
                one.ended = None
        if self._stopping:  # again: a job may have been starting, and heard nothing, the last time
            signal(self._arrays(), STOP)

    def _end(self, job: Job, one: _Submitted) -> Outcome | None:
        """The outcome of a job without a result, None while it may still leave one."""
        if (end := hopeless(one.state)) is not None:
            cancel([one.id])
            return end
        settle = 0.0 if self._stopping else _SETTLE.get(one.state.name, _SETTLE_ELSE)
        if one.ended is None or time.monotonic() - one.ended < settle:
            return None
        state = record(one.id) or one.state
        end = outcome(job, state, self._since, files.errors(self.folder, one.id))
        if self._stopping and end.code:
            return Outcome(INTERRUPTED, "interrupted: what was done is kept")
        if state.name in _AGAIN and one.again and end.code:
            with suppress(ValueError):  # when Slurm takes no more, this is the end
                self._submit([job], 1, one.again - 1)
                files.remove(self.folder, one.id, errors=False)
                return None
        return end

    def place(self, job: Job) -> str:
        """The job of Slurm and its state, with the reason while it waits."""
        one = self._jobs[job]
        why = f" ({one.state.why})" if one.state.name == "PENDING" and one.state.why else ""
        return f"slurm {one.id} {one.state.name.lower()}{why}"

    def stop(self) -> None:
        """Take back what waits, and have what runs write its checkpoint."""
        self._stopping, self._asked = True, -math.inf
        cancel(self._arrays(), "PENDING")
        signal(self._arrays(), STOP)

    def close(self) -> None:
        """Cancel what is left."""
        cancel(self._arrays())
        self._jobs.clear()
        files.tidy(self.folder)

    def _arrays(self) -> list[str]:
        """The arrays, or single jobs, of which something is left; all of an array are ours."""
        return sorted({one.id.partition("_")[0] for one in self._jobs.values()})


def _at_least(least: int, **settings: int | None) -> None:
    for name, value in settings.items():
        if value is not None and value < least:
            raise ValueError(f"launcher.{name} must be {least} or more, got {value!r}")
