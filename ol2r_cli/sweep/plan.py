"""The jobs of a sweep, checked before the first one runs: which are bad and why, and which are the same run."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig

from ol2r_cli.config.composer import Composer, Composition, check_grid
from ol2r_cli.config.instantiate import build
from ol2r_cli.formatting import error_line, one_line
from ol2r_cli.run.experiment import Experiment
from ol2r_cli.simulation import check_needs
from ol2r_cli.sweep.sweep_job import Ending, SweepJob, name_sweep_jobs, run_kind

_SHOWN = 10  # reasons that are listed; others are counted
# The settings of the run that decide, together with the roles, whether a simulation can be set up.
_SETUP_SETTINGS = ("device", "positions", "exposure", "beta", "measure", "no_relevant")


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
