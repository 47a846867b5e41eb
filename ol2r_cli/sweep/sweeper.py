"""Runs many jobs. The command line, `ol2r reproduce`, Python and notebooks all use it.

It prints the plan of `--dry-run`, and the summary at the end.
"""

from __future__ import annotations

import shlex
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from ol2r_cli.config.composer import Composer
from ol2r_cli.config.overrides import split_search_path
from ol2r_cli.plugins import RunKind
from ol2r_cli.run import BAD_CONFIGURATION, DONE, FAILED, INTERRUPTED, JOBS_FAILED
from ol2r_cli.run.kind import KIND
from ol2r_cli.run.run import Run
from ol2r_cli.run.store import create_root
from ol2r_cli.sweep.plan import Ending, Plan, SweepJob, reason_lines, settings_to_pair
from ol2r_cli.sweep.scheduler import Scheduler, StatusDisplay, status_command
from ol2r_cli.text.formatting import duration, plural
from ol2r_cli.text.program import as_called
from ol2r_cli.text.table import show


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
        """Return the jobs that have failed or are bad."""
        return [sweep_job for sweep_job in self.sweep_jobs if sweep_job.ending in (Ending.FAILED, Ending.BAD)]


class BadJobs(ValueError):
    """Jobs of a sweep cannot be run. The message is one line or, where there are several reasons, one for each."""


def sweep(
    jobs: Sequence[Sequence[str]],
    launcher: Sequence[str] = (),
    *,
    composer: Composer | None = None,
    keep_going: bool = False,
    terminal: TextIO | None = None,
    kind: RunKind = KIND,
    shared: Collection[str] = (),
) -> SweepResult:
    """Run many jobs. Each is a list of the words of `ol2r run`; they need not have anything in common.

    launcher: words that say where the jobs run, such as `launcher=slurm` or `launcher.jobs=4`; they may also be among
    the words of every job. composer: for jobs whose words name no folders. terminal: where to show the progress, None
    for silence. kind: that of all runs. shared: words that are no part of the names of jobs.
    Finished runs are not run again. `BadJobs`, before anything is run, if the configuration of a job is bad, unless
    `keep_going`.

        sweep([["ranker=pdgd", f"seed={seed}"] for seed in range(3)], ["launcher.jobs=2"], terminal=sys.stderr)
    """
    start = time.monotonic()
    if composer is None:
        jobs, composer = _without_folders(jobs, kind)
    plan = Plan([[*job, *launcher] for job in jobs], composer, terminal, kind=kind, shared=shared)
    if plan.bad and not keep_going:
        raise _refusal(plan, len(jobs))
    to_run = _unfinished(plan)
    if to_run and (refusal := plan.refusal()):
        raise ValueError(refusal)
    _create_folders(to_run)
    display = StatusDisplay(plan.sweep_jobs, terminal)
    for line in [*_lines_of_left_out(plan, len(jobs)), plan.share_gpus(to_run)]:
        if line:
            display.say(line)
    stopped = False
    if to_run and plan.launcher is not None:
        plan.share(to_run)
        stopped = Scheduler(to_run, plan.launcher, display).run()
    code = INTERRUPTED if stopped else _exit_code(plan)
    return SweepResult(plan.sweep_jobs, _directories(plan, len(jobs)), code, time.monotonic() - start)


def _without_folders(jobs: Sequence[Sequence[str]], kind: RunKind) -> tuple[list[list[str]], Composer]:
    """Return jobs without the words that name folders of own choices, and a composer that finds those of all jobs."""
    words_of_jobs = []
    folders: dict[Path, None] = {}
    for job in jobs:
        words, own = split_search_path(job)
        words_of_jobs.append(words)
        folders |= dict.fromkeys(own)
    return words_of_jobs, Composer([f"--config-dir={folder}" for folder in folders], kind.name)


def _unfinished(plan: Plan) -> list[SweepJob]:
    """Return the jobs to run; the good ones whose run is finished end here."""
    for sweep_job in plan.good:
        if sweep_job.state()[0] == "finished":
            sweep_job.ending = Ending.SKIPPED
    return [sweep_job for sweep_job in plan.sweep_jobs if not sweep_job.ending]


def _directories(plan: Plan, jobs: int) -> list[Path | None]:
    """Return the directory of the finished run of each of so many jobs; those that are the same run have one."""
    finished = {sweep_job.number: sweep_job.directory for sweep_job in plan.sweep_jobs if sweep_job.succeeded}
    return [finished.get(plan.duplicates.get(number, number)) for number in range(jobs)]


def _create_folders(to_run: Sequence[SweepJob]) -> None:
    """Create the folders of the runs; ValueError for one in which nothing can be written."""
    for folder in {job.directory.parents[1] for job in to_run if job.directory}:
        try:
            create_root(folder)
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            raise ValueError(f"output_dir must be a folder that can be used, got {folder} ({error.strerror})") from None


def _lines_of_left_out(plan: Plan, jobs: int) -> list[str]:
    """Return which of so many jobs are left out, and which are bad, and why."""
    lines = []
    if plan.duplicates:
        pairs = ", ".join(f"#{number} is #{first}" for number, first in list(plan.duplicates.items())[:5])
        more = ", .." if len(plan.duplicates) > 5 else ""
        lines.append(f"{plural(len(plan.duplicates), 'job')} left out, the same run as another: {pairs}{more}")
    return [*lines, *(f"bad: {line}" for line in reason_lines(plan.bad, jobs))]


def _exit_code(plan: Plan) -> int:
    """Return the exit code of a sweep that was not stopped; that of its job, if there is only one."""
    if all(sweep_job.succeeded for sweep_job in plan.sweep_jobs):
        return DONE
    if len(plan.sweep_jobs) > 1:
        return JOBS_FAILED
    return BAD_CONFIGURATION if plan.bad else FAILED


def _refusal(plan: Plan, count: int) -> BadJobs:
    """Return why the bad ones among `count` jobs cannot be run, and what to type to run the others."""
    lines = reason_lines(plan.bad, count)
    good = count - len(plan.bad)
    advice = f"--keep-going runs the other {good}"
    paired = settings_to_pair(plan.sweep_jobs)
    if paired:
        advice = f"if {' and '.join(paired)} go together, type --paired {','.join(paired)}; {advice}"
    if len(lines) == 1:
        return BadJobs(f"{lines[0]}; nothing has been run: {advice}" if good else lines[0])
    heading = f"{len(plan.bad)} of {count} jobs cannot be run, and nothing has been run:"
    if good:
        lines.append(advice)
    return BadJobs("\n  ".join([heading, *lines]))


def print_summary(result: SweepResult) -> None:
    """Print how many jobs have ended in which way and, for each failed job, the reason, its log and its command.

    A sweep of one job ends as a run does.
    """
    sweep_jobs = result.sweep_jobs
    if len(sweep_jobs) == 1 and sweep_jobs[0].succeeded:
        print(_rendered(sweep_jobs[0]))
        return
    by_ending: dict[Ending | None, list[SweepJob]] = defaultdict(list)
    for sweep_job in sweep_jobs:
        by_ending[sweep_job.ending].append(sweep_job)
    names = {Ending.SKIPPED: "finished before"}
    counts = [f"{len(by_ending[ending])} {names.get(ending, ending)}" for ending in Ending if ending in by_ending]
    print(f"{plural(len(sweep_jobs), 'job')} in {duration(result.seconds)}: {', '.join(counts)}")
    _print_next([sweep_job for sweep_job in sweep_jobs if sweep_job.succeeded])
    if Ending.ELSEWHERE in by_ending:
        command = status_command(by_ending[Ending.ELSEWHERE])
        print(as_called(f"another process is running some of them: see `{command}`"), file=sys.stderr)
    for line in reason_lines(by_ending[Ending.BAD], len(sweep_jobs)):
        print(f"\nbad: {as_called(line)}", file=sys.stderr)
    for sweep_job in by_ending[Ending.FAILED]:
        _print_failure(sweep_job)
    if by_ending[Ending.STOPPED] or by_ending[Ending.LEFT]:
        is_forced = any(sweep_job.settings.get("force") for sweep_job in sweep_jobs)
        without = " without force=true" if is_forced else ""
        print(f"the same command{without} goes on from here", file=sys.stderr)


def _rendered(sweep_job: SweepJob) -> str:
    """Return what `ol2r run` prints of the finished run of a job."""
    assert sweep_job.directory is not None
    run = Run.read_finished(sweep_job.directory)
    return sweep_job.run_kind.render(run, sweep_job.ending == Ending.SKIPPED)


def _print_next(finished: Sequence[SweepJob]) -> None:
    """Print what to type for a report of finished jobs, if there are any."""
    folders = dict.fromkeys(str(sweep_job.settings["output_dir"]) for sweep_job in finished)
    if folders:
        print(f"next: {as_called(shlex.join(['ol2r', 'report', *folders]))}")


def _print_failure(sweep_job: SweepJob) -> None:
    """Print why a job has failed, where its output is, and how to run it again."""
    print(f"\nfailed: {sweep_job.name}\n  {sweep_job.reason}", file=sys.stderr)
    if sweep_job.log.is_file():
        print(f"  printed: {sweep_job.log}", file=sys.stderr)
    print(f"  again:   {as_called(sweep_job.command)}", file=sys.stderr)


def print_plan(
    jobs: Sequence[Sequence[str]], composer: Composer, keep_going: bool = False, kind: RunKind = KIND
) -> int:
    """Print a table of the jobs that would be run; returns the exit code.

    It is 2 if some are bad, unless `keep_going`, and if none can begin here.
    """
    plan = Plan(jobs, composer, sys.stderr, kind=kind)
    to_run = _print_states(plan.sweep_jobs)
    if plan.duplicates:
        print(f"{len(plan.duplicates)} more are the same run as another, and are left out")
    if to_run and plan.launcher is not None:
        device = plan.share_gpus(to_run)
        if device:
            print(device)
        print(f"{max(1, min(plan.launcher.free_slots(), len(to_run)))} at a time")
    refusal = plan.refusal() if to_run else ""
    for line in [*reason_lines(plan.bad, len(jobs)), *([refusal] if refusal else [])]:
        print(f"ol2r {kind.name}: {as_called(line)}", file=sys.stderr)
    return BAD_CONFIGURATION if refusal or (plan.bad and not keep_going) else DONE


def _print_states(sweep_jobs: Sequence[SweepJob]) -> list[SweepJob]:
    """Print a table of jobs and how many are in each state; returns those that would be run."""
    rows = []
    counts: Counter[str] = Counter()
    to_run = []
    for sweep_job in sweep_jobs:
        state, round = sweep_job.state()
        shown = f"resumes at round {round}" if state == "resumes" else state
        rows.append((f"#{sweep_job.number}", sweep_job.name, shown, sweep_job.reason))
        counts["to resume" if state == "resumes" else state] += 1
        if state in ("new", "resumes"):
            to_run.append(sweep_job)
    show(rows)
    counted = [f"{count} {state}" for state, count in counts.items()]
    print(f"\n{plural(len(sweep_jobs), 'job')}: {', '.join(counted)}")
    return to_run
