"""What a sweep prints: the plan of `--dry-run` with the time that it would take, and the summary at the end."""

from __future__ import annotations

import shlex
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from ol2r_cli.config.composer import Composer
from ol2r_cli.formatting import duration, plural, show
from ol2r_cli.run.directory import RunDirectory
from ol2r_cli.run.exit_status import BAD_CONFIGURATION, DONE
from ol2r_cli.run.manifest import read_manifest
from ol2r_cli.run.run_state import find_runs
from ol2r_cli.run.summary import render_run
from ol2r_cli.sweep.plan import reason_lines
from ol2r_cli.sweep.sweep_job import Ending, JobState, SweepJob
from ol2r_cli.sweep.sweeper import SweepResult, plan_sweep


def print_summary(result: SweepResult) -> None:
    """Print how many jobs have ended in which way and, for each failed job, the reason, its log and its command.

    A sweep of one job ends as a run does.
    """
    sweep_jobs = result.sweep_jobs
    if len(sweep_jobs) == 1 and sweep_jobs[0].succeeded:
        assert sweep_jobs[0].directory is not None
        print(render_run(RunDirectory(sweep_jobs[0].directory), sweep_jobs[0].ending == Ending.SKIPPED))
        return
    counts = Counter(sweep_job.ending for sweep_job in sweep_jobs)
    names = {Ending.SKIPPED: "finished before"}
    parts = [f"{counts[ending]} {names.get(ending, ending)}" for ending in Ending if counts[ending]]
    print(f"{plural(len(sweep_jobs), 'job')} in {duration(result.seconds)}: {', '.join(parts)}")
    if finished := [sweep_job for sweep_job in sweep_jobs if sweep_job.succeeded]:
        folders = dict.fromkeys(str(sweep_job.settings["output_dir"]) for sweep_job in finished)
        print(f"next: {shlex.join(['ol2r', 'report', *folders])}")
    if counts[Ending.ELSEWHERE]:
        print("another process is running some of them: see `ol2r status`", file=sys.stderr)
    bad = [sweep_job for sweep_job in sweep_jobs if sweep_job.ending == Ending.BAD]
    for line in reason_lines(bad, len(sweep_jobs)):
        print(f"\nbad: {line}", file=sys.stderr)
    for sweep_job in sweep_jobs:
        if sweep_job.ending != Ending.FAILED:
            continue
        print(f"\nfailed: {sweep_job.name}\n  {sweep_job.reason}", file=sys.stderr)
        if sweep_job.log is not None and sweep_job.log.is_file():
            print(f"  printed: {sweep_job.log}", file=sys.stderr)
        print(f"  again:   {sweep_job.command}", file=sys.stderr)
    if counts[Ending.STOPPED] or counts[Ending.LEFT]:
        forced = any(sweep_job.settings.get("force") for sweep_job in sweep_jobs)
        print(f"the same command{' without force=true' if forced else ''} goes on from here", file=sys.stderr)


def print_plan(jobs: Sequence[Sequence[str]], composer: Composer, keep_going: bool = False) -> int:
    """Print a table of the jobs that would be run; returns the exit code, 2 if some are bad, unless `keep_going`."""
    plan, launcher = plan_sweep(jobs, composer, sys.stderr)
    states = {sweep_job: sweep_job.state() for sweep_job in plan.sweep_jobs}
    not_run = (JobState.FINISHED, JobState.RUNNING)
    to_run = [sweep_job for sweep_job in plan.good if states[sweep_job][0] not in not_run]
    speeds = Speeds(sweep_job.output_dir for sweep_job in plan.good)
    seconds = {sweep_job: speeds.seconds(sweep_job) for sweep_job in to_run}
    rows = [
        (f"#{sweep_job.number}", sweep_job.name, _state_text(*states[sweep_job]), _note(sweep_job, seconds))
        for sweep_job in plan.sweep_jobs
    ]
    show(rows)
    counts = Counter("to resume" if state == JobState.RESUMES else state for state, _ in states.values())
    print(f"\n{len(plan.sweep_jobs)} jobs: {', '.join(f'{count} {state}' for state, count in counts.items())}")
    if plan.duplicates:
        print(f"{len(plan.duplicates)} more are the same run as another, and are left out")
    if to_run and launcher is not None:
        print(_total_text(list(seconds.values()), launcher.free_slots()))
    for line in reason_lines(plan.bad, len(jobs)):
        print(f"ol2r run: {line}", file=sys.stderr)
    return BAD_CONFIGURATION if plan.bad and not keep_going else DONE


def _state_text(state: JobState, round: int) -> str:
    return f"{state} at round {round}" if state == JobState.RESUMES else state


def _note(sweep_job: SweepJob, seconds: Mapping[SweepJob, float | None]) -> str:
    """Why a job is bad, or how long it would take; empty if it would not be run."""
    if sweep_job.bad:
        return sweep_job.reason
    if sweep_job not in seconds:
        return ""
    estimate = seconds[sweep_job]
    return "time unknown" if estimate is None else f"about {duration(estimate)}"


def _total_text(estimates: Sequence[float | None], free_slots: int) -> str:
    """The time of all jobs, and for how many of them it is unknown; `free_slots` is how many run at a time."""
    known = [estimate for estimate in estimates if estimate is not None]
    at_once = max(1, min(free_slots, len(estimates)))
    if not known:
        return f"time: unknown, {at_once} at a time: no finished run with these rankers is below output_dir"
    unknown = len(estimates) - len(known)
    without = f", and {unknown} of which nothing is known" if unknown else ""
    total = max(sum(known) / at_once, *known)
    return f"time: about {duration(total)}, {at_once} at a time, by finished runs below output_dir{without}"


class Speeds:
    """Rounds per second of the finished runs below some folders, by which the time of jobs is estimated."""

    def __init__(self, folders: Iterable[Path]):
        self._speeds: dict[tuple[Any, ...], list[float]] = defaultdict(list)
        for folder in set(folders):
            for path in find_runs(folder):
                self._add(path)

    def seconds(self, sweep_job: SweepJob) -> float | None:
        """The time of the rounds of a job that are left, or None if it is unknown.

        It is estimated by the median speed of finished runs with the same ranker, click model, dataset and number of
        replicas; if there are none, with any number of replicas; if there are none, with the same ranker.
        """
        _, round = sweep_job.state()
        for key in _speed_keys(sweep_job.choices, sweep_job.settings["replicas"]):
            if key in self._speeds:
                return (sweep_job.settings["rounds"] - round) / median(self._speeds[key])
        return None

    def _add(self, path: Path) -> None:
        try:
            manifest = read_manifest(path) or {}
        except ValueError:  # damaged
            return
        speed = manifest.get("rounds_per_second")
        if manifest.get("status") == "finished" and speed:
            for key in _speed_keys(manifest["choices"], len(manifest["seeds"])):
                self._speeds[key].append(float(speed))


def _speed_keys(choices: Mapping[str, str], replicas: int) -> list[tuple[Any, ...]]:
    """What runs of similar speed have in common, the most similar first."""
    chosen = tuple(choices.get(group, "") for group in ("ranker", "click", "dataset"))
    return [(*chosen, replicas), chosen, chosen[:1]]
