"""The results of benchmarks: published tables and choices, and those of runs that were just played."""

from __future__ import annotations

import platform
import re
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from ol2r_cli.config.catalogue import config_dir
from ol2r_cli.lazy import pl, torch
from ol2r_cli.recipes.choices import AIMS, at_an_end
from ol2r_cli.recipes.run_plan import WITHOUT_EFFECT, Condition, RecipeRow, RecipeRuns, RunPlan, by_name, expand_all
from ol2r_cli.report.finished_run import FinishedRun, read_results, results_frame
from ol2r_cli.run.run import Run, scan

TEST = "test_ndcg_10"


@dataclass(frozen=True)
class About:
    """What the results of a run say of themselves beside its settings; published with them.

    table: the title of the dataset. words: overrides of the row on one line of `ol2r run`. settings: the names of those
    that were chosen. edges: those at an end of their grid. candidates: how many settings they were chosen from.
    choice_seconds: the CPU seconds of that. versions: of ol2r and its libraries, and the processor. aim: for which
    settings were chosen, '' without a choice. unstable: whether another processor gives other results.
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
    unstable: bool = False

    def row(self, run: FinishedRun) -> Condition:
        """Return which row of which table a run belongs to."""
        return Condition(self.table, run.choices["click"], self.competitor, self.aim)


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


def published_choices(name: str) -> pl.DataFrame | None:
    """Return the choosing runs of published results, as `choice_frame` has them; None where there are none."""
    file = published_dir() / f"{name}_choice.parquet"
    return scan(file).collect() if file.is_file() else None


def as_published(results: Results) -> pl.DataFrame:
    """Return the table that `published` reads, with every run once. NDCG at other cut-offs than 10 is left out."""
    of_runs: dict[Path, tuple[FinishedRun, list[About]]] = {}
    for run, about in results:
        of_runs.setdefault(run.path, (run, []))[1].append(about)
    runs, rows = zip(*of_runs.values(), strict=True)
    names = [[", ".join(filter(None, (about.competitor, about.aim))) for about in each] for each in rows]
    frame = results_frame(runs, [{"rows": list(map(asdict, each))} for each in rows], names)
    return frame.select(pl.exclude(r"^.*_ndcg_[135](_untrained)?$"))


def played(plan: RunPlan, runs: RecipeRuns) -> Results:
    """Return the finished runs of a plan."""
    results = []
    for row in runs.rows:
        trial, cells = row.trial, row.cells
        chosen = next((each for each in cells if each.settings == trial.settings), None)
        about = About(
            table=trial.condition.slot,
            competitor=trial.condition.competitor,
            words=[override for name, override in by_name(trial.words).items() if name not in WITHOUT_EFFECT],
            settings=list(trial.settings),
            edges=[name for name, _ in at_an_end(cells, chosen)] if chosen and not indifferent(row) else [],
            candidates=len(cells),
            choice_seconds=round(sum(each.group.cpu_seconds or 0 for each in cells), 1),
            aim=trial.condition.aim,
            unstable=any(
                word in trial.settings.values()
                for word in expand_all(plan.recipe.competitors[trial.condition.competitor].unstable)
            ),
        )
        for run in row.group.runs:
            versions = Run.read_finished(run.path).manifest["versions"] | {"processor": processor()}
            results.append((run, replace(about, versions=versions)))
    return results


def indifferent(row: RecipeRow) -> bool:
    """Return whether settings were chosen among several that are equally good."""
    return len(row.cells) > 1 and len({each.mean(row.trial.condition.aim or AIMS[0]) for each in row.cells}) == 1


def processor() -> str:
    """The name of the processor of this machine, as far as the system tells, and the instructions that torch uses.

    One name, such as AMD EPYC, may stand for several generations, which round differently.
    """
    linux = Path("/proc/cpuinfo")
    named = (
        re.search(r"^model name\s*:(.*)", linux.read_text(encoding="utf-8"), re.MULTILINE) if linux.exists() else None
    )
    name = named[1].strip() if named else platform.processor()
    return f"{name} ({torch.backends.cpu.get_cpu_capability()})"
