"""Runs of a recipe, and the choice of settings: for every condition the trial with the best mean validation NDCG@10.

`ol2r_cli.report.selection` chooses from whatever runs a folder holds and never chooses settings of fairness, because
runs with other fairness settings are another task there. Here the recipe says what competes, so that the gain of FairCo
is chosen as in the paper.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ol2r_cli.config.composer import Composer
from ol2r_cli.formatting import plural
from ol2r_cli.recipes.run_plan import Condition, Overrides, RunPlan, Trial
from ol2r_cli.report.measures import ndcg_metrics
from ol2r_cli.report.run_groups import Group, collect, group_runs
from ol2r_cli.run.directory import create_root
from ol2r_cli.run.exit_status import DONE, INTERRUPTED
from ol2r_cli.sweep.sweep_output import print_plan
from ol2r_cli.sweep.sweeper import sweep


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
    best: dict[Condition, Overrides] = {}
    if candidates := list(plan.candidates()):
        count = sum(len(trial.runs) for trial in candidates)
        print(f"{plural(count, 'run')} to choose settings by validation", file=sys.stderr)
        finished = _run_trials(candidates, plan, runs)
        if runs.code:
            return runs
        best = best_settings(finished)
        for trial, group in finished.items():
            runs.candidates.setdefault(trial.condition, {})[trial] = _validation(trial, group)
            seconds = sum(run.cpu_seconds or 0 for run in group.runs)
            runs.choice_seconds[trial.condition] = runs.choice_seconds.get(trial.condition, 0) + seconds
    for trial, group in _run_trials(list(plan.final(best)), plan, runs).items():
        runs.groups[trial.condition], runs.settings[trial.condition] = group, trial.settings
    return runs


def best_settings(trials: Mapping[Trial, Group]) -> dict[Condition, Overrides]:
    """The settings with the best validation NDCG@10 of each condition; of equal ones the first in the grid.

    ValueError for runs that were not evaluated on validation queries.
    """
    best: dict[Condition, tuple[float, Overrides]] = {}
    for trial, group in trials.items():
        value = _validation(trial, group)
        if trial.condition not in best or value > best[trial.condition][0]:
            best[trial.condition] = (value, trial.settings)
    return {condition: settings for condition, (_, settings) in best.items()}


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
    """The group of every trial whose runs have all finished; failures are printed, and added to `runs`."""
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
            collected = collect([directories[job] for job in trial.runs], all_versions=True)
            if collected.damaged:
                raise ValueError(f"a run is damaged, {collected.damaged[0]}: type force=true to run it again")
            (groups[trial],) = group_runs(collected.runs)
    return groups
