"""Runs many jobs. The command line, `ol2r reproduce`, Python and notebooks all use it."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from ol2r_cli.config.composer import Composer
from ol2r_cli.config.instantiate import build
from ol2r_cli.config.overrides import split_launcher, split_search_path
from ol2r_cli.formatting import plural
from ol2r_cli.launcher.job import Launcher
from ol2r_cli.run.exit_status import BAD_CONFIGURATION, DONE, FAILED, INTERRUPTED, JOBS_FAILED
from ol2r_cli.run.store import create_root
from ol2r_cli.sweep.plan import BadJobs, Plan, reason_lines
from ol2r_cli.sweep.scheduler import Scheduler
from ol2r_cli.sweep.status_display import StatusDisplay, Terminal
from ol2r_cli.sweep.sweep_job import Ending, JobState, SweepJob

_SILENT = 10.0  # seconds of checking between two lines that say how many jobs are checked


@dataclass(frozen=True)
class SweepResult:
    """The end of a sweep.

    sweep_jobs: the jobs in order, with `directory`, `ending` and `reason`; of jobs that are the same run, the first.
    directories: the directory of the finished run of every job, in the order of the jobs; None without a finished run.
    code: 0 if all runs are finished, 130 if the sweep was stopped, else 3; a sweep of one job has the code of its run.
    seconds: wall-clock time.
    """

    sweep_jobs: list[SweepJob]
    directories: list[Path | None]
    code: int
    seconds: float

    @property
    def failed(self) -> list[SweepJob]:
        """The jobs that have failed or are bad."""
        return [sweep_job for sweep_job in self.sweep_jobs if sweep_job.ending in (Ending.FAILED, Ending.BAD)]


def sweep(
    jobs: Sequence[Sequence[str]],
    launcher: Sequence[str] = (),
    *,
    keep_going: bool = False,
    terminal: Terminal | None = None,
) -> SweepResult:
    """Run many jobs. Each is a list of the words of `ol2r run`; they need not have anything in common.

    launcher: words that say where the jobs run, such as `launcher=slurm` or `launcher.jobs=4`; they may also be among
    the words of every job. terminal: where to show the progress, None for silence. Finished runs are not run again.
    `BadJobs`, a ValueError, before anything is run, if the configuration of a job is bad, unless `keep_going`.

        sweep([["ranker=pdgd", f"seed={seed}"] for seed in range(3)], ["launcher.jobs=2"], terminal=sys.stderr)
    """
    split = [split_search_path(job) for job in jobs]
    composer = Composer(list(dict.fromkeys(f"--config-dir={folder}" for _, folders in split for folder in folders)))
    return run_sweep([[*job, *launcher] for job, _ in split], composer, keep_going=keep_going, terminal=terminal)


def run_sweep(
    jobs: Sequence[Sequence[str]], composer: Composer, *, keep_going: bool = False, terminal: Terminal | None = None
) -> SweepResult:
    """`sweep` with a composer: the overrides of the jobs contain the words of the launcher but no folders."""
    start = time.monotonic()
    plan, launcher = plan_sweep(jobs, composer, terminal)
    if plan.bad and not keep_going:
        raise BadJobs(plan.bad, len(jobs))
    for sweep_job in plan.bad:
        sweep_job.ending = Ending.BAD
    for sweep_job in plan.good:
        if sweep_job.state()[0] == JobState.FINISHED:
            sweep_job.ending = Ending.SKIPPED
    to_run = [sweep_job for sweep_job in plan.sweep_jobs if not sweep_job.ending]
    _check_output_dirs(to_run)
    display = StatusDisplay(plan.sweep_jobs, terminal)
    _announce(plan, display, len(jobs))
    stopped = Scheduler(to_run, launcher, display).run() if to_run and launcher is not None else False
    finished = {sweep_job.number: sweep_job.directory for sweep_job in plan.sweep_jobs if sweep_job.succeeded}
    directories = [finished.get(plan.duplicates.get(number, number)) for number in range(len(jobs))]
    return SweepResult(plan.sweep_jobs, directories, _exit_code(plan.sweep_jobs, stopped), time.monotonic() - start)


def plan_sweep(
    jobs: Sequence[Sequence[str]], composer: Composer, terminal: Terminal | None = None
) -> tuple[Plan, Launcher | None]:
    """The checked jobs and the launcher, which is None if no job is good. Nothing is written or started.

    ValueError if the settings of the launcher are bad, or not the same for all jobs.
    """
    words, launcher_words = zip(*map(split_launcher, jobs), strict=True) if jobs else ((), ())
    if any(set(others) != set(launcher_words[0]) for others in launcher_words):
        raise ValueError("launcher must be the same for all jobs of a sweep: type one value for each of its settings")
    plan = Plan(words, composer, _CheckingProgress(len(jobs), terminal))
    return plan, _launcher(plan.good, launcher_words[0], composer) if plan.good else None


def _launcher(sweep_jobs: Sequence[SweepJob], words: Sequence[str], composer: Composer) -> Launcher:
    """The launcher that the words choose. GPUs that `auto` would find are left out if no job uses one."""
    config: Any = composer([*sweep_jobs[0].words, *words]).config
    if config.launcher.get("gpus") == "auto" and not any(sweep_job.on_gpu for sweep_job in sweep_jobs):
        OmegaConf.update(config, "launcher.gpus", [])
    return build(config.launcher)


def _check_output_dirs(sweep_jobs: Sequence[SweepJob]) -> None:
    """Create the output folders; ValueError if runs cannot be written."""
    for folder in {sweep_job.output_dir for sweep_job in sweep_jobs}:
        try:
            create_root(folder)
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            raise ValueError(f"output_dir must be a folder that can be used, got {folder} ({error.strerror})") from None


def _announce(plan: Plan, display: StatusDisplay, jobs: int) -> None:
    """Show which jobs are not run, and why."""
    if plan.duplicates:
        pairs = ", ".join(f"#{number} is #{first}" for number, first in list(plan.duplicates.items())[:5])
        more = ", .." if len(plan.duplicates) > 5 else ""
        display.say(f"{plural(len(plan.duplicates), 'job')} left out, the same run as another: {pairs}{more}")
    for line in reason_lines(plan.bad, jobs):
        display.say(f"bad: {line}")


def _exit_code(sweep_jobs: Sequence[SweepJob], stopped: bool) -> int:
    if stopped:
        return INTERRUPTED
    failed = [sweep_job for sweep_job in sweep_jobs if not sweep_job.succeeded]
    if len(sweep_jobs) == 1 and failed:
        return BAD_CONFIGURATION if failed[0].ending == Ending.BAD else FAILED
    return JOBS_FAILED if failed else DONE


class _CheckingProgress:
    """Shows how many jobs are checked when that takes long: a large dataset is parsed on its first use."""

    def __init__(self, jobs: int, terminal: Terminal | None):
        self.jobs, self.terminal, self.shown = jobs, terminal, time.monotonic()

    def __call__(self, checked: int) -> None:
        if self.terminal is not None and checked < self.jobs and time.monotonic() - self.shown > _SILENT:
            self.shown = time.monotonic()
            print(f"checking: {checked} of {self.jobs} jobs", file=self.terminal, flush=True)
