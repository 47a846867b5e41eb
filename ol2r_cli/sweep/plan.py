"""The jobs of a sweep: what was typed, the run that each is, its state, and how it ended.

They are checked before the first one runs: which are bad and why, and which are the same run.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig

from ol2r_cli.config.composer import Composer, Composition, check_grid
from ol2r_cli.config.instantiate import build
from ol2r_cli.config.python_settings import command_of
from ol2r_cli.formatting import error_line, one_line
from ol2r_cli.launcher.job import Job, manifest_bytes, payload
from ol2r_cli.run import CHECKPOINT
from ol2r_cli.run.clean import SWEEPS
from ol2r_cli.run.experiment import Experiment
from ol2r_cli.run.run import Run
from ol2r_cli.simulation import check_needs

_SHOWN = 10  # reasons that are listed; others are counted
# The settings of the run that decide, together with the roles, whether a simulation can be set up.
_SETUP_SETTINGS = ("device", "positions", "exposure", "beta", "measure", "no_relevant")


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


class BadJobs(ValueError):
    """Some jobs of a sweep have a bad configuration, and nothing has been run.

    The message has a line for each reason with the jobs that have it, and says how to run the other jobs.
    """

    def __init__(self, bad: Sequence[SweepJob], jobs: int):
        self.bad = bad
        lines, good = reason_lines(bad, jobs), jobs - len(bad)
        advice = f"--keep-going runs the other {good}"
        if len(lines) == 1:
            message = f"{lines[0]}; nothing has been run: {advice}" if good else lines[0]
        else:
            heading = f"{len(bad)} of {jobs} jobs cannot be run, and nothing has been run:"
            message = "\n  ".join([heading, *lines, *([advice] if good else [])])
        super().__init__(message)


def reason_lines(bad: Sequence[SweepJob], jobs: int) -> list[str]:
    """A line for each reason why jobs are bad, with the first job that has it; `jobs` is the size of the sweep."""
    by_reason: dict[str, list[SweepJob]] = defaultdict(list)
    for sweep_job in bad:
        by_reason[sweep_job.reason].append(sweep_job)
    lines = []
    for reason, sweep_jobs in list(by_reason.items())[:_SHOWN]:
        more = f" and {len(sweep_jobs) - 1} more" if len(sweep_jobs) > 1 else ""
        which = f" (#{sweep_jobs[0].number} {sweep_jobs[0].name}{more})" if len(sweep_jobs) < jobs else ""
        lines.append(reason + which)
    if len(by_reason) > _SHOWN:
        lines.append(f"and {len(by_reason) - _SHOWN} more such reasons")
    return lines


class Plan:
    """The jobs of a sweep after all checks.

    `jobs` are the overrides of each job. `duplicates` maps the numbers of jobs that are the same run as an earlier job
    to the numbers of the earlier jobs; `sweep_jobs` does not contain duplicates. `progress` is called with the number
    of jobs that have been checked. `check` raises ValueError for an experiment that is bad for other reasons.
    """

    def __init__(
        self,
        jobs: Sequence[Sequence[str]],
        composer: Composer,
        progress: Callable[[int], object] = lambda _: None,
        check: Callable[[Experiment], object] = lambda _: None,
    ):
        options = tuple(composer.options)
        self.sweep_jobs = [SweepJob(number, tuple(words), options=options) for number, words in enumerate(jobs)]
        name_sweep_jobs(self.sweep_jobs)
        by_dataset: dict[str, list[tuple[SweepJob, Composition]]] = defaultdict(list)
        for sweep_job in self.sweep_jobs:
            try:
                composition = composer(sweep_job.words)
            except ValueError as error:
                _refuse(sweep_job, error)
            else:
                by_dataset[_as_json(composition.settings["dataset"])].append((sweep_job, composition))
        checked = len(self.bad)
        with torch.inference_mode():
            for compositions in by_dataset.values():  # one dataset in memory at a time
                of_dataset = _Check(check)
                for sweep_job, composition in compositions:
                    of_dataset(sweep_job, composition)
                    progress(checked := checked + 1)
        self.duplicates = self._remove_duplicates()

    @property
    def good(self) -> list[SweepJob]:
        """The jobs that can be run."""
        return [sweep_job for sweep_job in self.sweep_jobs if sweep_job.ending != Ending.BAD]

    @property
    def bad(self) -> list[SweepJob]:
        """The jobs that cannot be run."""
        return [sweep_job for sweep_job in self.sweep_jobs if sweep_job.ending == Ending.BAD]

    def _remove_duplicates(self) -> dict[int, int]:
        """Remove jobs with the run directory of an earlier job; return their numbers with those of the earlier jobs."""
        duplicates: dict[int, int] = {}
        numbers: dict[Path | None, int] = {}
        for sweep_job in self.good:
            number = numbers.setdefault(sweep_job.directory, sweep_job.number)
            if number != sweep_job.number:
                duplicates[sweep_job.number] = number
        self.sweep_jobs = [sweep_job for sweep_job in self.sweep_jobs if sweep_job.number not in duplicates]
        return duplicates


class _Check:
    """Checks the jobs of one dataset: builds and sets them up without playing a round. Equal parts once."""

    def __init__(self, check: Callable[[Experiment], object]):
        self._check = check
        self._made: dict[str, Any] = {}
        self._setup_errors: dict[str, str] = {}

    def __call__(self, sweep_job: SweepJob, composition: Composition) -> None:
        """Fill in the settings, choices and directory of a job, or the reason why it is bad."""
        settings = composition.settings
        try:
            check_grid(composition, sweep_job.words, "sweep one grid at a time")
            experiment = Experiment(composition.config, composition.choices, partial(self._make, settings))
            self._check(experiment)
            key = _as_json([settings[name] for name in (*experiment.roles, *_SETUP_SETTINGS)])
            if key not in self._setup_errors:
                self._setup_errors[key] = _setup_error(experiment)
            if error := self._setup_errors[key]:
                raise ValueError(error)
        except (ValueError, OSError) as error:
            _refuse(sweep_job, error)
            return
        sweep_job.settings, sweep_job.choices = settings, composition.choices
        sweep_job.directory = experiment.directory.path
        device = experiment.device
        sweep_job.kind = run_kind(experiment.recorded_choices(), settings, device.label, device.engine)

    def _make(self, settings: Any, node: DictConfig) -> Any:
        for part in (name := node._get_full_key(None)).split("."):
            settings = settings[part]
        key = f"{name}: {_as_json(settings)}"
        if key not in self._made:
            made = build(node)
            self._made[key] = _LoadedOnce(made) if name == "dataset" else made
        return self._made[key]


def _setup_error(experiment: Experiment) -> str:
    """Why the roles do not fit each other or the data: they are set up for one round of one replica.

    A ranker that needs the labels is not set up, because it learns from them when it is.
    """
    try:
        check_needs(experiment.roles)
        if not experiment.roles["ranker"].needs_labels:
            experiment.settings["rounds"], experiment.seeds = 1, experiment.seeds[:1]
            experiment.roles = {group: build(experiment.config[group]) for group in experiment.roles}
            experiment.measures = {name: build(node) for name, node in experiment.config.measure.items()}
            experiment.simulation()
    except ValueError as error:
        return str(error)
    except Exception as error:  # of a user's role, or of torch: the other jobs must still be checked
        return error_line(error)
    return ""


class _LoadedOnce:
    """A dataset whose `load` loads it once, and raises the same error every time."""

    def __init__(self, source: Any):
        self._source = source
        self._loaded: Any = None

    def load(self) -> Any:
        if self._loaded is None:
            try:
                self._loaded = self._source.load()
            except (ValueError, OSError) as error:
                self._loaded = error
        if isinstance(self._loaded, Exception):
            raise self._loaded
        return self._loaded


def _refuse(sweep_job: SweepJob, error: Exception) -> None:
    """Mark a job as bad; its reason is the error in one line, for one of the operating system with the file."""
    sweep_job.ending, sweep_job.reason = Ending.BAD, one_line(error)
    if isinstance(error, OSError) and error.filename:
        sweep_job.reason = f"{error.filename}: {error.strerror}"


def _as_json(settings: Any) -> str:
    return json.dumps(settings, sort_keys=True, default=str)


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
