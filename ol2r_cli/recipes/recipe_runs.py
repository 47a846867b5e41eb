"""Runs of a recipe, the choice of settings, and the rows of tables that runs are published with.

Settings of a condition are those of the trial with the best mean validation NDCG@10. `report.comparison` chooses from
whatever runs a folder holds and never chooses settings of fairness, because runs with other fairness settings are
another task there. Here the recipe says what competes, so that the gain of FairCo is chosen as in the paper.
"""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from ol2r_cli.config.catalogue import config_dir
from ol2r_cli.config.composer import Composer, expand
from ol2r_cli.formatting import plural
from ol2r_cli.recipes.run_plan import WITHOUT_EFFECT, Condition, Overrides, RunPlan, Trial, by_name
from ol2r_cli.report.finished_run import FinishedRun, read_results, results_frame
from ol2r_cli.report.measures import ndcg_metrics
from ol2r_cli.report.run_groups import Group, collect, group_runs
from ol2r_cli.run import DONE, INTERRUPTED
from ol2r_cli.run.run import Run
from ol2r_cli.run.store import create_root
from ol2r_cli.sweep.sweeper import print_plan, sweep

if TYPE_CHECKING:
    import polars as pl


@dataclass
class RecipeRuns:
    """The runs of a recipe: the group of runs of each condition, its settings, and a line for each job that failed.

    code: 0, 3 when some jobs failed, 130 when interrupted. validation: mean validation NDCG@10 of the trials from which
    the settings of a condition were chosen. choice_seconds: their CPU seconds, as far as their runs have recorded them.
    """

    groups: dict[Condition, Group] = field(default_factory=dict)
    settings: dict[Condition, Overrides] = field(default_factory=dict)
    validation: dict[Condition, list[float]] = field(default_factory=dict)
    choice_seconds: dict[Condition, float] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    code: int = DONE


def run_recipe(plan: RunPlan) -> RecipeRuns:
    """Run a plan; finished runs are not run again. A condition with a failed run is absent from `groups`."""
    runs, best = RecipeRuns(), dict[Condition, Overrides]()
    create_root(plan.output_dir)
    if candidates := list(plan.candidates()):
        count = sum(len(trial.runs) for trial in candidates)
        print(f"{plural(count, 'run')} to choose settings by validation", file=sys.stderr)
        finished = _run_trials(candidates, plan, runs)
        if runs.code:
            return runs
        for trial, group in finished.items():
            condition, estimate = trial.condition, group.estimate(ndcg_metrics([group])[1])
            if estimate is None:
                raise ValueError(
                    f"settings of {condition.competitor} are chosen by validation, which {group.runs[0].path} lacks: "
                    "type dataset.validation=0.2"
                )
            earlier = runs.validation.setdefault(condition, [])
            if not earlier or estimate.mean > max(earlier):  # of equal ones the first in the grid
                best[condition] = trial.settings
            earlier.append(estimate.mean)
            seconds = sum(run.cpu_seconds or 0 for run in group.runs)
            runs.choice_seconds[condition] = runs.choice_seconds.get(condition, 0) + seconds
    for trial, group in _run_trials(list(plan.final(best)), plan, runs).items():
        runs.groups[trial.condition], runs.settings[trial.condition] = group, trial.settings
    return runs


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


def dry_run(plan: RunPlan) -> int:
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


def published_dir() -> Path:
    """Return the folder of the published results, of a checkout or within an installed package."""
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
    runs = {run.path: run for run, _ in results}
    rows = {path: [about for run, about in results if run.path == path] for path in runs}
    about = [{"rows": [asdict(each) for each in of_run]} for of_run in rows.values()]
    return results_frame(list(runs.values()), about, [[each.competitor for each in of_run] for of_run in rows.values()])


def played(plan: RunPlan, runs: RecipeRuns) -> Results:
    """Return the finished runs of a plan."""
    results = []
    words = {trial.condition: by_name(trial.words) for trial in plan.final(runs.settings)}
    for condition, group in runs.groups.items():
        validation, chosen = runs.validation.get(condition, []), runs.settings[condition]
        grid = by_name(plan.recipe.competitors[condition.competitor].grid)
        edges = []  # the chosen settings that are the smallest or the largest number of their grid
        for name, override in chosen.items() if len(set(validation)) > 1 else ():
            with suppress(ValueError):  # words have no order
                values = [float(each.partition("=")[2]) for each in expand(grid[name])]
                if len(values) > 1 and float(override.partition("=")[2]) in (min(values), max(values)):
                    edges.append(name)
        about = About(
            table=condition.slot,
            competitor=condition.competitor,
            words=[override for name, override in words[condition].items() if name not in WITHOUT_EFFECT],
            settings=list(chosen),
            edges=edges,
            candidates=len(validation),
            choice_seconds=round(runs.choice_seconds.get(condition, 0.0), 1),
        )
        for run in group.runs:
            versions = Run.read_finished(run.path).manifest["versions"] | {"processor": processor()}
            results.append((run, replace(about, versions=versions)))
    return results


def processor() -> str:
    """The name of the processor of this machine, as far as the system tells, and the instructions that torch uses.

    One name, such as AMD EPYC, may stand for several generations, which round differently.
    """
    linux = Path("/proc/cpuinfo")
    named = re.search(r"^model name\s*:(.*)", linux.read_text(), re.MULTILINE) if linux.exists() else None
    name = named[1].strip() if named else platform.processor()
    return f"{name} ({torch.backends.cpu.get_cpu_capability()})"
