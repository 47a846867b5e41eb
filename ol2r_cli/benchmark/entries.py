"""Rows of the benchmark's tables: groups of runs with their names, the choice of their settings, and its cost."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ol2r_cli.benchmark.benchmark_plan import WITHOUT_EFFECT, BenchmarkPlan
from ol2r_cli.config.catalogue import config_dir
from ol2r_cli.config.composer import expand
from ol2r_cli.report.finished_run import FinishedRun
from ol2r_cli.report.results_file import read_results, results_frame
from ol2r_cli.report.run_groups import Group, group_runs
from ol2r_cli.reproduce.recipe_runs import RecipeRuns
from ol2r_cli.reproduce.run_plan import Condition, Overrides, by_name
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

    def row(self, run: FinishedRun) -> tuple[str, str, str]:
        """Which row of which table a run belongs to: dataset, click model, competitor."""
        return self.table, run.choices["click"], self.competitor


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

    @property
    def peak_memory_gb(self) -> float | None:
        """The largest of its runs."""
        return max((run.peak_memory_gb for run in self.group.runs if run.peak_memory_gb is not None), default=None)


def published_dir() -> Path:
    """The folder of the published results: docs/benchmark of a checkout, or a folder of the installed package."""
    beside = config_dir().parent / "docs" / "benchmark"
    return beside if beside.is_dir() else Path(__file__).parents[1] / "published"


def results_file(name: str, check: bool = False) -> str:
    """The name of the file with the results of a benchmark, or with those of its check: a few rounds."""
    return f"{name}_check.parquet" if check else f"{name}.parquet"


def published(name: str, check: bool = False) -> list[tuple[FinishedRun, About]]:
    """The published results of a benchmark, or those of its check; empty where there are none.

    A run that belongs to several rows occurs once for each.
    """
    file = published_dir() / results_file(name, check)
    if not file.is_file():
        return []
    return [(run, About(**row)) for run, about in read_results(file) for row in about["rows"]]


def as_published(results: Iterable[tuple[FinishedRun, About]]) -> pl.DataFrame:
    """The table that `published` reads, with every run once."""
    runs, abouts = _by_path(results)
    about = [{"rows": [asdict(row) for row in rows]} for rows in abouts.values()]
    return results_frame(list(runs.values()), about, [[row.competitor for row in rows] for rows in abouts.values()])


def played(plan: BenchmarkPlan, runs: RecipeRuns) -> list[tuple[FinishedRun, About]]:
    """The finished runs of a plan."""
    words = {trial.condition: trial.words for trial in plan.final(runs.settings)}
    return [
        (run, _about(plan, runs, condition, words[condition], run))
        for condition, group in runs.groups.items()
        for run in group.runs
    ]


def _about(
    plan: BenchmarkPlan, runs: RecipeRuns, condition: Condition, words: Sequence[str], run: FinishedRun
) -> About:
    named, values = by_name(words), list(runs.candidates.get(condition, {}).values())
    grid = by_name(plan.recipe.competitors[condition.competitor].grid)
    return About(
        table=condition.slot,
        competitor=condition.competitor,
        words=[override for name, override in named.items() if name not in WITHOUT_EFFECT],
        settings=list(runs.settings[condition]),
        edges=_at_the_edge(grid, runs.settings[condition]) if len(set(values)) > 1 else [],
        candidates=len(values),
        choice_seconds=round(runs.choice_seconds.get(condition, 0.0), 1),
        versions=RunDirectory(run.path).read_json("run.json")["versions"] | {"processor": processor()},
    )


def _at_the_edge(grid: Overrides, chosen: Overrides) -> list[str]:
    """The chosen settings that are the smallest or the largest number of their grid."""
    found = []
    for name, override in chosen.items():
        try:
            values = [float(each.partition("=")[2]) for each in expand(grid[name])]
        except ValueError:  # words have no order
            continue
        if len(values) > 1 and float(override.partition("=")[2]) in (min(values), max(values)):
            found.append(name)
    return found


def processor() -> str:
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


def entries(results: Iterable[tuple[FinishedRun, About]]) -> list[Entry]:
    """Runs of a competitor that differ in nothing but fold and seed are one entry, with what the first run says.

    A run may belong to two competitors whose chosen settings are the same.
    """
    runs, abouts = _by_path(results)
    rows = []
    for group in group_runs(runs.values()):
        members: dict[str, list[FinishedRun]] = {}
        for run in group.runs:
            for about in abouts[run.path]:
                members.setdefault(about.competitor, []).append(run)
        for competitor, own in members.items():
            first = next(about for about in abouts[own[0].path] if about.competitor == competitor)
            rows.append(Entry(first, replace(group, runs=own)))
    return rows


def _by_path(
    results: Iterable[tuple[FinishedRun, About]],
) -> tuple[dict[Path, FinishedRun], dict[Path, list[About]]]:
    """Every run once, and the rows to which it belongs."""
    runs: dict[Path, FinishedRun] = {}
    abouts: dict[Path, list[About]] = {}
    for run, about in results:
        runs[run.path] = run
        abouts.setdefault(run.path, []).append(about)
    return runs, abouts
