"""The jobs of a sweep, checked before the first one runs: which are bad and why, and which are the same run."""

from __future__ import annotations

import copy
import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig

from ol2r_cli.config.composer import Composer, Composition, check_grid
from ol2r_cli.config.instantiate import build
from ol2r_cli.formatting import error_line, one_line
from ol2r_cli.run.experiment import Experiment
from ol2r_cli.simulation import check_needs
from ol2r_cli.sweep.sweep_job import SweepJob, name_sweep_jobs, run_kind

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
    of jobs that have been checked.
    """

    def __init__(
        self, jobs: Sequence[Sequence[str]], composer: Composer, progress: Callable[[int], None] = lambda _: None
    ):
        options = tuple(composer.options)
        self.sweep_jobs = [SweepJob(number, tuple(words), options=options) for number, words in enumerate(jobs)]
        name_sweep_jobs(self.sweep_jobs)
        by_dataset: dict[str, list[tuple[SweepJob, Composition]]] = defaultdict(list)
        for sweep_job in self.sweep_jobs:
            try:
                composition = composer(sweep_job.words)
            except ValueError as error:
                sweep_job.bad, sweep_job.reason = True, _message(error)
            else:
                by_dataset[_as_json(composition.settings["dataset"])].append((sweep_job, composition))
        with torch.inference_mode():
            for compositions in by_dataset.values():  # one dataset in memory at a time
                check = _Check()
                for sweep_job, composition in compositions:
                    check(sweep_job, composition)
                    progress(sum(bool(checked.directory or checked.bad) for checked in self.sweep_jobs))
        self.duplicates = self._remove_duplicates()

    @property
    def good(self) -> list[SweepJob]:
        """The jobs that can be run."""
        return [sweep_job for sweep_job in self.sweep_jobs if not sweep_job.bad]

    @property
    def bad(self) -> list[SweepJob]:
        """The jobs that cannot be run."""
        return [sweep_job for sweep_job in self.sweep_jobs if sweep_job.bad]

    def _remove_duplicates(self) -> dict[int, int]:
        """Remove jobs with the same run directory as an earlier job; returns their numbers with those of the earlier
        jobs."""
        duplicates: dict[int, int] = {}
        numbers: dict[Path | None, int] = {}
        for sweep_job in self.good:
            number = numbers.setdefault(sweep_job.directory, sweep_job.number)
            if number != sweep_job.number:
                duplicates[sweep_job.number] = number
        self.sweep_jobs = [sweep_job for sweep_job in self.sweep_jobs if sweep_job.number not in duplicates]
        return duplicates


class _Check:
    """Checks the jobs of one dataset: builds them without playing a round. Equal parts, and the dataset, once."""

    def __init__(self) -> None:
        self._built: dict[str, Any] = {}  # objects or the errors of building them
        self._setup_errors: dict[str, str] = {}
        self._settings: Mapping[str, Any] = {}  # of the job that is checked

    def __call__(self, sweep_job: SweepJob, composition: Composition) -> None:
        """Fill in the settings, choices and directory of a job, or the reason why it is bad."""
        try:
            self._settings = composition.settings
            check_grid(composition, sweep_job.words, "sweep one grid at a time")
            experiment = Experiment(composition.config, composition.choices, self._build)
            if error := self._setup_error(experiment):
                raise ValueError(error)
        except (ValueError, OSError) as error:
            sweep_job.bad, sweep_job.reason = True, _message(error)
            return
        sweep_job.settings, sweep_job.choices = composition.settings, composition.choices
        sweep_job.directory = experiment.directory.path
        device = experiment.device
        sweep_job.kind = run_kind(experiment.recorded_choices(), experiment.settings, device.label, device.engine)

    def _build(self, node: DictConfig) -> Any:
        settings: Any = self._settings
        for part in (name := node._get_full_key(None)).split("."):
            settings = settings[part]
        key = f"{name}: {_as_json(settings)}"
        if key not in self._built:
            built = _result_or_error(lambda: build(node))
            is_dataset = node._key() == "dataset" and not isinstance(built, Exception)
            self._built[key] = _LoadedOnce(built) if is_dataset else built
        if isinstance(self._built[key], Exception):
            raise self._built[key]
        return self._built[key]

    def _setup_error(self, experiment: Experiment) -> str:
        """Why the roles do not fit each other or the data: they are set up for one round. Equal ones are tried once.

        A ranker that needs the labels is not set up, because it learns from them when it is.
        """
        settings, roles = experiment.settings, experiment.roles
        key = _as_json([settings[name] for name in (*roles, *_SETUP_SETTINGS)])
        if key not in self._setup_errors:
            self._setup_errors[key] = ""
            try:
                check_needs(roles)
                if not roles["ranker"].needs_labels:
                    trial = copy.copy(experiment)
                    trial.settings, trial.seeds = {**settings, "rounds": 1}, experiment.seeds[:1]
                    trial.roles = {group: build(experiment.config[group]) for group in roles}
                    trial.measures = {name: build(node) for name, node in experiment.config.measure.items()}
                    trial.simulation()
            except ValueError as error:
                self._setup_errors[key] = str(error)
            except Exception as error:  # of a user's role, or of torch: the other jobs must still be checked
                self._setup_errors[key] = error_line(error)
        return self._setup_errors[key]


class _LoadedOnce:
    """A dataset whose `load` loads it once, and raises the same error every time."""

    def __init__(self, source: Any):
        self._source, self._dataset = source, None

    def load(self) -> Any:
        if self._dataset is None:
            self._dataset = _result_or_error(self._source.load)
        if isinstance(self._dataset, Exception):
            raise self._dataset
        return self._dataset


def _result_or_error(function: Callable[[], Any]) -> Any:
    try:
        return function()
    except (ValueError, OSError) as error:
        return error


def _message(error: Exception) -> str:
    """The message of an error in one line; for an error of the operating system with the file."""
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return one_line(error)


def _as_json(settings: Any) -> str:
    return json.dumps(settings, sort_keys=True, default=str)
