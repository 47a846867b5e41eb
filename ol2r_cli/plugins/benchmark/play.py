"""Playing a plan: settings are chosen from grids that grow, then the trials that are reported are run.

offline: the best mean NDCG@10 on validation queries after the last round. online: the highest cumulative NDCG@10 of the
choosing seeds. Both are measured with labels. docs/benchmark/protocol.md has the rules, and `report.best_settings`
chooses.
"""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain, product
from pathlib import Path
from typing import Any

from ol2r_cli.config.instantiate import build
from ol2r_cli.lazy import pl, torch
from ol2r_cli.plugins.benchmark.recipe import (
    AIMS,
    BY_CLICKS,
    Competitor,
    Condition,
    Overrides,
    by_name,
    name_of,
)
from ol2r_cli.plugins.benchmark.results import Row, by_condition
from ol2r_cli.plugins.benchmark.run_plan import WITHOUT_EFFECT, RunPlan, Trial, expand_all
from ol2r_cli.report.best_settings import best_cell, best_of, means_of, values_of
from ol2r_cli.report.collection import collect
from ol2r_cli.report.estimates import Values, of_values
from ol2r_cli.report.run_groups import Group, group_runs
from ol2r_cli.run import DONE, INTERRUPTED
from ol2r_cli.run.run import Run
from ol2r_cli.run.store import create_root
from ol2r_cli.sweep.sweeper import print_plan, sweep
from ol2r_cli.text.formatting import plural
from ol2r_cli.text.program import as_called

FACTOR = 3  # by which a grid grows beyond an end at which its best cell is
_ONE_AT_A_TIME = ["launcher=processes", "launcher.jobs=1", "launcher.batch=1"]
_CHOICE_METRICS = (*AIMS.values(), "unfairness", "dynamic_regret")  # of choosing runs


@dataclass
class RecipeRuns:
    """The rows that are reported, and a line for each job that failed. code: 0, 3 when some failed, 130 interrupted.

    grids: the cells that settings were chosen from, by condition without an aim. A row with a failed run is absent.
    """

    rows: list[Row] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    code: int = DONE
    grids: dict[Condition, list[Row]] = field(default_factory=dict)

    def cells(self, condition: Condition) -> Sequence[Row]:
        """Return what the settings of a condition were chosen from; empty without a choice."""
        return self.grids.get(condition._replace(aim=""), ())


def run_recipe(plan: RunPlan) -> RecipeRuns:
    """Run a plan; finished runs are not run again."""
    runs = RecipeRuns()
    create_root(plan.output_dir)
    _play_grids(plan, runs)
    if runs.code == DONE:
        chosen = {}
        for condition, cells in runs.grids.items():
            competitor = plan.recipe.competitors[condition.competitor]
            for aim in plan.aims(competitor):
                chosen[condition._replace(aim=aim)] = choose(cells, aim, competitor).settings
        runs.rows += _play(list(plan.final(chosen)), plan, runs)
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
            runs.grids.setdefault(cell.condition, []).append(cell)
        if runs.code != DONE:
            return
        candidates = list(extensions(plan, runs.grids)) if plan.recipe.extend else []


def _play(trials: Sequence[Trial], plan: RunPlan, runs: RecipeRuns) -> list[Row]:
    """Return the rows of trials whose runs have all finished; failures are printed, and added to `runs`."""
    jobs = list(dict.fromkeys(chain(*(trial.runs for trial in trials))))
    launcher = plan.launcher or (_ONE_AT_A_TIME if plan.recipe.alone else [])
    words = [plan.job(job) for job in jobs]
    result = sweep(words, launcher, terminal=sys.stderr, kind=plan.kind, shared=plan.shared)
    for job in result.failed:
        runs.failed.append(f"`{job.command}` ({job.reason})")
        print(f"ol2r {plan.recipe.command}: failed: {as_called(job.command)} ({job.reason})", file=sys.stderr)
    runs.code = runs.code or result.code
    if result.code == INTERRUPTED:
        print("the same command goes on from here", file=sys.stderr)
    path_of_job = dict(zip(jobs, result.directories, strict=True))
    rows = []
    for trial in trials:
        paths = [path_of_job[job] for job in trial.runs]
        finished = [path for path in paths if path is not None]
        if len(finished) == len(paths):
            rows.append(Row(trial.condition, trial.settings, trial.words, _group_of(finished)))
    return rows


def _group_of(paths: Sequence[Path]) -> Group:
    """Return the runs of one trial as a group; ValueError where one is damaged."""
    collected = collect(paths)
    if collected.damaged:
        raise ValueError(f"a run is damaged, {collected.damaged[0]}: type force=true to run it again")
    (group,) = group_runs(collected.runs)
    return group


def choose(cells: Sequence[Row], aim: str, competitor: Competitor) -> Row:
    """Return the best cell for an aim, the first of equal ones; ValueError for cells without validation.

    Unstable ones are chosen only where they are clearly better.
    """
    cell_of_group = {cell.group: cell for cell in cells}
    unstable = {*expand_all(competitor.unstable)}
    unstable_cells = [cell.group for cell in cells if not unstable.isdisjoint(cell.settings.values())]
    return cell_of_group[best_cell(list(cell_of_group), _chosen_by(aim), unstable_cells)]


def chosen_settings(runs: pl.DataFrame, aim: str, unstable: Collection[str] = ()) -> str:
    """Return the settings that choosing runs in a file choose for an aim, as `choose` does.

    runs: those of one condition, rows of `choice_frame`. unstable: settings, as in a competitor.
    """
    values: dict[str, dict[Any, float]] = {}
    for settings, fold, seed, value in runs.select("settings", "fold", "seed", AIMS[aim]).iter_rows():
        values.setdefault(settings, {})[fold, seed] = value
    estimates = {settings: of_values(of_cell) for settings, of_cell in values.items()}
    means = {settings: estimate.mean for settings, estimate in estimates.items() if estimate is not None}
    marked = [settings for settings in values if not set(unstable).isdisjoint(settings.split())]
    return best_of(values, means, marked)


def _chosen_by(aim: str) -> str:
    """Return how a cell is chosen for an aim; '' stands for one choice, as in papers."""
    return "validation" if aim in ("", "offline") else aim


def are_equally_good(cells: Sequence[Row], aim: str) -> bool:
    """Return whether there are several cells, and all have the same mean of what is maximised for an aim."""
    means = means_of([cell.group for cell in cells], _chosen_by(aim)) if len(cells) > 1 else {}
    return len(cells) > 1 and len(set(means.values())) == 1


def at_an_end(cells: Sequence[Row], chosen: Overrides) -> Iterator[tuple[str, float]]:
    """Yield the settings that have the smallest or largest number of the grid, each with the next number beyond it."""
    for name, override in chosen.items():
        numbers = _numbers((cell.settings for cell in cells), name)
        if not numbers:
            continue
        value = float(override.partition("=")[2])
        if value <= 0:
            continue
        if value == numbers[0]:
            yield name, float(f"{value / FACTOR:.2g}")
        elif value == numbers[-1]:
            yield name, float(f"{value * FACTOR:.2g}")


def _numbers(settings: Iterable[Overrides], name: str) -> list[float]:
    """Return the numbers that a setting has, in order; empty where it has words or one value."""
    with suppress(ValueError):  # words have no order
        numbers = sorted({float(overrides[name].partition("=")[2]) for overrides in settings})
        return numbers if len(numbers) > 1 else []
    return []


def beyond_the_ends(cells: Sequence[Row], competitor: Competitor) -> list[Overrides]:
    """Return settings beyond the ends at which the best ones for an aim are; empty where they are inside.

    A new number is combined with all values of the other settings.
    """
    values = {name: list(dict.fromkeys(cell.settings[name] for cell in cells)) for name in cells[0].settings}
    added: dict[tuple[str, ...], Overrides] = {}  # by the overrides, so that both aims add the same settings once
    for aim in AIMS:
        for name, number in at_an_end(cells, choose(cells, aim, competitor).settings):
            grown = values | {name: [f"{name}={number:g}"]}
            for words in product(*grown.values()):
                added[words] = {name_of(word): word for word in words}
    return list(added.values())


def extensions(plan: RunPlan, grids: Mapping[Condition, Sequence[Row]]) -> Iterator[Trial]:
    """Yield trials beyond the ends of grids; the end of what a setting may be ends a grid, too."""
    for condition, cells in grids.items():
        words = by_name(cells[0].words)
        for settings in beyond_the_ends(cells, plan.recipe.competitors[condition.competitor]):
            trial = Trial(condition, settings, tuple((words | settings).values()))
            if _is_possible(trial, plan):
                yield trial


def _is_possible(trial: Trial, plan: RunPlan) -> bool:
    """Return whether the ranker and the exploration can be built with the settings of a trial."""
    config = plan.composer(trial.runs[0]).config
    with suppress(ValueError):
        return all(build(config[part]) is not None for part in ("ranker", "exploration"))
    return False


def rows_of_benchmark(runs: RecipeRuns) -> list[Row]:
    """Return the finished rows of a benchmark as they are published, with what their settings were chosen from."""
    choices = by_condition(choice_frame(runs.grids))
    rows = []
    for row in runs.rows:
        made = {run.id: Run.read_finished(run.path).manifest["versions"] for run in row.group.runs}
        cells = runs.cells(row.condition)
        edges = [] if are_equally_good(cells, row.aim) else [name for name, _ in at_an_end(cells, row.settings)]
        published = replace(
            row,
            words=[override for name, override in by_name(row.words).items() if name not in WITHOUT_EFFECT],
            edges=edges,
            candidates=len(cells),
            choice_seconds=round(sum(cell.group.cpu_seconds or 0 for cell in cells), 1),
            choices=choices.get(row.condition[:3]),
            versions={run: versions | {"processor": processor()} for run, versions in made.items()},
        )
        rows.append(published)
    return rows


def processor() -> str:
    """Return the name of the processor of this machine, as far as it is known, and the instructions that torch uses.

    One name, such as AMD EPYC, may stand for several generations, which round differently.
    """
    linux = Path("/proc/cpuinfo")
    text = linux.read_text(encoding="utf-8") if linux.exists() else ""
    model = re.search(r"^model name\s*:(.*)", text, re.MULTILINE)
    name = model[1].strip() if model else platform.processor()
    return f"{name} ({torch.backends.cpu.get_cpu_capability()})"


def choice_frame(grids: Mapping[Condition, Sequence[Row]]) -> pl.DataFrame:
    """Return a row for each cell of a grid, fold and choosing seed, with the metrics of a choice."""
    rows: list[dict[str, Any]] = []
    for condition, cells in grids.items():
        by_clicks: dict[str, Mapping[Group, Values]] = {}
        if cells[0].group.runs[0].settings.get("validation_sessions"):
            by_clicks = {metric: values_of([cell.group for cell in cells], aim) for aim, metric in BY_CLICKS.items()}
        for cell in cells:
            values: dict[str, Values] = {
                metric: cell.group.values(metric) for metric in _CHOICE_METRICS if metric in cell.group.metrics
            }
            values |= {metric: of_cells[cell.group] for metric, of_cells in by_clicks.items()}
            rows += _choosing_rows(condition, cell, values)
    if rows:
        return pl.from_dicts(rows, infer_schema_length=None)
    return pl.DataFrame(schema={"table": str, "click": str, "competitor": str, "settings": str})


def _choosing_rows(condition: Condition, cell: Row, values: Mapping[str, Values]) -> list[dict[str, Any]]:
    units = next(iter(values.values()))
    rows = []
    for fold, seed in units:
        row = {
            "table": condition.data,
            "click": condition.click,
            "competitor": condition.competitor,
            "settings": " ".join(cell.settings.values()),
            "fold": fold,
            "seed": seed,
        }
        rows.append(row | {metric: by_unit.get((fold, seed)) for metric, by_unit in values.items()})
    return rows


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
