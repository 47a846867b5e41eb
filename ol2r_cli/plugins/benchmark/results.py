"""The results of benchmarks: published tables and choices, and those of runs that were just played."""

from __future__ import annotations

import platform
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from ol2r_cli.config.catalogue import config_dir
from ol2r_cli.lazy import pl, torch
from ol2r_cli.plugins.benchmark.benchmark_plan import WITHOUT_EFFECT
from ol2r_cli.plugins.benchmark.grid import are_equally_good, at_an_end
from ol2r_cli.plugins.benchmark.overrides import by_name, value_of
from ol2r_cli.plugins.benchmark.play import RecipeRuns
from ol2r_cli.plugins.benchmark.published import read_results, results_frame
from ol2r_cli.plugins.benchmark.run_plan import RunPlan
from ol2r_cli.plugins.benchmark.trials import AIMS, BY_CLICKS, Condition, PlayedTrial
from ol2r_cli.report.best_settings import values_of
from ol2r_cli.report.estimates import Values
from ol2r_cli.report.finished_run import FinishedRun
from ol2r_cli.report.run_groups import Group
from ol2r_cli.run.run import Run, scan

TEST = "test_ndcg_10"
PROCESSORS_FILE = "processors.parquet"  # of scripts/processors.py
_CHOICE_METRICS = (*AIMS.values(), "unfairness", "dynamic_regret")  # of choosing runs


@dataclass(frozen=True)
class About:
    """What the results of a run say of themselves beside its settings; published with them.

    table: the title of the dataset. words: overrides of the row on one line of `ol2r run`. settings: the names of those
    that were chosen. edges: those at an end of their grid. candidates: how many settings they were chosen from.
    choice_seconds: the CPU seconds of that. versions: of ol2r and its libraries, and the processor. aim: for which
    settings were chosen, '' without a choice.
    """

    table: str
    competitor: str
    words: list[str]
    settings: list[str] = field(default_factory=list)
    edges: list[str] = field(default_factory=list)
    candidates: int = 0
    choice_seconds: float = 0.0
    versions: dict[str, str] = field(default_factory=dict)
    aim: str = ""

    def row(self, run: FinishedRun) -> Condition:
        """Return which row of which table a run belongs to."""
        return Condition(self.table, run.choices["click"], self.competitor, self.aim)

    @property
    def row_name(self) -> str:
        """Return the competitor, with the aim where settings were chosen for one."""
        return f"{self.competitor}, {self.aim}" if self.aim else self.competitor


Results = list[tuple[FinishedRun, About]]  # a run that belongs to several rows occurs once for each


def published_dir() -> Path:
    """Return the folder of the published results, of a checkout or within an installed package."""
    beside = config_dir().parent / "docs" / "benchmark"
    return beside if beside.is_dir() else Path(__file__).parents[2] / "published"


def published(name: str) -> Results:
    """Return the published results of a benchmark, those of its check for NAME_check; empty where there are none."""
    file = published_dir() / f"{name}.parquet"
    if not file.is_file():
        return []
    results: Results = []
    for run, about in read_results(file):
        # files that were published before processors.parquet also say `unstable`, by a list of rates
        rows = [{name: value for name, value in row.items() if name != "unstable"} for row in about["rows"]]
        results += [(run, About(**row)) for row in rows]
    return results


def published_choices(name: str) -> pl.DataFrame | None:
    """Return the choosing runs of published results, as `choice_frame` has them; None where there are none."""
    file = published_dir() / f"{name}_choice.parquet"
    return scan(file).collect() if file.is_file() else None


@cache
def _differing(file: Path) -> frozenset[str]:
    if not file.is_file():
        return frozenset()
    return frozenset(pl.read_parquet(file).filter("differs")["overrides"])


def differs_elsewhere(about: About) -> bool:
    """Return whether the settings of a row gave other results with fewer instructions: the mark ‡; not if untried."""
    return shlex.join(about.words) in _differing(published_dir() / PROCESSORS_FILE)


def published_part(plan: RunPlan) -> Results:
    """Return the published results of the datasets, click models and folds of a plan; ValueError where none are."""
    tables: set[tuple[str, str]] = set()
    folds: set[str] = set()  # empty text for data without folds
    for trial in plan.final():
        tables.add((trial.condition.slot, trial.condition.click))
        folds.update(value_of(by_name(run), "dataset.fold") for run in trial.runs)
    results = []
    for run, about in published(plan.recipe.name):
        row = about.row(run)
        if (row.slot, row.click) in tables and (run.fold is None or str(run.fold) in folds):
            results.append((run, about))
    if not results:
        name = plan.recipe.name
        raise ValueError(f"there are no published results of {name} for this: type ol2r benchmark {name} --run")
    return results


def as_published(results: Results) -> pl.DataFrame:
    """Return the table that `published` reads, with every run once. NDCG at other cut-offs than 10 is left out."""
    runs = {run.path: run for run, _ in results}
    rows: dict[Path, list[About]] = {}
    for run, about in results:
        rows.setdefault(run.path, []).append(about)
    names = [[about.row_name for about in of_run] for of_run in rows.values()]
    contents = [{"rows": list(map(asdict, of_run))} for of_run in rows.values()]
    frame = results_frame(list(runs.values()), contents, names)
    return frame.select(pl.exclude(r"^.*_ndcg_[135](_untrained)?$"))


def played(plan: RunPlan, runs: RecipeRuns) -> Results:
    """Return the finished runs of a plan."""
    results = []
    for row in runs.rows:
        about = _about(row, plan, runs)
        for run in row.group.runs:
            versions = Run.read_finished(run.path).manifest["versions"] | {"processor": processor()}
            results.append((run, replace(about, versions=versions)))
    return results


def _about(row: PlayedTrial, plan: RunPlan, runs: RecipeRuns) -> About:
    """Return what the results of a row say of themselves, without the versions of each run."""
    condition = row.trial.condition
    cells = runs.cells(condition)
    edges = [] if are_equally_good(cells, condition.aim) else [name for name, _ in at_an_end(cells, row.settings)]
    return About(
        table=condition.slot,
        competitor=condition.competitor,
        words=[override for name, override in by_name(row.trial.words).items() if name not in WITHOUT_EFFECT],
        settings=list(row.settings),
        edges=edges,
        candidates=len(cells),
        choice_seconds=round(sum(cell.group.cpu_seconds or 0 for cell in cells), 1),
        aim=condition.aim,
    )


def choice_frame(grids: Mapping[Condition, Sequence[PlayedTrial]]) -> pl.DataFrame:
    """Return a row for each cell of a grid, fold and choosing seed, with the metrics of a choice."""
    rows: list[dict[str, Any]] = []
    for condition, cells in grids.items():
        by_clicks = _values_by_clicks([cell.group for cell in cells])
        for cell in cells:
            values: dict[str, Values] = {
                metric: cell.group.values(metric) for metric in _CHOICE_METRICS if metric in cell.group.metrics
            }
            values |= {metric: of_cells[cell.group] for metric, of_cells in by_clicks.items()}
            rows += _choosing_rows(condition, cell, values)
    if rows:
        return pl.from_dicts(rows, infer_schema_length=None)
    return pl.DataFrame(schema={"table": str, "click": str, "competitor": str, "settings": str})


def _values_by_clicks(cells: Sequence[Group]) -> dict[str, Mapping[Group, Values]]:
    """Return what clicks say of cells, by the metrics of `BY_CLICKS`; empty where they have no validation sessions."""
    if not cells[0].runs[0].settings.get("validation_sessions"):
        return {}
    return {metric: values_of(cells, aim) for aim, metric in BY_CLICKS.items()}


def _choosing_rows(condition: Condition, cell: PlayedTrial, values: Mapping[str, Values]) -> list[dict[str, Any]]:
    units = next(iter(values.values()))
    rows = []
    for fold, seed in units:
        row = {
            "table": condition.slot,
            "click": condition.click,
            "competitor": condition.competitor,
            "settings": " ".join(cell.settings.values()),
            "fold": fold,
            "seed": seed,
        }
        rows.append(row | {metric: by_unit.get((fold, seed)) for metric, by_unit in values.items()})
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
