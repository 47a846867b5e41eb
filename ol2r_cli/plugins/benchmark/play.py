"""Playing a plan: settings are chosen from grids that grow, then the trials that are reported are run."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from ol2r_cli.plugins.benchmark.grid import choose
from ol2r_cli.plugins.benchmark.overrides import Overrides
from ol2r_cli.plugins.benchmark.run_plan import RunPlan
from ol2r_cli.plugins.benchmark.trials import Condition, PlayedTrial, Trial
from ol2r_cli.report.collection import collect
from ol2r_cli.report.run_groups import Group, group_runs
from ol2r_cli.run import DONE, INTERRUPTED
from ol2r_cli.run.store import create_root
from ol2r_cli.sweep.sweeper import print_plan, sweep
from ol2r_cli.text.formatting import plural
from ol2r_cli.text.program import as_called

_ONE_AT_A_TIME = ["launcher=processes", "launcher.jobs=1", "launcher.batch=1"]


@dataclass
class RecipeRuns:
    """The trials that are reported, and a line for each job that failed. code: 0, 3 when some failed, 130 interrupted.

    grids: the cells that settings were chosen from, by condition without an aim. A trial with a failed run is absent.
    """

    rows: list[PlayedTrial] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    code: int = DONE
    grids: dict[Condition, list[PlayedTrial]] = field(default_factory=dict)

    def cells(self, condition: Condition) -> Sequence[PlayedTrial]:
        """Return what the settings of a condition were chosen from; empty without a choice."""
        return self.grids.get(condition._replace(aim=""), ())


def run_recipe(plan: RunPlan) -> RecipeRuns:
    """Run a plan; finished runs are not run again."""
    runs = RecipeRuns()
    create_root(plan.output_dir)
    _play_grids(plan, runs)
    if runs.code == DONE:
        runs.rows += _play(list(plan.final(_chosen(plan, runs))), plan, runs)
    return runs


def _play_grids(plan: RunPlan, runs: RecipeRuns) -> None:
    """Fill `runs.grids`, which grow where the best cells are at their ends; stops at the first failed run."""
    candidates = list(plan.candidates())
    for _ in range(1 + plan.recipe.extend):
        if not candidates:
            return
        count = sum(len(trial.runs) for trial in candidates)
        print(f"{plural(count, 'run')} to choose settings", file=sys.stderr)
        for cell in _play(candidates, plan, runs):
            runs.grids.setdefault(cell.trial.condition, []).append(cell)
        if runs.code != DONE:
            return
        candidates = list(plan.extensions(runs.grids)) if plan.recipe.extend else []


def _chosen(plan: RunPlan, runs: RecipeRuns) -> dict[Condition, Overrides]:
    """Return the best settings of each condition, for each of its aims."""
    chosen = {}
    for condition, cells in runs.grids.items():
        competitor = plan.recipe.competitors[condition.competitor]
        for aim in plan.aims(competitor):
            chosen[condition._replace(aim=aim)] = choose(cells, aim, competitor).settings
    return chosen


def _play(trials: Sequence[Trial], plan: RunPlan, runs: RecipeRuns) -> list[PlayedTrial]:
    """Return the trials whose runs have all finished; failures are printed, and added to `runs`."""
    jobs = list(dict.fromkeys(chain(*(trial.runs for trial in trials))))
    launcher = plan.launcher or (_ONE_AT_A_TIME if plan.recipe.alone else [])
    words = [plan.job(job) for job in jobs]
    result = sweep(words, launcher, terminal=sys.stderr, kind=plan.kind, shared=plan.shared)
    for job in result.failed:
        runs.failed.append(f"`{job.command}` ({job.reason})")
        print(f"ol2r {plan.recipe.kind}: failed: {as_called(job.command)} ({job.reason})", file=sys.stderr)
    runs.code = runs.code or result.code
    if result.code == INTERRUPTED:
        print("the same command goes on from here", file=sys.stderr)
    path_of_job = dict(zip(jobs, result.directories, strict=True))
    played = []
    for trial in trials:
        paths = [path_of_job[job] for job in trial.runs]
        finished = [path for path in paths if path is not None]
        if len(finished) == len(paths):
            played.append(PlayedTrial(trial, _group_of(finished)))
    return played


def _group_of(paths: Sequence[Path]) -> Group:
    """Return the runs of one trial as a group; ValueError where one is damaged."""
    collected = collect(paths)
    if collected.damaged:
        raise ValueError(f"a run is damaged, {collected.damaged[0]}: type force=true to run it again")
    (group,) = group_runs(collected.runs)
    return group


def dry_run(plan: RunPlan) -> int:
    """Print the runs of a plan without running or writing anything; return the exit code."""
    candidates, final = list(plan.candidates()), list(plan.final())
    runs = chain(*(trial.runs for trial in candidates or final))
    jobs = [[*plan.job(run), *plan.launcher] for run in runs]
    if not jobs:
        print("nothing is run: the figure is about the data")
        return DONE
    if candidates:
        count = sum(len(trial.runs) for trial in final)
        grown = ", more where the best is at the end of a grid" if plan.recipe.extend else ""
        print(f"{len(jobs)} runs to choose settings{grown}, then {count} with those that were chosen\n")
    return print_plan(jobs, plan.composer, kind=plan.kind)
