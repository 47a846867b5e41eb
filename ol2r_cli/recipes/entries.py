"""Rows of the benchmark's tables: groups of runs with their names, the choice of their settings, and its cost."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ol2r_cli.config.catalogue import config_dir
from ol2r_cli.config.composer import expand
from ol2r_cli.recipes.recipe_runs import RecipeRuns
from ol2r_cli.recipes.run_plan import WITHOUT_EFFECT, Condition, Overrides, RunPlan, by_name
from ol2r_cli.report.finished_run import FinishedRun
from ol2r_cli.report.results_file import read_results, results_frame
from ol2r_cli.report.run_groups import Group, group_runs
from ol2r_cli.run.directory import RunDirectory

if TYPE_CHECKING:
    import polars as pl


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
        """Which row of which table a run belongs to."""
        return Condition(self.table, run.choices["click"], self.competitor)


Results = list[tuple[FinishedRun, About]]  # a run that belongs to several rows occurs once for each


@dataclass(frozen=True, eq=False)
class Entry:
    """One row of a table: a competitor on a dataset under a click model."""

    about: About
    group: Group

    @property
    def table(self) -> tuple[str, str]:
        """The table to which it belongs: dataset and click model."""
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
    """The published results of a benchmark, those of its check for NAME_check; empty where there are none."""
    file = published_dir() / f"{name}.parquet"
    if not file.is_file():
        return []
    return [(run, About(**row)) for run, about in read_results(file) for row in about["rows"]]


def as_published(results: Results) -> pl.DataFrame:
    """The table that `published` reads, with every run once."""
    runs, abouts = _by_path(results)
    about = [{"rows": [asdict(row) for row in rows]} for rows in abouts.values()]
    return results_frame(list(runs.values()), about, [[row.competitor for row in rows] for rows in abouts.values()])


def played(plan: RunPlan, runs: RecipeRuns) -> Results:
    """The finished runs of a plan."""
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
            versions = RunDirectory(run.path).read_json("run.json")["versions"] | {"processor": _processor()}
            results.append((run, replace(about, versions=versions)))
    return results


def _at_the_edge(grid: Overrides, chosen: Overrides) -> list[str]:
    """The chosen settings that are the smallest or the largest number of their grid."""
    edges = []
    for name, override in chosen.items():
        with suppress(ValueError):  # words have no order
            values = [float(each.partition("=")[2]) for each in expand(grid[name])]
            if len(values) > 1 and float(override.partition("=")[2]) in (min(values), max(values)):
                edges.append(name)
    return edges


def _processor() -> str:
    """The name of the processor of this machine, as far as the system tells, and the instructions that torch uses.

    One name, such as AMD EPYC, may stand for several generations, which round differently.
    """
    import torch

    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    except OSError:  # not Linux
        name = platform.processor()
    return f"{name} ({torch.backends.cpu.get_cpu_capability()})"


def entries(results: Results) -> list[Entry]:
    """Runs of a competitor that differ in nothing but fold and seed are one entry, with what the first run says.

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
    """Every run once, and the rows to which it belongs."""
    abouts: dict[Path, list[About]] = {}
    for run, about in results:
        abouts.setdefault(run.path, []).append(about)
    return {run.path: run for run, _ in results}, abouts
