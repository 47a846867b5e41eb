"""`ol2r benchmark [NAME]`: expected results of every ranker: published tables, running them again, adding a ranker.

examples:
  ol2r benchmark                                          all names, and what each shows
  ol2r benchmark linear                                   the published tables
  ol2r benchmark linear dataset=mq2008 click=inf          one of them
  ol2r benchmark linear click=inf --add ranker=mine ranker.rate=0.1,1 -cd choices     a ranker of your own in it
  ol2r benchmark linear dataset=mq2008 click=inf --add ranker=mine --name mine=Ours --out table.tex     for a paper
  ol2r benchmark linear dataset=mq2008 --rows PairRank MGD --out table.tex          some of the rows, and the baseline
  ol2r benchmark linear dataset=mq2008 click=inf --repeat PDGD       a row again: are the numbers the same here?
  ol2r benchmark claims PairRank                          what a paper claims, and whether the results show it
  ol2r benchmark check results/linear_mslr.parquet        can results of your own be published beside these?
  ol2r benchmark linear --run --dry-run                   the runs, and which of them are finished
  ol2r benchmark linear --run dataset=mq2008 launcher.jobs=4         all of them again, into outputs/benchmark
finished runs are not run again: the same command continues
exit codes: 0 done, 1 --repeat or check found other numbers, 2 bad configuration or data, 3 some runs failed,
  130 interrupted
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ol2r_cli.commands.command import argument, command
from ol2r_cli.config.own_choices import add_config_dir, as_options
from ol2r_cli.lazy import lazy
from ol2r_cli.plugins.benchmark.recipe import Recipe, load_recipe, recipe_names
from ol2r_cli.run import DONE, INTERRUPTED
from ol2r_cli.text.table import show

if TYPE_CHECKING:
    from ol2r_cli.plugins.benchmark import (
        check_file,
        claims,
        click_costs,
        play,
        repeat,
        results,
        run_plan,
        table_files,
        tables,
    )
    from ol2r_cli.report import tasks
    from ol2r_cli.run import store
else:
    check_file = lazy("ol2r_cli.plugins.benchmark.check_file")
    claims = lazy("ol2r_cli.plugins.benchmark.claims")
    click_costs = lazy("ol2r_cli.plugins.benchmark.click_costs")
    play = lazy("ol2r_cli.plugins.benchmark.play")
    repeat = lazy("ol2r_cli.plugins.benchmark.repeat")
    results = lazy("ol2r_cli.plugins.benchmark.results")
    run_plan = lazy("ol2r_cli.plugins.benchmark.run_plan")
    table_files = lazy("ol2r_cli.plugins.benchmark.table_files")
    tables = lazy("ol2r_cli.plugins.benchmark.tables")
    tasks, store = lazy("ol2r_cli.report.tasks"), lazy("ol2r_cli.run.store")


@command(
    argument(
        "name",
        offers=lambda: recipe_names("benchmark"),
        metavar="NAME",
        nargs="?",
        help="a benchmark, claims or check; without a name, all are listed",
    ),
    argument(
        "overrides",
        metavar="SETTING=VALUE",
        nargs="*",
        help="a part of it, such as click=inf, and data_dir, output_dir, launcher",
    ),
    argument(
        "--add",
        metavar="OVERRIDE",
        nargs="+",
        action="append",
        help="run this ranker by the same protocol, show it in the tables; of listed values one is chosen",
    ),
    argument("--repeat", metavar="ROW", nargs="*", help="run published rows again, with their settings, and compare"),
    argument("--run", action="store_true", help="run the whole protocol: hours"),
    argument("--dry-run", action="store_true", help="with --run or --add: list the runs, and run nothing"),
    add_config_dir,
    argument(
        "--out",
        metavar="FILE",
        type=Path,
        help="the table as .tex, .csv, .md, .json or .parquet, differences from the baseline as .svg, .png or .pdf; "
        "with --run a folder for results (default: <output_dir>/benchmark)",
    ),
    argument("--rows", metavar="ROW", nargs="+", help="show these rows alone, with the baseline and what is added"),
    argument("--name", metavar="ROW=NAME", nargs="+", dest="names", help="names of rows: mine=Ours"),
)
def main(given: argparse.Namespace) -> int:
    """Do what the options say; without one, show what is published."""
    _check_options(given)
    if given.name is None:
        return _list()
    if given.name == "claims":
        return claims.show_claims(" ".join(given.overrides))
    if given.name == "check":
        return _check(given)
    recipe = load_recipe("benchmark", given.name)
    wanted = table_files.Wanted(given.rows or (), tasks.typed_names(given.names or (), "ROW", "mine=Ours"), given.out)
    typed = [*given.overrides, *as_options(given.config_dir)]
    if given.repeat is not None:
        return repeat.repeat(recipe, given.repeat, typed)
    if given.run and not given.dry_run:
        return _run(recipe, typed, given.out)
    plan = run_plan.plan_of(recipe, typed, added=given.add[0] if given.add else ())
    if given.dry_run:
        return play.dry_run(plan)
    return _add(plan, wanted) if given.add else _show(plan, wanted)


def _check(given: argparse.Namespace) -> int:
    files = [word for word in given.overrides if "=" not in word]
    if len(files) != 1:
        raise ValueError(f"one FILE is needed: type ol2r benchmark check linear_mslr.parquet, got {' '.join(files)}")
    typed = [word for word in given.overrides if "=" in word]
    return check_file.check(Path(files[0]), [*typed, *as_options(given.config_dir)])


def _check_options(given: argparse.Namespace) -> None:
    """Raise ValueError for options that do not go together: the first line that holds."""
    adds, repeats, runs = bool(given.add), given.repeat is not None, given.run
    of_tables = given.rows or given.names
    has_options = adds or repeats or runs or given.dry_run or given.out or of_tables
    for is_wrong, told in (
        (adds + repeats + runs > 1, "--add, --repeat and --run exclude each other: leave out all but one"),
        (given.name is None and given.out, "--out goes with NAME, such as ol2r benchmark linear --out table.tex"),
        (
            given.name == "claims" and has_options,
            "claims takes the name of a paper and no options: type ol2r benchmark claims PairRank",
        ),
        (
            given.name == "check" and has_options,
            "check takes a file and a part of it: type ol2r benchmark check linear_mslr.parquet",
        ),
        (len(given.add or ()) > 1, "--add adds one ranker: add the others with a command each"),
        (given.out and repeats, "--out goes with a table: leave it out with --repeat"),
        (
            of_tables and (runs or repeats),
            "--rows and --name go with a table that is shown: leave them out with --run and --repeat",
        ),
        (given.dry_run and not (adds or runs), "--dry-run goes with --run or --add"),
    ):
        if is_wrong:
            raise ValueError(told)


def _list() -> int:
    """Print the names of all benchmarks, and what each shows."""
    lines = []
    for name in recipe_names("benchmark"):
        is_published = (results.published_dir() / f"{name}.parquet").is_file()
        note = "" if is_published else " (not published yet)"
        lines.append((name, load_recipe("benchmark", name).summary + note))
    lines.append(("claims", "what papers claim about rankers, and whether these results show it"))
    show([*lines, ("check", "whether results of your own can be published beside these: check FILE")])
    return DONE


def _show(plan: run_plan.RunPlan, wanted: table_files.Wanted) -> int:
    """Print or write the published tables, or those of the datasets and click models that were typed."""
    rows = results.published_part(plan)
    names = table_files.shown_names(plan.recipe, (row.competitor for row in rows), wanted)
    if wanted.out is None:
        _print(plan.recipe, rows, names)
    else:
        _write(plan.recipe, rows, names, wanted.out)
    return DONE


def _run(recipe: Recipe, typed: Sequence[str], out: Path | None) -> int:
    """Run what is missing of a benchmark and its check, write results, print tables; return the exit code."""
    plan = run_plan.plan_of(recipe, typed)
    directory = store.RunDirectory(out or plan.output_dir / "benchmark")
    check, _ = _run_and_write(run_plan.plan_of(recipe, typed, "check"), f"{recipe.name}_check", directory)
    if check == INTERRUPTED:
        return INTERRUPTED
    code, rows = _run_and_write(plan, recipe.name, directory)
    if rows:
        _print(recipe, rows)
    return INTERRUPTED if code == INTERRUPTED else check or code


def _run_and_write(plan: run_plan.RunPlan, name: str, directory: store.RunDirectory) -> tuple[int, list[results.Row]]:
    """Run a plan, and write its rows, and what settings were chosen from, as published files; return the exit code."""
    plan.check_data()
    runs = play.run_recipe(plan)
    if runs.code == INTERRUPTED:
        return INTERRUPTED, []
    rows = play.rows_of_benchmark(runs)
    if rows:
        file = f"{name}.parquet"
        directory.write_parquet(file, results.as_published(rows))
        print(f"written: {directory / file}")
    if runs.grids:
        directory.write_parquet(f"{name}_choice.parquet", play.choice_frame(runs.grids))
    return runs.code, rows


def _add(plan: run_plan.RunPlan, wanted: table_files.Wanted) -> int:
    """Run a ranker of the user's own as the others were run, and print or write the published tables with it.

    `play.run_recipe` plays its grid, chooses the best settings of it, and plays these.
    """
    recipe, others = plan.recipe, results.published_part(plan)
    names = table_files.shown_names(recipe, [*(row.competitor for row in others), *recipe.competitors], wanted)
    plan.check_data()
    runs = play.run_recipe(plan)
    if runs.code == INTERRUPTED:
        return INTERRUPTED
    own = play.rows_of_benchmark(runs)
    for line in _doubts(own, others, runs):
        print(f"ol2r benchmark: {line}", file=sys.stderr)
    rows = [*others, *own]
    if wanted.out is None:
        _print(recipe, rows, names)
    if not click_costs.asks_for_costs(recipe):
        tables.print_added(recipe, results.tables_of(rows), names)
    if wanted.out is not None:
        _write(recipe, rows, names, wanted.out)
    print(f"runs: {plan.output_dir / 'benchmark'}")
    return runs.code


def _doubts(own: Sequence[results.Row], others: Sequence[results.Row], runs: play.RecipeRuns) -> Iterator[str]:
    """Yield what is doubtful about rows that were added: their data, and choices between equal settings."""
    known = {(run.fold, run.fingerprint) for row in others for run in row.group.runs}
    elsewhere = [
        row.condition.data for row in own for run in row.group.runs if (run.fold, run.fingerprint) not in known
    ]
    for title in dict.fromkeys(elsewhere):
        yield f"{title} has other data here than the published results"
    for row in own:
        if play.are_equally_good(runs.cells(row.condition), row.aim):
            yield f"{row.condition.data}, {row.condition.click}, {row.aim}: all settings are equally good"


def _write(recipe: Recipe, rows: Sequence[results.Row], names: Mapping[str, str], out: Path) -> None:
    table_files.write_tables(recipe, results.tables_of(rows), names, out)
    print(f"written: {out}")


def _print(recipe: Recipe, rows: Sequence[results.Row], names: Mapping[str, str] | None = None) -> None:
    """Print the tables, with a warning where the results are of an earlier version.

    names: of the rows that are shown, by their own; None for all.
    """
    warning = tables.outdated(rows)
    if warning:
        print(f"ol2r benchmark: {warning}", file=sys.stderr)
    if click_costs.asks_for_costs(recipe):
        click_costs.show(recipe, results.tables_of(rows))
    else:
        tables.print_tables(recipe, results.tables_of(rows), names)
