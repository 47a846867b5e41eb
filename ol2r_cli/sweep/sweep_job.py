"""One job of a sweep: what was typed, the run that it is, its state before the sweep and how it ended."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any

from ol2r_cli.config.python_settings import command_of
from ol2r_cli.launcher.job import Job, manifest_bytes, payload
from ol2r_cli.run import CHECKPOINT
from ol2r_cli.run.clean import SWEEPS
from ol2r_cli.run.run import Run


class JobState(StrEnum):
    """The state of a job before the sweep."""

    NEW = "new"
    RESUMES = "resumes"
    FINISHED = "finished"
    RUNNING = "running"  # in another process
    BAD = "bad"  # bad configuration or data


class Ending(StrEnum):
    """How a job has ended; members are in the order of the summary."""

    DONE = "done"
    SKIPPED = "skipped"  # its run was finished before
    ELSEWHERE = "running elsewhere"
    FAILED = "failed"
    BAD = "bad"
    STOPPED = "interrupted"
    LEFT = "not started"


@dataclass(eq=False)
class SweepJob:
    """A job from its overrides to its end.

    `words` are its overrides. `options` are the `--config-dir DIR` of all jobs. `settings` and `choices` are empty and
    `directory` is None until the job is checked, and if it is bad. `kind` is its `run_kind`. `reason` says
    why it is bad or has failed. `ending` is None until it has ended. `attempts` is how often the launcher has received
    it, last at the time `submitted`, by `time.monotonic`. `seconds` is its wall-clock time in this sweep.
    """

    number: int
    words: tuple[str, ...]
    name: str = ""
    options: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    choices: Mapping[str, str] = field(default_factory=dict)
    directory: Path | None = None
    kind: str = ""
    reason: str = ""
    ending: Ending | None = None
    attempts: int = 0
    submitted: float = 0.0
    seconds: float = 0.0

    @property
    def command(self) -> str:
        """The command that runs it alone."""
        return command_of([*self.words, *self.options])

    @property
    def succeeded(self) -> bool:
        """Whether its run is finished."""
        return self.ending in (Ending.DONE, Ending.SKIPPED)

    @property
    def output_dir(self) -> Path:
        """The folder of all its runs."""
        return Path(os.path.expanduser(str(self.settings["output_dir"])))

    def run_state(self) -> Run | None:
        """The run that is in its directory now, if there is one."""
        return Run.read(self.directory) if self.directory else None

    def state(self) -> tuple[JobState, int]:
        """Its state, and the round from which its run would resume."""
        if self.ending == Ending.BAD:
            return JobState.BAD, 0
        run = self.run_state()
        if run is not None and run.state == JobState.RUNNING:
            return JobState.RUNNING, run.round
        if run is None or self.settings["force"]:
            return JobState.NEW, 0
        if run.state == JobState.FINISHED:
            return JobState.FINISHED, run.round
        return (JobState.RESUMES, run.round) if (run.path / CHECKPOINT).is_file() else (JobState.NEW, 0)

    @property
    def log(self) -> Path:
        """The file for its output; its folder is below `output_dir` and its name that of the run."""
        assert self.directory is not None
        return self.output_dir / SWEEPS / self.directory.parent.name / f"{self.directory.name}.log"

    @cached_property
    def job(self) -> Job:
        """The job for a launcher, made when it is first submitted."""
        assert self.directory is not None
        id, overrides = self.directory.name.rpartition("-")[2], [*self.words, *self.options]
        content = payload(self.settings, self.choices, overrides, id)
        before = manifest_bytes(self.directory)
        return Job(self.number, content, self.directory.absolute(), self.log.absolute(), before)


def run_kind(choices: Mapping[str, str], settings: Mapping[str, Any], device: str, engine: str) -> str:
    """What runs of similar speed have in common: choices, data apart from fold and seed, replicas and device."""
    data = {name: value for name, value in settings["dataset"].items() if name not in ("fold", "seed")}
    computing = settings["replicas"], settings["device"]["threads"], device, engine
    return json.dumps([choices, data, computing], sort_keys=True, default=str)


def name_sweep_jobs(sweep_jobs: Sequence[SweepJob]) -> None:
    """Name each job by those of its words that not all jobs have, or by all its words if there are none."""
    common: set[str] = set()
    if len(sweep_jobs) > 1:
        common = set.intersection(*(set(sweep_job.words) for sweep_job in sweep_jobs))
    for sweep_job in sweep_jobs:
        distinctive = " ".join(word for word in sweep_job.words if word not in common)
        sweep_job.name = distinctive or " ".join(sweep_job.words) or "ol2r run"
