"""`ol2r benchmark NAME`: published tables and their pages, running them again, adding a ranker to them."""

from __future__ import annotations

import platform
import re
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import polars as pl
import torch

from ol2r_cli.config.catalogue import config_dir
from ol2r_cli.config.composer import expand
from ol2r_cli.formatting import nearest, plus_minus
from ol2r_cli.formatting import show as show_rows
from ol2r_cli.recipes.recipe import Recipe, load_recipe, recipe_names
from ol2r_cli.recipes.reproduce import brief, drawn, print_result
from ol2r_cli.recipes.run_plan import (
    ROLES_OF_A_ROW,
    WITHOUT_EFFECT,
    Condition,
    RecipeRuns,
    RunPlan,
    benchmark_plan,
    by_name,
    role,
    run_recipe,
    value_of,
)
from ol2r_cli.report.comparison import compare_with
from ol2r_cli.report.estimates import LEVEL
from ol2r_cli.report.figures.drawing import NothingToDraw, save
from ol2r_cli.report.finished_run import FinishedRun, read_results, results_frame
from ol2r_cli.report.measures import described, digits, gain, heading
from ol2r_cli.report.run_groups import Group, group_runs
from ol2r_cli.report.text_table import Cell, TextTable, markdown
from ol2r_cli.run import DONE, FAILED, INTERRUPTED
from ol2r_cli.run.identity import RESULTS_VERSION
from ol2r_cli.run.run import Run
from ol2r_cli.run.store import RunDirectory

TEST = "test_ndcg_10"
WITHOUT_CURVE = ("oracle", "random")  # they would take the scale of the others


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
    of_runs: dict[Path, tuple[FinishedRun, list[About]]] = {}
    for run, about in results:
        of_runs.setdefault(run.path, (run, []))[1].append(about)
    runs, rows = zip(*of_runs.values(), strict=True)
    names = [[about.competitor for about in each] for each in rows]
    return results_frame(runs, [{"rows": list(map(asdict, each))} for each in rows], names)


def played(plan: RunPlan, runs: RecipeRuns) -> Results:
    """Return the finished runs of a plan."""
    results = []
    for row in runs.rows:
        trial, edges = row.trial, []  # the chosen settings that are the smallest or the largest number of their grid
        grid = by_name(plan.recipe.competitors[trial.condition.competitor].grid)
        for name in trial.settings if len(set(row.validation)) > 1 else ():
            with suppress(ValueError):  # words have no order
                values = [float(each.partition("=")[2]) for each in expand(grid[name])]
                if len(values) > 1 and float(value_of(trial.settings, name)) in (min(values), max(values)):
                    edges.append(name)
        about = About(
            table=trial.condition.slot,
            competitor=trial.condition.competitor,
            words=[override for name, override in by_name(trial.words).items() if name not in WITHOUT_EFFECT],
            settings=list(trial.settings),
            edges=edges,
            candidates=len(row.validation),
            choice_seconds=round(row.choice_seconds, 1),
        )
        for run in row.group.runs:
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


class Entry(NamedTuple):
    """One row of a table: a competitor on a dataset under a click model."""

    about: About
    group: Group


Tables = dict[tuple[str, str], list[Entry]]  # by dataset and click model


def tables_of(results: Results) -> Tables:
    """Return the tables of results: an entry for the runs of a competitor that differ in nothing but fold and seed."""
    rows: dict[Condition, Results] = {}
    for run, about in results:
        rows.setdefault(about.row(run), []).append((run, about))
    tables: Tables = {}
    for (title, click, _), own in rows.items():
        for group in group_runs(run for run, _ in own):
            tables.setdefault((title, click), []).append(Entry(own[0][1], group))
    return tables


def show(recipe: Recipe, typed: Sequence[str]) -> int:
    """Print the published tables, or those of the datasets and click models that were typed."""
    name = f"{recipe.name} {' '.join(typed)}".rstrip()
    _print(recipe, _published_part(benchmark_plan(recipe, typed), f"{name}: type ol2r benchmark {name} --run"))
    return DONE


def run(recipe: Recipe, typed: Sequence[str], out: Path | None) -> int:
    """Run what is missing of a benchmark and its check, write results and page, print tables; return the exit code."""
    code = DONE
    for scale, file in (("check", f"{recipe.name}_check.parquet"), ("full", f"{recipe.name}.parquet")):
        plan = benchmark_plan(recipe, typed, scale=scale)
        runs, results = _played(plan)
        code = code or runs.code
        if code == INTERRUPTED:
            return INTERRUPTED
        if results:
            directory = RunDirectory(out or plan.output_dir / "benchmark")
            directory.write_parquet(file, as_published(results))
            print(f"written: {directory / file}")
    if results:
        tables = tables_of(results)
        for title, figure in _figure_files(recipe, tables).items():
            groups = {
                Condition(*table, row.about.competitor): row.group
                for table, rows in tables.items()
                for row in rows
                if table[0] == title and row.group.choices["ranker"] not in WITHOUT_CURVE
            }
            with suppress(NothingToDraw):
                save(drawn("learning_curve", groups, bands="none"), directory.path / figure)
        _write_page(recipe, tables, directory)
        _print(recipe, results)
    return code


def _played(plan: RunPlan) -> tuple[RecipeRuns, Results]:
    """Run a plan, after a look at all of its data."""
    plan.check_data()
    runs = run_recipe(plan)
    return runs, [] if runs.code == INTERRUPTED else played(plan, runs)


def add(recipe: Recipe, plan: RunPlan) -> int:
    """Run a ranker of the user's own as the others were run, and print the published tables with it."""
    others = _published_part(plan)
    runs, own = _played(plan)
    if runs.code == INTERRUPTED:
        return INTERRUPTED
    data = {(run.fold, run.fingerprint) for run, _ in others}
    for title in dict.fromkeys(about.table for run, about in own if (run.fold, run.fingerprint) not in data):
        print(f"ol2r benchmark: {title} has other data here than the published results", file=sys.stderr)
    for row in runs.rows:
        if len(row.validation) > 1 and len(set(row.validation)) == 1:
            title, click, _ = row.trial.condition
            print(f"ol2r benchmark: {title}, {click}: all settings have the same validation NDCG@10", file=sys.stderr)
    _print(recipe, [*others, *own])
    print(f"runs: {plan.output_dir / 'benchmark'}")
    return runs.code


def repeat(recipe: Recipe, competitors: Sequence[str], typed: Sequence[str]) -> int:
    """Run published rows again, with their settings, and print whether the numbers are the same; return the exit code.

    competitors: the rows, all if empty. Exit code 1 where numbers differ.
    """
    results = _published_part(benchmark_plan(recipe, typed))
    names = {about.competitor.lower(): about.competitor for _, about in results}
    for name in competitors:
        if name.lower() not in names:
            quoted, near = ", ".join(f"'{each}'" for each in names.values()), nearest(name, list(names.values()))
            raise ValueError(f"--repeat must name rows, {quoted}, got {name}{near}")
    wanted = {names[name.lower()] for name in competitors or names}
    results = [(run, about) for run, about in results if about.competitor in wanted]
    before = {(about.row(run), run.fold): run.values for run, about in results}
    settings = {
        about.row(run): by_name([word for word in about.words if word.partition("=")[0] in about.settings])
        for run, about in results
    }
    runs, repeated = _played(benchmark_plan(recipe, typed, settings=settings))
    lines = []
    for run, about in repeated:
        row, now = about.row(run), run.values
        if earlier := before.get((row, run.fold)):
            same = sum(all(now[seed].get(name) == value for name, value in of.items()) for seed, of in earlier.items())
            apart = max(abs((now[seed].get(TEST) or 0.0) - (of.get(TEST) or 0.0)) for seed, of in earlier.items())
            compared = ["all", ""] if same == len(earlier) else [f"{same} of {len(earlier)}", f"{apart:.4f}"]
            lines.append([row.slot, row.click, str(run.fold or ""), row.competitor, *compared])
    if runs.code != INTERRUPTED:
        equal = sum(line[-2] == "all" for line in lines)
        show_rows(lines, ["data", "click", "fold", "ranker", "seeds the same", "largest difference of NDCG@10"])
        print(f"\n{equal} of {len(lines)} runs have the published numbers in all metrics, to the last digit")
    return runs.code or (DONE if all(line[-2] == "all" for line in lines) else FAILED)


def write_all(folder: Path) -> int:
    """Write the pages of all published results, and the index, without running anything."""
    recipes, directory = (load_recipe("benchmark", name) for name in recipe_names("benchmark")), RunDirectory(folder)
    pages = [(recipe, tables_of(results)) for recipe in recipes if (results := published(recipe.name))]
    if not pages:
        raise ValueError("there are no published results: type ol2r benchmark linear --run --out docs/benchmark")
    for recipe, tables in pages:
        _write_page(recipe, tables, directory)
    directory.write_text("README.md", index(pages))
    print(f"written: {folder / 'README.md'}")
    return DONE


def _published_part(plan: RunPlan, missing: str = "") -> Results:
    """The published results of the datasets, click models and folds of a plan; ValueError where there are none."""
    final, name = list(plan.final()), plan.recipe.name
    tables = {trial.condition[:2] for trial in final}
    folds = {value_of(by_name(run), "dataset.fold") for trial in final for run in trial.runs}
    results = [
        (run, about)
        for run, about in published(name)
        if about.row(run)[:2] in tables and (run.fold is None or str(run.fold) in folds)
    ]
    if not results:
        missing = missing or f"{name} for this: type ol2r benchmark {name}"
        raise ValueError(f"there are no published results of {missing}")
    return results


def _figure_files(recipe: Recipe, tables: Tables) -> dict[str, str]:
    return {title: f"{recipe.name}_{title.lower().replace(', ', '_')}.svg" for title, _ in tables}


def _write_page(recipe: Recipe, tables: Tables, directory: RunDirectory) -> None:
    """Write the page of a benchmark, with those of its figures that are there."""
    figures = {title: file for title, file in _figure_files(recipe, tables).items() if (directory / file).exists()}
    directory.write_text(f"{recipe.name}.md", benchmark_page(recipe, tables, figures))
    print(f"written: {directory / recipe.name}.md")


def _print(recipe: Recipe, results: Results) -> None:
    """Print the tables, with a warning where the results are of an earlier version."""
    if warning := outdated(tables := tables_of(results)):
        print(f"ol2r benchmark: {warning}", file=sys.stderr)
    for (title, click), rows in tables.items():
        folds = sorted({run.fold for row in rows for run in row.group.runs if run.fold is not None})
        every = expand(by_name(recipe.data[title].words).get("dataset.fold", "dataset.fold=1"))
        part = f", fold{'s' * (len(folds) > 1)} {', '.join(map(str, folds))}" * (0 < len(folds) < len(every))
        print(f"\n{title}{part}, {click}\n")
        print_result(result_table(recipe, rows))
    unit = "over folds, or over seeds where there is one fold"
    marks = f"↑ ↓: significantly higher or lower than {recipe.baseline}, paired, Holm's correction for a column"
    print(f"\n± is half the 95 % interval {unit}; {marks}; * at the end of its grid")


def result_table(recipe: Recipe, rows: Sequence[Entry], words: bool = False) -> TextTable:
    """Return one table: best first, by the first metric of the recipe, with marks against its baseline and the costs.

    words: whether settings are those that one types, with the ranker.
    """
    base = next((row for row in rows if row.about.competitor == recipe.baseline), None)
    comparison = compare_with(base.group, [row.group for row in rows], recipe.metrics) if base else None
    places = {metric: _places(rows, metric) for metric in recipe.metrics}
    table = []
    for row in sorted(rows, key=lambda row: places[recipe.metrics[0]].get(row.group, len(rows))):
        typed = []  # of its ranker, exploration and fairness, with * at the end of a grid
        for word in row.about.words:
            name = word.partition("=")[0]
            if role(name) in ROLES_OF_A_ROW and (words or name != "ranker"):
                typed.append((shlex.quote if words else brief)(word) + "*" * (name in row.about.edges))
        cells = [Cell(row.about.competitor + (" (baseline)" if row is base else "")), Cell(" ".join(typed))]
        for metric, place in places.items():
            estimate = row.group.estimate(metric)
            value = "" if estimate is None else plus_minus(estimate.mean, estimate.half_width, digits(metric))
            cells.append(
                Cell(value, comparison.mark(row.group, metric) if comparison else "", place.get(row.group) == 1)
            )
        memory = [run.peak_memory_gb for run in row.group.runs if run.peak_memory_gb is not None]
        seconds = row.group.cpu_seconds
        cost = "" if seconds is None else f"{seconds:,.{1 if seconds < 10 else 0}f}"
        table.append([*cells, Cell(cost), Cell(f"{max(memory):.2f}" if memory else "")])
    numbers = [*map(heading, recipe.metrics), "CPU s", "peak GB"]
    return TextTable.of(["ranker", "words" if words else "settings"], numbers, table).without_empty()


def _places(rows: Iterable[Entry], metric: str) -> dict[Group, int]:
    """Return the place of each row by the mean of a metric: 1 is best, equal ones share the better place.

    Rows without the metric have none, and no row has one where neither direction is better.
    """
    if described(metric).higher_is_better is None:
        return {}
    estimates = {row.group: row.group.estimate(metric) for row in rows}
    gains = {group: gain(metric, estimate.mean) for group, estimate in estimates.items() if estimate is not None}
    return {group: 1 + sum(other > own for other in gains.values()) for group, own in gains.items()}


def outdated(tables: Tables) -> str:
    """Return a line for results that this version of ol2r would not repeat; empty where it would."""
    versions = sorted({entry.group.settings["results_version"] for entry in chain(*tables.values())})
    if all(version == RESULTS_VERSION for version in versions):
        return ""
    made = " and ".join(map(str, versions))
    return f"outdated: made with results_version {made}, and this version of ol2r has {RESULTS_VERSION}"


def benchmark_page(recipe: Recipe, tables: Tables, figures: Mapping[str, str]) -> str:
    """Return the page of a benchmark as markdown. figures: file names of the curves, by the title of the dataset."""
    entries, warning = list(chain(*tables.values())), outdated(tables)
    versions: dict[str, dict[str, None]] = {}  # in the order in which they occur
    for name, version in chain.from_iterable(entry.about.versions.items() for entry in entries):
        versions.setdefault(name, {})[version] = None
    of_results = sorted({str(entry.group.settings["results_version"]) for entry in entries})
    made = ", ".join(
        f"{name} {' and '.join(each)}" for name, each in {**versions, "results_version": of_results}.items()
    )
    hours = sum(entry.group.cpu_seconds or 0 for entry in entries) / 3600
    chosen = sum(entry.about.choice_seconds for entry in entries) / 3600
    edges = any(entry.about.edges for entry in entries)
    parts = [
        f"# {recipe.title}",
        *([f"> **{warning}**"] if warning else []),
        f"{recipe.shows[0].upper()}{recipe.shows[1:]}. What was fixed beforehand, and what the intervals mean: "
        f"[protocol](protocol.md). Written by `ol2r benchmark {recipe.name} --out`; do not edit.",
        f"{sum(len(entry.group.runs) for entry in entries)} runs in {hours:.1f} CPU hours, "
        f"and {chosen:.1f} CPU hours to choose settings. Made with {made}.",
        f"Mean ± half the {LEVEL:.0%} interval. ↑ and ↓: the value is significantly higher or lower than that of "
        f"{recipe.baseline}, paired, after Holm's correction for the rows of a column. "
        "CPU s: of all seeds and folds together. `words` run a row, with the line above the tables and a click model "
        "for CLICK; settings were chosen on validation queries"
        + ("; * marks one at the end of its grid and is not typed." if edges else "."),
    ]
    for title in dict.fromkeys(title for title, _ in tables):
        parts.append(f"## {title}")
        if title in figures:
            parts.append(f"![{heading(TEST)} by round on {title}]({figures[title]})")
        on_title = {click: rows for (dataset, click), rows in tables.items() if dataset == title}
        common = [row.about.words for row in chain(*on_title.values())]
        shared = [word for word in common[0] if all(word in words for words in common)]
        user = [] if any(word.startswith("click=") for word in shared) else ["click=CLICK"]
        parts.append(f"    ol2r run -m {shlex.join([*shared, *user])} WORDS")
        for click, rows in on_title.items():
            parts += [f"### {title}, {click}", markdown(result_table(recipe, rows, words=True))]
    return "\n\n".join(parts) + "\n"


def index(pages: Iterable[tuple[Recipe, Tables]]) -> str:
    """Return the index page: which result to expect of each ranker."""
    parts = [
        "# Expected results",
        "Which result each ranker of `ol2r` gives on data that everybody can have, with settings chosen on validation "
        "queries. The pages have intervals, settings, costs and the command of every row; "
        "[protocol](protocol.md) says what was fixed beforehand, and [findings](findings.md) what follows from it.",
        "    ol2r benchmark linear dataset=mq2008 click=inf                # a table on the terminal\n"
        "    ol2r benchmark linear dataset=mq2008 click=inf --repeat PDGD  # are the numbers the same here?\n"
        "    ol2r benchmark linear --add ranker=mine                       # a ranker of your own in it\n"
        "    ol2r report docs/benchmark/linear.parquet --baseline pdgd --differences     # all differences, with p",
        "Data sets lie in one folder, `data_dir=FOLDER`: [data](../data.md). A page prints mean ± half of the "
        "interval; with folds it is wide because folds differ, and says little about differences, which are paired. "
        "The raw values have a row for each run and seed, and the rows of the tables to which a run belongs:",
        "    import polars as pl\n\n"
        '    values = pl.read_parquet("docs/benchmark/linear.parquet")\n'
        '    values.filter(pl.col("rows").list.contains("PDGD"), dataset="mq2008", click="informational")'
        '["test_ndcg_10"].mean()',
        "Written by `ol2r benchmark --out`; do not edit.",
    ]
    for recipe, tables in pages:
        warning, metrics = outdated(tables), recipe.metrics[:2]
        shown = " / ".join(map(heading, metrics))
        parts += [
            f"## [{recipe.title}]({recipe.name}.md)",
            *([f"> **{warning}**"] if warning else []),
            f"{shown}. Mean rank: by {heading(metrics[0])}, over all columns.",
            markdown(_index_table(tables, metrics)),
        ]
    return "\n\n".join(parts) + "\n"


def _index_table(tables: Tables, metrics: Sequence[str]) -> TextTable:
    """A row for each ranker: its mean place by the first metric, and the means of two metrics in every table."""
    places: dict[str, list[int]] = {}
    for rows in tables.values():
        place = _places(rows, metrics[0])
        for row in rows:
            if row.group in place:
                places.setdefault(row.about.competitor, []).append(place[row.group])
    lines = []
    for competitor in sorted(places, key=lambda name: fmean(places[name])):
        line = [competitor, f"{fmean(places[competitor]):.1f}"]
        for rows in tables.values():
            group = next((row.group for row in rows if row.about.competitor == competitor), None)
            means = []
            for metric in metrics if group else ():
                mean = estimate.mean if group and (estimate := group.estimate(metric)) else None
                shown = 3 if mean is not None and ("ndcg_10" in metric or abs(mean) < 1) else 1
                means.append("-" if mean is None else f"{mean:.{min(shown, digits(metric))}f}")
            line.append(" / ".join(means))
        lines.append(line)
    return TextTable.of(["ranker"], ["mean rank", *(", ".join(table) for table in tables)], lines)
