"""Runs of a recipe, and the choice of settings: for every condition the trial with the best mean validation NDCG@10.

`ol2r_cli.report.selection` chooses from whatever runs a folder holds and never chooses settings of fairness, because
runs with other fairness settings are another task there. Here the recipe says what competes, so that the gain of FairCo
is chosen as in the paper.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ol2r_cli.config.composer import Composer
from ol2r_cli.report.measures import ndcg_metrics
from ol2r_cli.report.run_groups import Group, collect, group_runs
from ol2r_cli.reproduce.run_plan import Condition, Overrides, RunPlan, Trial
from ol2r_cli.run.directory import create_root
from ol2r_cli.run.exit_status import DONE
from ol2r_cli.sweep.sweep_job import SweepJob
from ol2r_cli.sweep.sweep_output import print_plan
from ol2r_cli.sweep.sweeper import sweep


@dataclass
class RecipeRuns:
    """The runs of a recipe: the group of runs of each condition, its settings, and the jobs that failed.

    code: 0, 3 when some jobs failed, 130 when interrupted. candidates: the trials from which the settings of a
    condition were chosen, with their mean validation NDCG@10. choice_seconds: their CPU seconds, as far as their runs
    have recorded them.
    """

    groups: dict[Condition, Group] = field(default_factory=dict)
    settings: dict[Condition, Overrides] = field(default_factory=dict)
    candidates: dict[Condition, dict[Trial, float]] = field(default_factory=dict)
    choice_seconds: dict[Condition, float] = field(default_factory=dict)
    failed: list[SweepJob] = field(default_factory=list)
    code: int = DONE


def run_recipe(plan: RunPlan[Any, Any]) -> RecipeRuns:
    """Run a plan; finished runs are not run again. A condition with a failed run is absent from `groups`."""
    runs = RecipeRuns()
    create_root(plan.output_dir)
    one_at_a_time = ["launcher=processes", "launcher.jobs=1"] if plan.recipe.alone and not plan.launcher else []
    launcher = [*one_at_a_time, *plan.launcher]
    candidates = list(plan.candidates())
    best: Mapping[Condition, Overrides] = {}
    if candidates:
        count = sum(len(trial.runs) for trial in candidates)
        print(f"{count} run{'s' * (count != 1)} to choose settings by validation", file=sys.stderr)
        finished = _run_trials(candidates, plan, launcher, runs)
        if runs.code:
            return runs
        best = best_settings(finished)
        for trial, group in finished.items():
            runs.candidates.setdefault(trial.condition, {})[trial] = validation(trial, group)
            seconds = sum(run.cpu_seconds or 0 for run in group.runs)
            runs.choice_seconds[trial.condition] = runs.choice_seconds.get(trial.condition, 0) + seconds
    for trial, group in _run_trials(list(plan.final(best)), plan, launcher, runs).items():
        runs.groups[trial.condition], runs.settings[trial.condition] = group, trial.settings
    return runs


def best_settings(trials: Mapping[Trial, Group]) -> dict[Condition, Overrides]:
    """The settings with the best validation NDCG@10 of each condition; of equal ones the first in the grid.

    ValueError for runs that were not evaluated on validation queries.
    """
    best: dict[Condition, tuple[float, Trial]] = {}
    for trial, group in trials.items():
        condition, value = trial.condition, validation(trial, group)
        if condition not in best or value > best[condition][0]:
            best[condition] = (value, trial)
    return {condition: trial.settings for condition, (_, trial) in best.items()}


def validation(trial: Trial, group: Group) -> float:
    """The mean validation NDCG@10 of the runs of a trial; ValueError where they were not evaluated so."""
    estimate = group.estimate(ndcg_metrics([group])[1])
    if estimate is None:
        raise ValueError(
            f"settings of {trial.condition.competitor} are chosen by validation, which {group.runs[0].path} lacks: "
            "type dataset.validation=0.2"
        )
    return estimate.mean


def print_trials(plan: RunPlan[Any, Any]) -> int:
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


def _run_trials(
    trials: Sequence[Trial], plan: RunPlan[Any, Any], launcher: Sequence[str], runs: RecipeRuns
) -> dict[Trial, Group]:
    """The group of every trial whose runs have all finished; failures and the exit code are added to `runs`."""
    jobs = list(dict.fromkeys(job for trial in trials for job in trial.runs))
    result = sweep([plan.job(job) for job in jobs], launcher, terminal=sys.stderr)
    runs.failed += result.failed
    runs.code = runs.code or result.code
    directories = {job: path for job, path in zip(jobs, result.directories, strict=True) if path is not None}
    complete = [trial for trial in trials if directories.keys() >= set(trial.runs)]
    return {trial: _group([directories[job] for job in trial.runs]) for trial in complete}


def _group(directories: Sequence[Path]) -> Group:
    """The group of runs that differ in nothing but the fold."""
    collected = collect(directories)
    if collected.damaged:
        raise ValueError(f"a run is damaged, {collected.damaged[0]}: type force=true to run it again")
    (group,) = group_runs(collected.runs)
    return group
