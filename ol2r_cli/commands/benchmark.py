"""`ol2r benchmark [NAME]`: expected results of every ranker: published tables, running them again, adding a ranker.

examples:
  ol2r benchmark                                          all names, and what each shows
  ol2r benchmark linear                                   the published tables
  ol2r benchmark linear dataset=mq2008 click=inf          one of them
  ol2r benchmark linear click=inf --add ranker=mine ranker.rate=0.1,1 -cd choices     a ranker of your own in it;
                                                          of several values one is chosen as for the others
  ol2r benchmark linear dataset=mq2008 click=inf --repeat PDGD       a row again: are the numbers the same here?
  ol2r benchmark claims PairRank                          what a paper claims, and whether the results show it
  ol2r benchmark linear --run --dry-run                   the runs, and which of them are finished
  ol2r benchmark linear --run dataset=mq2008 launcher.jobs=4         all of them again, into outputs/benchmark
  ol2r benchmark --out docs/benchmark                     the pages of all published results
finished runs are not run again: the same command continues
exit codes: 0 done, 1 --repeat found other numbers, 2 bad configuration or data, 3 some runs failed, 130 interrupted
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ol2r_cli.command import argument, command
from ol2r_cli.config.catalogue import add_config_dir, as_options
from ol2r_cli.lazy import lazy
from ol2r_cli.recipes.recipe import load_recipe, recipe_names
from ol2r_cli.run import DONE
from ol2r_cli.text_table import show

if TYPE_CHECKING:
    from ol2r_cli.recipes import benchmark, claims, results, run_plan
else:
    benchmark, claims = lazy("ol2r_cli.recipes.benchmark"), lazy("ol2r_cli.recipes.claims")
    results, run_plan = lazy("ol2r_cli.recipes.results"), lazy("ol2r_cli.recipes.run_plan")


@command(
    argument("name", metavar="NAME", nargs="?", help="of a benchmark, or claims; without a name, all are listed"),
    argument(
        "overrides",
        metavar="SETTING=VALUE",
        nargs="*",
        help="the part of it, where data are and where runs go: data_dir, output_dir, launcher",
    ),
    argument(
        "--add",
        metavar="WORDS",
        nargs="+",
        action="append",
        help="run this ranker in the same way, and show it in the tables; one of several values is chosen",
    ),
    argument("--repeat", metavar="ROW", nargs="*", help="run published rows again, with their settings, and compare"),
    argument("--run", action="store_true", help="run the whole protocol: hours"),
    argument("--dry-run", action="store_true", help="with --run or --add: list the runs, and run nothing"),
    add_config_dir,
    argument(
        "--out", metavar="DIR", type=Path, help="with --run: for page and results (default: <output_dir>/benchmark)"
    ),
)
def main(given: argparse.Namespace) -> int:
    if sum((bool(given.add), given.repeat is not None, given.run)) > 1:
        raise ValueError("--add, --repeat and --run exclude each other: leave out all but one")
    if given.name is None:
        if given.out is not None:
            return benchmark.write_all(given.out)
        missing = {
            name: "" if results.published(name) else " (not published yet)" for name in recipe_names("benchmark")
        }
        lines = [(name, load_recipe("benchmark", name).summary + note) for name, note in missing.items()]
        show([*lines, ("claims", "what papers claim about rankers, and whether these results show it")])
        return DONE
    if given.name == "claims":
        if given.add or given.run or given.repeat is not None or given.dry_run or given.out:
            raise ValueError("claims takes the name of a paper and no options: type ol2r benchmark claims PairRank")
        claims.show_claims(" ".join(given.overrides))
        return DONE
    recipe, typed = load_recipe("benchmark", given.name), [*given.overrides, *as_options(given.config_dir)]
    if len(given.add or ()) > 1:
        raise ValueError("--add adds one ranker: add the others with a command each")
    if given.out and not given.run:
        raise ValueError("--out goes with --run, or without NAME")
    words = given.add[0] if given.add else ()
    if given.dry_run:
        if not (given.add or given.run):
            raise ValueError("--dry-run goes with --run or --add")
        return run_plan.dry_run(run_plan.benchmark_plan(recipe, typed, added=words))
    if given.repeat is not None:
        rows = [word for word in given.repeat if "=" not in word]
        return benchmark.repeat(recipe, rows, [*typed, *(word for word in given.repeat if "=" in word)])
    if given.add:
        return benchmark.add(recipe, run_plan.benchmark_plan(recipe, typed, added=words))
    return benchmark.run(recipe, typed, given.out) if given.run else benchmark.show(recipe, typed)
