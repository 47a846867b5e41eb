"""`ol2r benchmark NAME`: published tables and their pages, running them again, adding a ranker to them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ol2r_cli.config.grammar import expand
from ol2r_cli.formatting import nearest, wrapped
from ol2r_cli.lazy import pl
from ol2r_cli.recipes import orders
from ol2r_cli.recipes.choices import choice_frame
from ol2r_cli.recipes.pages import (
    Tables,
    benchmark_page,
    for_metric,
    index,
    legend,
    main_table,
    outdated,
    settings_table,
    tables_of,
)
from ol2r_cli.recipes.recipe import Recipe, load_recipe, recipe_names
from ol2r_cli.recipes.reproduce import drawn, print_result
from ol2r_cli.recipes.results import TEST, Results, as_published, indifferent, played, published, published_choices
from ol2r_cli.recipes.run_plan import Condition, RecipeRuns, RunPlan, benchmark_plan, by_name, run_recipe, value_of
from ol2r_cli.report.figures.drawing import MOST_CURVES, NothingToDraw, save
from ol2r_cli.run import DONE, FAILED, INTERRUPTED
from ol2r_cli.run.store import RunDirectory
from ol2r_cli.text_table import show as show_rows

WITHOUT_CURVE = ("oracle", "random")  # they would take the scale of the others


def show(recipe: Recipe, typed: Sequence[str]) -> int:
    """Print the published tables, or those of the datasets and click models that were typed."""
    name = f"{recipe.name} {' '.join(typed)}".rstrip()
    results = _published_part(benchmark_plan(recipe, typed), f"{name}: type ol2r benchmark {name} --run")
    _print(recipe, tables_of(results, published_choices(recipe.name)))
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
        if runs.cells:
            directory.write_parquet(f"{recipe.name}_choice.parquet", choice_frame(runs.cells.items()))
    if results:
        tables = tables_of(results, choice_frame(runs.cells.items()) if runs.cells else None)
        for title, figure in _figure_files(recipe, tables).items():
            groups = {
                Condition(*table, name): row.group
                for table, rows in tables.items()
                for name, row in for_metric(rows, TEST).items()
                if table[0] == title and row.group.choices["ranker"] not in WITHOUT_CURVE
            }
            if len({condition.competitor for condition in groups}) > MOST_CURVES:  # without variants of rankers
                groups = {of: group for of, group in groups.items() if ", " not in of.competitor}
            with suppress(NothingToDraw):
                save(drawn("learning_curve", groups, bands="none"), directory.path / figure)
        _write_page(recipe, tables, directory)
        _print(recipe, tables)
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
    for row in filter(indifferent, runs.rows):
        title, click, _, aim, _ = row.trial.condition
        print(f"ol2r benchmark: {title}, {click}, {aim}: all settings are equally good", file=sys.stderr)
    known, new = published_choices(recipe.name), choice_frame(runs.cells.items())
    choices = new if known is None else pl.concat([known, new], how="diagonal_relaxed")
    _print(recipe, tables_of([*others, *own], choices))
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
    lines: dict[tuple[Any, ...], list[str]] = {}  # those with the same settings for both aims once
    for run, about in repeated:
        row, now = about.row(run), run.values
        if earlier := before.get((row, run.fold)):
            same = sum(all(now[seed].get(name) == value for name, value in of.items()) for seed, of in earlier.items())
            apart = max(abs((now[seed].get(TEST) or 0.0) - (of.get(TEST) or 0.0)) for seed, of in earlier.items())
            compared = ["all", ""] if same == len(earlier) else [f"{same} of {len(earlier)}", f"{apart:.4f}"]
            settings_of = (row._replace(aim=""), run.fold, *about.words)
            aim = "both" if settings_of in lines else row.aim
            lines[settings_of] = [row.slot, row.click, str(run.fold or ""), row.competitor, aim, *compared]
    if runs.code != INTERRUPTED:
        equal = sum(line[-2] == "all" for line in lines.values())
        headings = ["data", "click", "fold", "ranker", "chosen", "seeds the same", "largest difference of NDCG@10"]
        show_rows([*lines.values()], headings)
        print(f"\n{equal} of {len(lines)} runs have the published numbers in all metrics, to the last digit")
    return runs.code or (DONE if all(line[-2] == "all" for line in lines.values()) else FAILED)


def write_all(folder: Path) -> int:
    """Write the pages of all published results, and the index, without running anything."""
    recipes, directory = (load_recipe("benchmark", name) for name in recipe_names("benchmark")), RunDirectory(folder)
    pages = [
        (recipe, tables_of(results, published_choices(recipe.name)))
        for recipe in recipes
        if (results := published(recipe.name))
    ]
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
    directory.write_text(f"{recipe.name}.md", benchmark_page(recipe, tables, figures, orders.sections(recipe, tables)))
    print(f"written: {directory / recipe.name}.md")


def _print(recipe: Recipe, tables: Tables) -> None:
    """Print the tables, with a warning where the results are of an earlier version."""
    if warning := outdated(tables):
        print(f"ol2r benchmark: {warning}", file=sys.stderr)
    for (title, click), rows in tables.items():
        folds = sorted({run.fold for row in rows for run in row.group.runs if run.fold is not None})
        every = expand(by_name(recipe.data[title].words).get("dataset.fold", "dataset.fold=1"))
        part = f", fold{'s' * (len(folds) > 1)} {', '.join(map(str, folds))}" * (0 < len(folds) < len(every))
        print(f"\n{title}{part}, {click}\n")
        print_result(main_table(recipe, rows))
        print()
        print_result(settings_table(recipe, rows))
    print(f"\n{wrapped(legend(recipe), 0)}")
