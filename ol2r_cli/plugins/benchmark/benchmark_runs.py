"""`ol2r benchmark NAME`: published tables, running them again, adding a ranker to them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ol2r_cli.lazy import pl
from ol2r_cli.plugins.benchmark import click_costs
from ol2r_cli.plugins.benchmark.benchmark_plan import benchmark_plan
from ol2r_cli.plugins.benchmark.entries import Tables, tables_of
from ol2r_cli.plugins.benchmark.grid import are_equally_good
from ol2r_cli.plugins.benchmark.play import RecipeRuns, run_recipe
from ol2r_cli.plugins.benchmark.recipe import Recipe, load_recipe, recipe_names
from ol2r_cli.plugins.benchmark.results import (
    Results,
    as_published,
    choice_frame,
    played,
    published,
    published_choices,
    published_part,
)
from ol2r_cli.plugins.benchmark.run_plan import RunPlan
from ol2r_cli.plugins.benchmark.table_files import Wanted, shown_names, write_tables
from ol2r_cli.plugins.benchmark.tables import legend, main_table, outdated, settings_table, with_names
from ol2r_cli.run import DONE, INTERRUPTED
from ol2r_cli.run.store import RunDirectory
from ol2r_cli.text.formatting import wrapped
from ol2r_cli.text.table import print_result
from ol2r_cli.text.table import show as show_rows


def show_names() -> int:
    """Print the names of all benchmarks, and what each shows."""
    lines = []
    for name in recipe_names("benchmark"):
        note = "" if published(name) else " (not published yet)"
        lines.append((name, load_recipe("benchmark", name).summary + note))
    show_rows([*lines, ("claims", "what papers claim about rankers, and whether these results show it")])
    return DONE


def show(recipe: Recipe, typed: Sequence[str], wanted: Wanted) -> int:
    """Print or write the published tables, or those of the datasets and click models that were typed."""
    results = published_part(benchmark_plan(recipe, typed))
    names = shown_names(recipe, _competitors(results), wanted)
    tables = tables_of(results, published_choices(recipe.name))
    if wanted.out is None:
        _print_tables(recipe, tables, names)
    else:
        _write(recipe, tables, names, wanted.out)
    return DONE


def _competitors(results: Results) -> Iterable[str]:
    return (about.competitor for _, about in results)


def _write(recipe: Recipe, tables: Tables, names: Mapping[str, str], out: Path) -> None:
    write_tables(recipe, tables, names, out)
    print(f"written: {out}")


def run(recipe: Recipe, typed: Sequence[str], out: Path | None) -> int:
    """Run what is missing of a benchmark and its check, write results, print tables; return the exit code."""
    plan = benchmark_plan(recipe, typed)
    directory = RunDirectory(out or plan.output_dir / "benchmark")
    check, _ = _run_and_write(benchmark_plan(recipe, typed, scale="check"), f"{recipe.name}_check", directory)
    if check.code == INTERRUPTED:
        return INTERRUPTED
    runs, results = _run_and_write(plan, recipe.name, directory)
    if runs.code == INTERRUPTED:
        return INTERRUPTED
    if results:
        _print_tables(recipe, tables_of(results, choice_frame(runs.grids)))
    return check.code or runs.code


def _run_and_write(plan: RunPlan, name: str, directory: RunDirectory) -> tuple[RecipeRuns, Results]:
    """Run a plan, and write its results, and what settings were chosen from, as published files."""
    plan.check_data()
    runs = run_recipe(plan)
    if runs.code == INTERRUPTED:
        return runs, []
    results = played(plan, runs)
    if results:
        file = f"{name}.parquet"
        directory.write_parquet(file, as_published(results))
        print(f"written: {directory / file}")
    if runs.grids:
        directory.write_parquet(f"{name}_choice.parquet", choice_frame(runs.grids))
    return runs, results


def add(plan: RunPlan, wanted: Wanted) -> int:
    """Run a ranker of the user's own as the others were run, and print or write the published tables with it.

    `run_recipe` (play.py) plays its grid, chooses the best settings of it (grid.py) and plays these; `tables_of`
    (entries.py) puts it beside the published results (results.py).
    """
    others = published_part(plan)
    names = shown_names(plan.recipe, [*_competitors(others), *plan.recipe.competitors], wanted)
    plan.check_data()
    runs = run_recipe(plan)
    if runs.code == INTERRUPTED:
        return INTERRUPTED
    own = played(plan, runs)
    _warn_of_other_data(own, others)
    _warn_of_equal_settings(runs)
    known, new = published_choices(plan.recipe.name), choice_frame(runs.grids)
    choices = new if known is None else pl.concat([known, new], how="diagonal_relaxed")
    tables = tables_of([*others, *own], choices)
    if wanted.out is None:
        _print_tables(plan.recipe, tables, names)
    if not click_costs.asks_for_costs(plan.recipe):
        _print_added(plan.recipe, tables, names)
    if wanted.out is not None:
        _write(plan.recipe, tables, names, wanted.out)
    print(f"runs: {plan.output_dir / 'benchmark'}")
    return runs.code


def _warn_of_other_data(own: Results, others: Results) -> None:
    published_data = {(run.fold, run.fingerprint) for run, _ in others}
    titles = [about.table for run, about in own if (run.fold, run.fingerprint) not in published_data]
    for title in dict.fromkeys(titles):
        print(f"ol2r benchmark: {title} has other data here than the published results", file=sys.stderr)


def _warn_of_equal_settings(runs: RecipeRuns) -> None:
    for row in runs.rows:
        condition = row.trial.condition
        if are_equally_good(runs.cells(condition), condition.aim):
            where = f"{condition.slot}, {condition.click}, {condition.aim}"
            print(f"ol2r benchmark: {where}: all settings are equally good", file=sys.stderr)


def _print_added(recipe: Recipe, tables: Tables, names: Mapping[str, str]) -> None:
    """Print the rows of the ranker that was added once more, as the last lines of long tables."""
    added = {name: names[name] for name in recipe.competitors}
    for (title, click), rows in tables.items():
        print(f"\n{title}, {click}, added:\n")
        print_result(with_names(main_table(recipe, rows), added))
    print()


def _print_tables(recipe: Recipe, tables: Tables, names: Mapping[str, str] | None = None) -> None:
    """Print the tables, with a warning where the results are of an earlier version.

    names: of the rows that are shown, by their own; None for all.
    """
    warning = outdated(tables)
    if warning:
        print(f"ol2r benchmark: {warning}", file=sys.stderr)
    if click_costs.asks_for_costs(recipe):
        click_costs.show(recipe, tables)
        return
    shown = ""
    for (title, click), rows in tables.items():
        values, settings = main_table(recipe, rows), settings_table(recipe, rows)
        if names is not None:
            values, settings = with_names(values, names), with_names(settings, names)
        print(f"\n{title}, {click}\n")
        print_result(values)
        print()
        print_result(settings)
        shown += " ".join(str(cell) for row in (*values.rows, *settings.rows) for cell in row)
    print()
    for mark, meaning in legend(recipe).items():
        if mark[0].isalpha() or any(sign in shown for sign in mark.split()):
            print(wrapped(f"{mark}: {meaning}"))
