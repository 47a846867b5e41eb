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
  ol2r benchmark linear --run --dry-run                   the runs, and which of them are finished
  ol2r benchmark linear --run dataset=mq2008 launcher.jobs=4         all of them again, into outputs/benchmark
finished runs are not run again: the same command continues
exit codes: 0 done, 1 --repeat found other numbers, 2 bad configuration or data, 3 some runs failed, 130 interrupted
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ol2r_cli.commands.command import argument, command
from ol2r_cli.config.own_choices import add_config_dir, as_options
from ol2r_cli.lazy import lazy
from ol2r_cli.plugins.benchmark.recipe import load_recipe, recipe_names

if TYPE_CHECKING:
    from ol2r_cli.plugins.benchmark import benchmark_plan, claims, play, repeat, table_files
    from ol2r_cli.plugins.benchmark import benchmark_runs as benchmark
    from ol2r_cli.report import tasks
else:
    benchmark, benchmark_plan = (
        lazy("ol2r_cli.plugins.benchmark.benchmark_runs"),
        lazy("ol2r_cli.plugins.benchmark.benchmark_plan"),
    )
    claims, play = lazy("ol2r_cli.plugins.benchmark.claims"), lazy("ol2r_cli.plugins.benchmark.play")
    repeat, table_files = lazy("ol2r_cli.plugins.benchmark.repeat"), lazy("ol2r_cli.plugins.benchmark.table_files")
    tasks = lazy("ol2r_cli.report.tasks")


@command(
    argument(
        "name",
        offers=lambda: recipe_names("benchmark"),
        metavar="NAME",
        nargs="?",
        help="a benchmark, or claims; without a name, all are listed",
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
        return benchmark.show_names()
    if given.name == "claims":
        return claims.show_claims(" ".join(given.overrides))
    recipe = load_recipe("benchmark", given.name)
    wanted = table_files.Wanted(given.rows or (), tasks.typed_names(given.names or (), "ROW", "mine=Ours"), given.out)
    typed = [*given.overrides, *as_options(given.config_dir)]
    added = given.add[0] if given.add else ()
    if given.dry_run:
        return play.dry_run(benchmark_plan.benchmark_plan(recipe, typed, added=added))
    if given.repeat is not None:
        return repeat.repeat(recipe, given.repeat, typed)
    if given.add:
        return benchmark.add(benchmark_plan.benchmark_plan(recipe, typed, added=added), wanted)
    if given.run:
        return benchmark.run(recipe, typed, given.out)
    return benchmark.show(recipe, typed, wanted)


def _check_options(given: argparse.Namespace) -> None:
    """Raise ValueError for options that do not go together."""
    actions = [bool(given.add), given.repeat is not None, given.run]
    if sum(actions) > 1:
        raise ValueError("--add, --repeat and --run exclude each other: leave out all but one")
    if given.name is None:
        if given.out:
            raise ValueError("--out goes with NAME, such as ol2r benchmark linear --out table.tex")
        return
    if given.name == "claims" and (any(actions) or given.dry_run or given.out or given.rows or given.names):
        raise ValueError("claims takes the name of a paper and no options: type ol2r benchmark claims PairRank")
    if len(given.add or ()) > 1:
        raise ValueError("--add adds one ranker: add the others with a command each")
    if given.out and given.repeat is not None:
        raise ValueError("--out goes with a table: leave it out with --repeat")
    if (given.rows or given.names) and (given.run or given.repeat is not None):
        raise ValueError("--rows and --name go with a table that is shown: leave them out with --run and --repeat")
    if given.dry_run and not (given.add or given.run):
        raise ValueError("--dry-run goes with --run or --add")
