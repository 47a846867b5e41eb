"""Runs of a recipe, the choice of settings, and the rows of tables that runs are published with.

Settings of a condition are those of the trial with the best mean validation NDCG@10. `report.comparison` chooses from
whatever runs a folder holds and never chooses settings of fairness, because runs with other fairness settings are
another task there. Here the recipe says what competes, so that the gain of FairCo is chosen as in the paper.
"""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ol2r_cli.config.catalogue import config_dir
from ol2r_cli.config.composer import Composer, expand
from ol2r_cli.formatting import plural
from ol2r_cli.recipes.run_plan import WITHOUT_EFFECT, Condition, Overrides, RunPlan, Trial, by_name
from ol2r_cli.report.finished_run import FinishedRun
from ol2r_cli.report.measures import ndcg_metrics
from ol2r_cli.report.results_file import read_results, results_frame
from ol2r_cli.report.run_groups import Group, collect, group_runs
from ol2r_cli.run.exit_status import DONE, INTERRUPTED
from ol2r_cli.run.run import Run
from ol2r_cli.run.store import create_root
from ol2r_cli.sweep.sweeper import print_plan, sweep

if TYPE_CHECKING:
    import polars as pl


@dataclass
class RecipeRuns:
    """The runs of a recipe: the group of runs of each condition, its settings, and a line for each job that failed.

    code: 0, 3 when some jobs failed, 130 when interrupted. candidates: the trials from which the settings of a
    condition were chosen, with their mean validation NDCG@10. choice_seconds: their CPU seconds, as far as their runs
    have recorded them.
    """

    groups: dict[Condition, Group] = field(default_factory=dict)
    settings: dict[Condition, Overrides] = field(default_factory=dict)
    candidates: dict[Condition, dict[Trial, float]] = field(default_factory=dict)
    choice_seconds: dict[Condition, float] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    code: int = DONE


def run_recipe(plan: RunPlan) -> RecipeRuns:
    """Run a plan; finished runs are not run again. A condition with a failed run is absent from `groups`."""
    runs = RecipeRuns()
    create_root(plan.output_dir)
    if candidates := list(plan.candidates()):
        count = sum(len(trial.runs) for trial in candidates)
        print(f"{plural(count, 'run')} to choose settings by validation", file=sys.stderr)
        finished = _run_trials(candidates, plan, runs)
        if runs.code:
            return runs
        for trial, group in finished.items():
            runs.candidates.setdefault(trial.condition, {})[trial] = _validation(trial, group)
            seconds = sum(run.cpu_seconds or 0 for run in group.runs)
            runs.choice_seconds[trial.condition] = runs.choice_seconds.get(trial.condition, 0) + seconds
    best = {condition: max(trials, key=trials.__getitem__).settings for condition, trials in runs.candidates.items()}
    for trial, group in _run_trials(list(plan.final(best)), plan, runs).items():  # of equal ones the first in the grid
        runs.groups[trial.condition], runs.settings[trial.condition] = group, trial.settings
    return runs


def _validation(trial: Trial, group: Group) -> float:
    estimate = group.estimate(ndcg_metrics([group])[1])
    if estimate is None:
        raise ValueError(
            f"settings of {trial.condition.competitor} are chosen by validation, which {group.runs[0].path} lacks: "
            "type dataset.validation=0.2"
        )
    return estimate.mean


def print_trials(plan: RunPlan) -> int:
    """Print the runs of a plan without running or writing anything; return the exit code."""
    candidates, final = list(plan.candidates()), list(plan.final())
    jobs = [[*plan.job(run), *plan.launcher] for trial in candidates or final for run in trial.runs]
    if candidates:
        count = sum(len(trial.runs) for trial in final)
        print(f"{len(jobs)} runs to choose settings by validation, then {count} with those that were chosen\n")
    if not jobs:
        print("nothing is run: the figure is about the data")
        return DONE
    return print_plan(jobs, Composer(plan.folders))


def _run_trials(trials: Sequence[Trial], plan: RunPlan, runs: RecipeRuns) -> dict[Trial, Group]:
    """Return the group of every trial whose runs have all finished; failures are printed, and added to `runs`."""
    jobs = list(dict.fromkeys(job for trial in trials for job in trial.runs))
    one_at_a_time = ["launcher=processes", "launcher.jobs=1"] if plan.recipe.alone and not plan.launcher else []
    result = sweep([plan.job(job) for job in jobs], [*one_at_a_time, *plan.launcher], terminal=sys.stderr)
    for job in result.failed:
        runs.failed.append(f"`{job.command}` ({job.reason})")
        print(f"ol2r {plan.recipe.kind}: failed: {job.command} ({job.reason})", file=sys.stderr)
    runs.code = runs.code or result.code
    if result.code == INTERRUPTED:
        print("the same command goes on from here", file=sys.stderr)
    directories = {job: path for job, path in zip(jobs, result.directories, strict=True) if path is not None}
    groups = {}
    for trial in trials:
        if directories.keys() >= set(trial.runs):
            collected = collect([directories[job] for job in trial.runs])
            if collected.damaged:
                raise ValueError(f"a run is damaged, {collected.damaged[0]}: type force=true to run it again")
            (groups[trial],) = group_runs(collected.runs)
    return groups


@dataclass(frozen=True)
class About:
    """What the results of a run say of themselves beside its settings; published with them.

    table: the title of the dataset. words: overrides of the row on one line of `ol2r run`. settings: the names of those
    that were chosen. edges: those at an end of their grid. candidates: how many settings they were chosen from.
    choice_seconds: the CPU seconds of that. versions: of ol2r and its libraries, and the processor.
    """

    table: str
    competitor: str
    words: list[str]
    settings: list[str] = field(default_factory=list)
    edges: list[str] = field(default_factory=list)
    candidates: int = 0
    choice_seconds: float = 0.0
    versions: dict[str, str] = field(default_factory=dict)

    def row(self, run: FinishedRun) -> Condition:
        """Return which row of which table a run belongs to."""
        return Condition(self.table, run.choices["click"], self.competitor)


Results = list[tuple[FinishedRun, About]]  # a run that belongs to several rows occurs once for each


@dataclass(frozen=True, eq=False)
class Entry:
    """One row of a table: a competitor on a dataset under a click model."""

    about: About
    group: Group

    @property
    def table(self) -> tuple[str, str]:
        """Return the table to which it belongs: dataset and click model."""
        return self.about.table, self.group.choices["click"]

    @property
    def cpu_seconds(self) -> float | None:
        """Of all of its runs; None where some have not recorded them."""
        seconds = [run.cpu_seconds for run in self.group.runs]
        return None if None in seconds else sum(second for second in seconds if second is not None)


def published_dir() -> Path:
    """The folder of the published results: docs/benchmark of a checkout, or a folder of the installed package."""
    beside = config_dir().parent / "docs" / "benchmark"
    return beside if beside.is_dir() else Path(__file__).parents[1] / "published"


def published(name: str) -> Results:
    """Return the published results of a benchmark, those of its check for NAME_check; empty where there are none."""
    file = published_dir() / f"{name}.parquet"
    if not file.is_file():
        return []
    return [(run, About(**row)) for run, about in read_results(file) for row in about["rows"]]


def as_published(results: Results) -> pl.DataFrame:
    """Return the table that `published` reads, with every run once."""
    runs, abouts = _by_path(results)
    about = [{"rows": [asdict(row) for row in rows]} for rows in abouts.values()]
    return results_frame(list(runs.values()), about, [[row.competitor for row in rows] for rows in abouts.values()])


def played(plan: RunPlan, runs: RecipeRuns) -> Results:
    """Return the finished runs of a plan."""
    results = []
    words = {trial.condition: by_name(trial.words) for trial in plan.final(runs.settings)}
    for condition, group in runs.groups.items():
        validation = runs.candidates.get(condition, {}).values()
        grid = by_name(plan.recipe.competitors[condition.competitor].grid)
        about = About(
            table=condition.slot,
            competitor=condition.competitor,
            words=[override for name, override in words[condition].items() if name not in WITHOUT_EFFECT],
            settings=list(runs.settings[condition]),
            edges=_at_the_edge(grid, runs.settings[condition]) if len(set(validation)) > 1 else [],
            candidates=len(validation),
            choice_seconds=round(runs.choice_seconds.get(condition, 0.0), 1),
        )
        for run in group.runs:
            versions = Run.read_finished(run.path).manifest["versions"] | {"processor": processor()}
            results.append((run, replace(about, versions=versions)))
    return results


def _at_the_edge(grid: Overrides, chosen: Overrides) -> list[str]:
    """Return the chosen settings that are the smallest or the largest number of their grid."""
    edges = []
    for name, override in chosen.items():
        with suppress(ValueError):  # words have no order
            values = [float(each.partition("=")[2]) for each in expand(grid[name])]
            if len(values) > 1 and float(override.partition("=")[2]) in (min(values), max(values)):
                edges.append(name)
    return edges


def processor() -> str:
    """The name of the processor of this machine, as far as the system tells, and the instructions that torch uses.

    One name, such as AMD EPYC, may stand for several generations, which round differently.
    """
    import torch

    linux = Path("/proc/cpuinfo")
    named = re.search(r"^model name\s*:(.*)", linux.read_text(), re.MULTILINE) if linux.exists() else None
    name = named[1].strip() if named else platform.processor()
    return f"{name} ({torch.backends.cpu.get_cpu_capability()})"


def entries(results: Results) -> list[Entry]:
    """Return one entry for the runs of a competitor that differ in nothing but fold and seed, as the first run says it.

    A run may belong to two competitors whose chosen settings are the same.
    """
    runs, abouts = _by_path(results)
    rows = []
    for group in group_runs(runs.values()):
        members: dict[str, Results] = {}
        for run in group.runs:
            for about in abouts[run.path]:
                members.setdefault(about.competitor, []).append((run, about))
        rows += [Entry(own[0][1], replace(group, runs=[run for run, _ in own])) for own in members.values()]
    return rows


def _by_path(results: Iterable[tuple[FinishedRun, About]]) -> tuple[dict[Path, FinishedRun], dict[Path, list[About]]]:
    """Return every run once, and the rows to which it belongs."""
    abouts: dict[Path, list[About]] = {}
    for run, about in results:
        abouts.setdefault(run.path, []).append(about)
    return {run.path: run for run, _ in results}, abouts
