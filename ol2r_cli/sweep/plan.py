"""The jobs of a sweep: what was typed, the run that each is, its state, and how it ended.

They are checked before the first one runs: which are bad and why, and which are the same run.
"""

from __future__ import annotations

import itertools
import json
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache, cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TextIO

import torch

from ol2r_cli.config.composer import Composer, Composition, check_grid
from ol2r_cli.config.instantiate import build
from ol2r_cli.config.overrides import command_of, split_launcher
from ol2r_cli.device import BreakEven, Device, has_gpu
from ol2r_cli.files import is_held
from ol2r_cli.launcher.job import Job, Launcher, manifest_bytes, payload
from ol2r_cli.plugins import RunKind, launching
from ol2r_cli.run import CHECKPOINT, LOCK, SWEEPS
from ol2r_cli.run.experiment import Experiment
from ol2r_cli.run.identity import HASHED_ALWAYS
from ol2r_cli.run.kind import KIND
from ol2r_cli.run.own_code import explained, is_own
from ol2r_cli.run.run import Run
from ol2r_cli.text.formatting import one_line, plural

_SHARED = 8  # kinds of jobs that are loaded and compiled one after the other, before the first job
_SHOWN = 10  # reasons that are listed; others are counted
# The settings of the run that decide, together with the roles, whether a simulation can be set up; with a start, which
# is of seeds, also those of _OF_START.
_SETUP_SETTINGS = (
    *("device", "positions", "exposure", "beta", "measure", "no_relevant"),
    *("evaluate_on", "update_every", "delay"),
)
_OF_START = ("start", "seed", "replicas")


class Ending(StrEnum):
    """How a job has ended; members are in the order of the summary."""

    DONE = "done"
    SKIPPED = "skipped"  # its run was finished before
    ELSEWHERE = "running elsewhere"  # only where the sweep was stopped: it waits for such a run
    FAILED = "failed"
    BAD = "bad"  # bad configuration or data
    STOPPED = "interrupted"
    LEFT = "not started"


@dataclass(eq=False)
class SweepJob:
    """A job from its overrides to its end.

    `words` are its overrides. `options` are the `--config-dir DIR` of all jobs. `settings` and `choices` are empty and
    `directory` is None until the job is checked, and if it is bad. `reason` says why it is bad or has failed. `ending`
    is None until it has ended. `attempts` is how often the launcher has received it, last at the time `submitted`, by
    `time.monotonic`, in a batch of so many jobs as `batch` says. `alone` is whether it must be in none any more.
    `seconds` is its wall-clock time in this sweep. `break_even` is from where on a GPU is faster than a core; None:
    there is no GPU, it plays single rounds, or that was not measured. `shares_gpu` is whether its batch is played on a
    GPU.
    """

    number: int
    words: tuple[str, ...]
    name: str = ""
    options: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    choices: Mapping[str, str] = field(default_factory=dict)
    directory: Path | None = None
    reason: str = ""
    ending: Ending | None = None
    attempts: int = 0
    submitted: float = 0.0
    batch: int = 1
    alone: bool = False
    seconds: float = 0.0
    run_kind: RunKind = KIND
    needs_gpu: bool = False  # that of its experiment
    break_even: BreakEven | None = None
    shares_gpu: bool = False

    @property
    def command(self) -> str:
        return command_of([*self.words, *self.options], self.run_kind.name)

    @property
    def data(self) -> Mapping[str, Any]:
        """Return the settings of its data."""
        return self.settings[self.run_kind.data]

    @property
    def rounds(self) -> int:
        """Return the number of its rounds; 1 for a run without rounds."""
        return int(self.settings.get("rounds", 1))

    @property
    def succeeded(self) -> bool:
        return self.ending in (Ending.DONE, Ending.SKIPPED)

    @property
    def plays_together(self) -> bool:
        """Return whether one launch plays many of its rounds, as far as its experiment says."""
        return self.break_even is not None

    @cached_property
    def workload(self) -> str:
        """Return what jobs of similar speed share: choices, data apart from fold and seed, replicas and device."""
        data = {name: value for name, value in self.data.items() if name not in ("fold", "seed")}
        return _as_json([self.choices, data, self.settings.get("replicas"), self.settings["device"]])

    @cached_property
    def form(self) -> str | None:
        """Return what it has in common with the jobs that it can be played together with; None: it is played alone."""
        batches = launching() if self.run_kind.plays_rounds else None
        return batches.form(self.settings, self.choices) if batches else None

    def run_state(self) -> Run | None:
        """Return the run that is in its directory now, if there is one."""
        return Run.read(self.directory) if self.directory else None

    def state(self) -> tuple[str, int]:
        """Return its state and the round of its run, from which it resumes.

        The state is that before the sweep: `new`, `resumes`, `finished`, `running` (in another process) or `bad`.
        """
        if self.ending == Ending.BAD:
            return "bad", 0
        run = self.run_state()
        if run is not None and run.state == "finished" and not self.settings["force"]:
            return "finished", run.round
        begun = self.directory and is_held(self.directory / LOCK)  # also before its manifest says so
        if begun or (run is not None and run.state == "running"):
            return "running", run.round if run is not None else 0
        if run is None or self.settings["force"]:
            return "new", 0
        return ("resumes", run.kept) if (run.path / CHECKPOINT).is_file() else ("new", 0)

    @property
    def log(self) -> Path:
        """Return the file for its output; its folder is below `output_dir` and its name that of the run."""
        assert self.directory is not None
        root, dataset, name = self.directory.parents[1], self.directory.parent.name, self.directory.name
        return root / SWEEPS / dataset / f"{name}.log"

    @cached_property
    def job(self) -> Job:
        """Return the job for a launcher, made when it is first submitted."""
        assert self.directory is not None
        id, overrides = self.directory.name.rpartition("-")[2], [*self.words, *self.options]
        content = payload(self.settings, self.choices, overrides, id, self.run_kind.name, self.shares_gpu)
        before = manifest_bytes(self.directory)
        return Job(self.number, content, self.directory.absolute(), self.log.absolute(), before)


def can_share(one: SweepJob, other: SweepJob) -> bool:
    """Return whether one process can play two jobs together (`Launching.form`)."""
    both_first = not (one.alone or other.alone or one.attempts or other.attempts)
    return both_first and one.form is not None and one.form == other.form


def _may_share_gpu(sweep_job: SweepJob) -> bool:
    """Return whether a job can be played in a batch on a GPU, where `device=auto` does not take one for it alone."""
    is_auto = sweep_job.settings["device"].get("name") == "auto" and not sweep_job.needs_gpu
    return is_auto and sweep_job.plays_together and sweep_job.form is not None


def _gpu_is_faster(sweep_jobs: Sequence[SweepJob], batch: int | str, cores: int) -> bool:
    """Return whether a GPU plays jobs that can share a process faster than so many cores."""
    first, at_once = sweep_jobs[0], len(sweep_jobs) if batch == "auto" else min(int(batch), len(sweep_jobs))
    assert first.break_even is not None
    launches = len({_as_json(sweep_job.data) for sweep_job in sweep_jobs})
    replicas = at_once * first.settings["replicas"]
    of_gpu = launching()
    return of_gpu is not None and of_gpu.gpu_is_faster(first.break_even, replicas, first.rounds, launches, cores)


def reason_lines(bad: Sequence[SweepJob], jobs: int) -> list[str]:
    """Return a line for each reason why jobs are bad, with the first job that has it, of a sweep of so many `jobs`."""
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


def settings_to_pair(sweep_jobs: Sequence[SweepJob]) -> tuple[str, ...]:
    """Return two settings or groups whose values may be meant to go together; empty where there are none.

    They have equally many values, and all jobs with the first values of both, the second values, .. are good.
    """
    words = [dict(word.partition("=")[::2] for word in sweep_job.words) for sweep_job in sweep_jobs]
    values = {name: list(dict.fromkeys(job.get(name) for job in words)) for name in words[0]}
    for pair in itertools.combinations([name for name in values if len(values[name]) > 1], 2):
        first, second = (values[name] for name in pair)
        paired = set(zip(first, second, strict=False))
        endings = [
            sweep_job.ending
            for sweep_job, job in zip(sweep_jobs, words, strict=True)
            if (job.get(pair[0]), job.get(pair[1])) in paired
        ]
        if len(first) == len(second) and Ending.BAD not in endings:
            return pair
    return ()


class Plan:
    """The jobs of a sweep after all checks. Nothing is written or started.

    `jobs` are the overrides of each job. A job is named by those that are not `shared` and that not all jobs have.
    `launcher` is where they say that jobs run, None if no job is good. `duplicates` maps the numbers
    of jobs that are the same run as an earlier job to the numbers of the earlier jobs; `sweep_jobs` does not contain
    duplicates. `terminal` is where to say how many jobs are checked. `check` raises ValueError for an experiment that
    is bad for other reasons; `kind` is that of all runs. ValueError if the settings of the launcher are bad, or not the
    same for all jobs.
    """

    silent = 10.0  # seconds of checking between two lines that say how many jobs are checked: a large dataset is parsed

    def __init__(
        self,
        jobs: Sequence[Sequence[str]],
        composer: Composer,
        terminal: TextIO | None = None,
        check: Callable[[Experiment], object] = lambda _: None,
        kind: RunKind = KIND,
        shared: Collection[str] = (),
    ):
        self._composer, self._check, self._kind, self._shared = composer, check, kind, shared
        split = [split_launcher(job) for job in jobs]
        if any(set(launcher) != set(split[0][1]) for _, launcher in split):
            raise ValueError("launcher must be the same for all jobs of a sweep: type one value for each setting of it")
        self.sweep_jobs = self._named([words for words, _ in split])
        self._check_jobs(self.sweep_jobs, terminal)
        first: dict[Path | None, int] = {}
        numbers = {job.number: first.setdefault(job.directory, job.number) for job in self.good}
        self.duplicates = {number: earlier for number, earlier in numbers.items() if number != earlier}
        self.sweep_jobs = [sweep_job for sweep_job in self.sweep_jobs if sweep_job.number not in self.duplicates]
        self.launcher: Launcher | None = None
        if self.good:
            self._launcher = composer([*self.good[0].words, *split[0][1]]).settings["launcher"]
            no_gpus = self._launcher.get("gpus") == "auto" and not any(sweep_job.needs_gpu for sweep_job in self.good)
            self.launcher = build({**self._launcher, "gpus": []} if no_gpus else self._launcher, "launcher")

    def _named(self, jobs: Sequence[Sequence[str]]) -> list[SweepJob]:
        """Return jobs with these words, each named by those that are not shared and that not all have."""
        common = {*self._shared, *(set.intersection(*map(set, jobs)) if len(jobs) > 1 else ())}
        options, kind = tuple(self._composer.options), self._kind
        sweep_jobs = []
        for number, words in enumerate(jobs):
            name = " ".join(word for word in words if word not in common) or " ".join(words) or f"ol2r {kind.name}"
            sweep_jobs.append(SweepJob(number, tuple(words), name, options, run_kind=kind))
        return sweep_jobs

    def _check_jobs(self, sweep_jobs: Sequence[SweepJob], terminal: TextIO | None) -> None:
        """Compose and build jobs; the bad ones say why. It is said from time to time how many are checked."""
        by_dataset: dict[str, list[tuple[SweepJob, Composition]]] = defaultdict(list)
        for sweep_job in sweep_jobs:
            try:
                composition = self._composer(sweep_job.words)
            except ValueError as error:
                sweep_job.ending, sweep_job.reason = Ending.BAD, one_line(error)
            else:
                by_dataset[_as_json(composition.settings[sweep_job.run_kind.data])].append((sweep_job, composition))
        jobs, shown = len(sweep_jobs), time.monotonic()
        checked = jobs - sum(map(len, by_dataset.values()))
        with torch.inference_mode():
            for compositions in by_dataset.values():  # one dataset in memory at a time
                made: dict[str, Any] = {}
                setups: dict[str, tuple[str, bool]] = {}
                for sweep_job, composition in compositions:
                    try:
                        _check(sweep_job, composition, made, setups, self._check)
                    except Exception as error:
                        sweep_job.ending, sweep_job.reason = Ending.BAD, _reason(error)
                    checked += 1
                    if terminal is not None and checked < jobs and time.monotonic() - shown > self.silent:
                        shown = time.monotonic()
                        print(f"checking: {checked} of {jobs} jobs", file=terminal, flush=True)

    def add(self, job: Sequence[str]) -> SweepJob:
        """Add and return a job, checked as those before, whose launcher it has; also one that is the same run."""
        (sweep_job,) = self._named([split_launcher(job)[0]])
        sweep_job.number = len(self.sweep_jobs)
        self._check_jobs([sweep_job], None)
        self.sweep_jobs.append(sweep_job)
        return sweep_job

    def share(self, sweep_jobs: Sequence[SweepJob], least: int = 3) -> None:
        """Let the launcher load what jobs have in common, of the most frequent workloads with `least` jobs or more."""
        if self.launcher is not None and hasattr(self.launcher, "share"):
            firsts = {sweep_job.workload: sweep_job for sweep_job in reversed(sweep_jobs)}
            counts = Counter(sweep_job.workload for sweep_job in sweep_jobs).most_common(_SHARED)
            common = [firsts[workload] for workload, count in counts if count >= least]
            self.launcher.share([payload(first.settings, first.choices, (), "") for first in common])

    def share_gpus(self, sweep_jobs: Sequence[SweepJob]) -> str:
        """Mark those of the jobs to run that play their rounds together on a GPU.

        Returns why `device=auto` takes a GPU for jobs which it leaves to the CPU alone; empty where it does not.
        """
        for sweep_job in sweep_jobs:
            sweep_job.shares_gpu = sweep_job.needs_gpu and sweep_job.plays_together
        batch = getattr(self.launcher, "batch", 1)
        wanted = self._launcher.get("jobs") == self._launcher.get("gpus") == "auto" if self.launcher else False
        if batch == 1 or not wanted or not has_gpu() or not all(map(_may_share_gpu, sweep_jobs)):
            return ""
        assert self.launcher is not None
        cores = min(self.launcher.free_slots(), len(sweep_jobs))
        by_form: dict[str | None, list[SweepJob]] = defaultdict(list)
        for sweep_job in sweep_jobs:
            by_form[sweep_job.form].append(sweep_job)
        if not all(_gpu_is_faster(jobs, batch, cores) for jobs in by_form.values()):
            return ""
        for sweep_job in sweep_jobs:
            sweep_job.shares_gpu = True
        self.launcher = build(self._launcher, "launcher")
        replicas = sum(sweep_job.settings["replicas"] for sweep_job in sweep_jobs)
        return f"device: cuda, with {replicas:,} replicas faster than {plural(cores, 'core')} (or type device=cpu)"

    def refusal(self) -> str:
        """Return why the launcher can never begin a job here; empty where it can."""
        refusal = getattr(self.launcher, "refusal", None)
        return refusal() if refusal is not None else ""

    @property
    def good(self) -> list[SweepJob]:
        return [sweep_job for sweep_job in self.sweep_jobs if sweep_job.ending != Ending.BAD]

    @property
    def bad(self) -> list[SweepJob]:
        return [sweep_job for sweep_job in self.sweep_jobs if sweep_job.ending == Ending.BAD]


def _reason(error: Exception) -> str:
    """Return why a job is bad, in one line; raises an error that is not of its settings, of files or of own code."""
    if isinstance(error, ValueError) or is_own(error):
        return one_line(explained(error))
    if not isinstance(error, OSError):
        raise error
    return f"{error.filename}: {error.strerror}" if error.filename else one_line(error)


def _check(
    sweep_job: SweepJob,
    composition: Composition,
    made: dict[str, Any],
    setups: dict[str, tuple[str, bool]],
    check: Callable[[Experiment], object],
) -> None:
    """Build a job and set it up without playing a round, and fill in its settings, choices and directory.

    `made` has the parts of earlier jobs, and `setups` why roles do not fit each other or the data, and whether a GPU
    is of use to them, so that equal parts are made once. ValueError or OSError for a bad job.
    """
    settings, kind = composition.settings, sweep_job.run_kind

    def make(node: Mapping[str, Any], name: str) -> Any:
        key = f"{name}: {_as_json(node)}"
        if key not in made:
            made[key] = source = build(node, name)
            if name == kind.data and hasattr(source, "load"):
                made[key] = SimpleNamespace(load=cache(source.load))
            elif isinstance(source, Device):  # equal for all jobs, which play no round here
                source.prepare = cache(source.prepare)  # type: ignore[method-assign]
        return made[key]

    check_grid(composition, sweep_job.words, "sweep one grid at a time")
    experiment = kind.experiment(settings, composition.choices, make)
    check(experiment)
    of_start = () if settings.get("start") == HASHED_ALWAYS["start"] else _OF_START
    names = (*composition.choices, *_SETUP_SETTINGS, *of_start)
    deciding = [settings.get(name) for name in names if name != kind.data]
    key = _as_json([*deciding, experiment.needs_gpu])
    if key not in setups:
        error = experiment.setup_error()
        is_for_gpu = kind.plays_rounds and not error and has_gpu() and experiment.plays_on_gpu
        setups[key] = error, is_for_gpu
    error, is_for_gpu = setups[key]
    if error:
        raise ValueError(error)
    sweep_job.settings, sweep_job.choices = settings, composition.choices
    sweep_job.directory, sweep_job.needs_gpu = experiment.directory.path, experiment.needs_gpu
    if is_for_gpu:
        sweep_job.break_even = experiment.break_even


def _as_json(settings: Any) -> str:
    return json.dumps(settings, sort_keys=True, default=str)
