"""What `ol2r reproduce` and `ol2r benchmark` do: run recipes, show published tables, or add a ranker to them."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ol2r_cli.config.composer import expand
from ol2r_cli.formatting import nearest
from ol2r_cli.formatting import show as show_rows
from ol2r_cli.recipes import recipe_pages as pages
from ol2r_cli.recipes.recipe import Recipe, load_recipe, recipe_names
from ol2r_cli.recipes.recipe_runs import (
    Entry,
    RecipeRuns,
    Results,
    as_published,
    entries,
    played,
    print_trials,
    published,
    run_recipe,
)
from ol2r_cli.recipes.run_plan import Condition, RunPlan, benchmark_plan, by_name
from ol2r_cli.report.figures.drawing import NothingToDraw, draw, save
from ol2r_cli.report.finished_run import FinishedRun, by_seed
from ol2r_cli.report.names import Labels
from ol2r_cli.report.run_groups import Group
from ol2r_cli.report.text_table import TextTable, markdown, terminal
from ol2r_cli.run.exit_status import DONE, FAILED, INTERRUPTED
from ol2r_cli.run.store import RunDirectory, create_root

TEST = "test_ndcg_10"
WITHOUT_CURVE = ("oracle", "random")  # they would take the scale of the others
_FONT_SIZE = 7  # of the line above a figure, in points
_CHARACTERS = 16  # in an inch of this line
_WARNING_COLOUR = "#8a1c00"


def reproduce(plan: RunPlan, out: Path | None = None) -> int:
    """Run what is missing, write figures, table.csv and README.md, print the table; return the exit code.

    `out` is the folder to write to, by default <output_dir>/reproduce/<name>. ValueError, before anything is run, for
    missing data and a bad configuration.
    """
    plan.check_data()
    warning = pages.caveat(plan)
    print(warning or pages.protocol_line(plan))
    runs = run_recipe(plan) if plan.recipe.competitors else RecipeRuns()
    if runs.code == INTERRUPTED:
        return INTERRUPTED
    values = pages.run_values(plan, runs) if plan.recipe.competitors else pages.data_values(plan)
    create_root(plan.output_dir)
    directory = RunDirectory(out or plan.output_dir / "reproduce" / plan.recipe.name)
    figures = list(_draw_figures(plan, runs, directory.path))
    directory.write_text("table.csv", pages.as_csv(values, plan.scale))
    directory.write_text("README.md", pages.paper_page(plan, runs, values, figures))
    # the warning is repeated below the numbers
    _print_table(pages.comparison_table(values, comparable=not warning, settings=False), [warning] if warning else [])
    for path in [*figures, directory / "README.md"]:
        print(f"written: {path}")
    return runs.code


def _draw_figures(plan: RunPlan, runs: RecipeRuns, folder: Path) -> Iterator[Path]:
    """Draw the figures of a recipe into a folder and yield their png files; ValueError for runs that lack data."""
    for spec in plan.recipe.figures:
        groups = {each: group for each, group in runs.groups.items() if not spec.click or each.click in spec.click}
        if groups:
            figure = _drawn(spec.kind, groups, **spec.options)
            # a wrapped text above the figure, which grows by the height of the text
            width, height = figure.get_size_inches()
            lines = textwrap.wrap(pages.caveat(plan) or pages.protocol_line(plan), int(width * _CHARACTERS))
            figure.set_size_inches(width, height + (len(lines) + 0.5) * _FONT_SIZE * 1.3 / 72)
            figure.suptitle("\n".join(lines), fontsize=_FONT_SIZE, fontweight="bold", color=_WARNING_COLOUR)
            for suffix in ("png", "svg", "pdf"):
                save(figure, folder / f"{spec.kind}.{suffix}")
            yield folder / f"{spec.kind}.png"


def _drawn(kind: str, groups: Mapping[Condition, Group], **options: Any) -> Any:
    """Return a figure in which groups have the names of their competitors."""
    names = {group: condition.competitor for condition, group in groups.items()}
    return draw(kind, list(names), Labels(list(names), names), **options)


def _print_table(table: TextTable, notes: Sequence[str] = ()) -> None:
    if sys.stdout.isatty():
        terminal([table], notes)
    else:
        print(markdown(table), *notes, sep="\n\n")


def show(recipe: Recipe, typed: Sequence[str]) -> int:
    """Print the published tables, or those of the datasets and click models that were typed."""
    if not (results := _of_plan(published(recipe.name), benchmark_plan(recipe, typed))):
        name = f"{recipe.name} {' '.join(typed)}".rstrip()
        raise ValueError(f"there are no published results of {name}: type ol2r benchmark {name} --run")
    _print(recipe, entries(results))
    return DONE


def run(recipe: Recipe, typed: Sequence[str], out: Path | None) -> int:
    """Run what is missing of a benchmark and its check, write results and page, print tables; return the exit code."""
    code = DONE
    for scale in ("check", "full"):
        plan = benchmark_plan(recipe, typed, scale=scale)
        plan.check_data()
        runs = run_recipe(plan)
        code = code or runs.code
        if code == INTERRUPTED:
            return INTERRUPTED
        if not (results := played(plan, runs)):
            continue
        directory, rows = RunDirectory(out or plan.output_dir / "benchmark"), entries(results)
        if scale == "full":
            page = pages.benchmark_page(recipe, rows, _curves(recipe, rows, directory.path))
            directory.write_text(f"{recipe.name}.md", page)
            print(f"written: {directory / recipe.name}.md")
        file = f"{recipe.name}.parquet" if scale == "full" else f"{recipe.name}_check.parquet"
        directory.write_parquet(file, as_published(results))
        print(f"written: {directory / file}")
        if scale == "full":
            _print(recipe, rows)
    return code


def add(recipe: Recipe, words: Sequence[str], typed: Sequence[str]) -> int:
    """Run a ranker of the user's own as the others were run, and print the published tables with it."""
    plan = benchmark_plan(recipe, typed, added=words)
    others = _published_part(plan)
    plan.check_data()
    runs = run_recipe(plan)
    if runs.code == INTERRUPTED:
        return INTERRUPTED
    own = played(plan, runs)
    data = {(run.fold, run.fingerprint) for run, _ in others}
    for title in dict.fromkeys(about.table for run, about in own if (run.fold, run.fingerprint) not in data):
        print(f"ol2r benchmark: {title} has other data here than the published results", file=sys.stderr)
    for condition, trials in runs.candidates.items():
        if len(trials) > 1 and len(set(trials.values())) == 1:
            place = f"{condition.slot}, {condition.click}"
            print(f"ol2r benchmark: {place}: all settings have the same validation NDCG@10", file=sys.stderr)
    _print(recipe, entries([*others, *own]))
    print(f"runs: {plan.output_dir / 'benchmark'}")
    return runs.code


def repeat(recipe: Recipe, competitors: Sequence[str], typed: Sequence[str]) -> int:
    """Run published rows again, with their settings, and print whether the numbers are the same; return the exit code.

    competitors: the rows, all if empty. Exit code 1 where numbers differ.
    """
    made = {about.row(run): about for run, about in _published_part(benchmark_plan(recipe))}
    names = {name.lower(): name for name in recipe.competitors if name in {row.competitor for row in made}}
    for row in competitors:
        if row.lower() not in names:
            quoted = ", ".join(f"'{name}'" for name in names.values())
            raise ValueError(f"--repeat must name rows, {quoted}, got {row}{nearest(row, list(names.values()))}")
    wanted = {names[row.lower()] for row in competitors}
    settings = {
        row: by_name([word for word in about.words if word.partition("=")[0] in about.settings])
        for row, about in made.items()
        if not competitors or about.competitor in wanted
    }
    plan = benchmark_plan(recipe, typed, settings=settings)
    before = {(about.row(run), run.fold): run for run, about in _published_part(plan)}
    plan.check_data()
    runs = run_recipe(plan)
    if runs.code == INTERRUPTED:
        return INTERRUPTED
    lines = []
    for run, about in played(plan, runs):
        if (about.row(run), run.fold) in before:
            compared = _compared(before[about.row(run), run.fold], run)
            lines.append([about.table, run.choices["click"], str(run.fold or ""), about.competitor, *compared])
    same = [line[-2] == "all" for line in lines]
    show_rows(lines, ["data", "click", "fold", "ranker", "seeds the same", "largest difference of NDCG@10"])
    print(f"\n{sum(same)} of {len(lines)} runs have the published numbers in all metrics, to the last digit")
    return runs.code or (DONE if all(same) else FAILED)


def _compared(before: FinishedRun, after: FinishedRun) -> tuple[str, str]:
    one, other = by_seed(before), by_seed(after)
    same = sum(all(other[seed].get(name) == value for name, value in row.items()) for seed, row in one.items())
    apart = max(abs((other[seed].get(TEST) or 0.0) - (row.get(TEST) or 0.0)) for seed, row in one.items())
    return "all" if same == len(one) else f"{same} of {len(one)}", "" if same == len(one) else f"{apart:.4f}"


def write_all(folder: Path) -> int:
    """Write the pages of all published results, and the index, without running anything."""
    published_pages, directory = {}, RunDirectory(folder)
    for name in recipe_names("benchmark"):
        if results := published(name):
            recipe, rows = load_recipe("benchmark", name), entries(results)
            published_pages[name] = recipe, rows
            figures = {title: file for title, file in _figure_files(recipe, rows).items() if (folder / file).exists()}
            directory.write_text(f"{name}.md", pages.benchmark_page(recipe, rows, figures))
            print(f"written: {folder / name}.md")
    if not published_pages:
        raise ValueError("there are no published results: type ol2r benchmark linear --run --out docs/benchmark")
    directory.write_text("README.md", pages.index(published_pages))
    print(f"written: {folder / 'README.md'}")
    return DONE


def dry_run(plan: RunPlan) -> int:
    """Print the runs of a plan without running or writing anything; return the exit code."""
    plan.check_data()
    if plan.recipe.kind == "reproduce":
        print(pages.caveat(plan) or pages.protocol_line(plan))
    return print_trials(plan)


def _published_part(plan: RunPlan) -> Results:
    """The published results of the datasets, click models and folds of a plan; ValueError where there are none."""
    if not (results := _of_plan(published(plan.recipe.name), plan)):
        name = plan.recipe.name
        raise ValueError(f"there are no published results of {name} for this: type ol2r benchmark {name}")
    return results


def _of_plan(results: Results, plan: RunPlan) -> Results:
    final = list(plan.final())
    tables = {(trial.condition.slot, trial.condition.click) for trial in final}
    folds = {by_name(run).get("dataset.fold", "").partition("=")[2] for trial in final for run in trial.runs}
    return [
        (run, about)
        for run, about in results
        if (about.table, run.choices["click"]) in tables and (run.fold is None or str(run.fold) in folds)
    ]


def _figure_files(recipe: Recipe, rows: Sequence[Entry]) -> dict[str, str]:
    titles = dict.fromkeys(row.about.table for row in rows)
    return {title: f"{recipe.name}_{title.lower().replace(', ', '_')}.svg" for title in titles}


def _curves(recipe: Recipe, rows: Sequence[Entry], folder: Path) -> dict[str, str]:
    """Draw the learning curves of each dataset; the name of each file that was written."""
    files = _figure_files(recipe, rows)
    for title, file in list(files.items()):
        groups = {
            Condition(*row.table, row.about.competitor): row.group
            for row in rows
            if row.about.table == title and row.group.choices["ranker"] not in WITHOUT_CURVE
        }
        try:
            save(_drawn("learning_curve", groups, bands="none"), folder / file)
        except NothingToDraw:
            del files[title]
    return files


def _print(recipe: Recipe, rows: Sequence[Entry]) -> None:
    """Print the tables, with a warning where the results are of an earlier version."""
    if warning := pages.outdated(rows):
        print(f"ol2r benchmark: {warning}", file=sys.stderr)
    for (title, click), of_table in pages.by_table(rows).items():
        print(f"\n{title}{_folds(recipe, title, of_table)}, {click}\n")
        _print_table(pages.result_table(recipe, of_table))
    unit = "over folds, or over seeds where there is one fold"
    marks = f"↑ ↓: significantly higher or lower than {recipe.baseline}, paired, Holm's correction for a column"
    print(f"\n± is half the 95 % interval {unit}; {marks}; * at the end of its grid")


def _folds(recipe: Recipe, title: str, rows: Sequence[Entry]) -> str:
    """Return the folds of a table that has not all of its dataset's."""
    folds = sorted({run.fold for row in rows for run in row.group.runs if run.fold is not None})
    if not folds or len(folds) == len(expand(by_name(recipe.data[title].words)["dataset.fold"])):
        return ""
    return f", fold{'s' * (len(folds) > 1)} {', '.join(map(str, folds))}"
