"""`ol2r benchmark [NAME]`: expected results of every ranker: published tables, running them again, adding a ranker."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ol2r_cli.config.own_choices import add_config_dir, as_options
from ol2r_cli.formatting import HelpFormatter
from ol2r_cli.run.exit_status import BAD_CONFIGURATION, DONE

EPILOG = """examples:
  ol2r benchmark                                          all names, and what each shows
  ol2r benchmark linear                                   the published tables
  ol2r benchmark linear dataset=mq2008 click=inf          one of them
  ol2r benchmark linear click=inf --add ranker=mine ranker.rate=0.1,1 -cd choices     a ranker of your own in it;
                                                          of several values validation chooses
  ol2r benchmark linear dataset=mq2008 click=inf --repeat PDGD       a row again: are the numbers the same here?
  ol2r benchmark linear --run --dry-run                   the runs, which of them are finished, how long it takes
  ol2r benchmark linear --run dataset=mq2008 launcher.jobs=4         all of them again, into outputs/benchmark
  ol2r benchmark --out docs/benchmark                     the pages of all published results
finished runs are not run again: the same command continues
exit codes: 0 done, 1 --repeat found other numbers, 2 bad configuration or data, 3 some runs failed, 130 interrupted
"""


def parser() -> argparse.ArgumentParser:
    """The options of `ol2r benchmark`."""
    options = argparse.ArgumentParser(
        "ol2r benchmark",
        usage="ol2r benchmark [NAME] [SETTING=VALUE ...] [--add WORDS | --repeat [ROW ...] | --run] [--dry-run]"
        " [--out DIR]",
        description=(__doc__ or "").partition(": ")[2],
        epilog=EPILOG,
        formatter_class=HelpFormatter,
    )
    add = options.add_argument
    add("name", metavar="NAME", nargs="?", help="of a benchmark; without a name, all are listed")
    add(
        "overrides",
        metavar="SETTING=VALUE",
        nargs="*",
        help="the part of it, where data are and where runs go: data_dir, output_dir, launcher",
    )
    add(
        "--add",
        metavar="WORDS",
        nargs="+",
        action="append",
        help="run this ranker in the same way, and show it in the tables; validation chooses of several values",
    )
    add("--repeat", metavar="ROW", nargs="*", help="run published rows again, with their settings, and compare")
    add("--run", action="store_true", help="run the whole protocol: hours")
    add("--dry-run", action="store_true", help="with --run or --add: list the runs, and run nothing")
    add_config_dir(options)
    add("--out", metavar="DIR", type=Path, help="with --run: for page and results (default: <output_dir>/benchmark)")
    return options


def main(arguments: list[str]) -> int:
    """Show, run or extend a benchmark and return the exit code."""
    given = parser().parse_intermixed_args(arguments)
    try:
        return _main(given)
    except ValueError as error:
        print(f"ol2r benchmark: {error}", file=sys.stderr)
        return BAD_CONFIGURATION


def _main(given: argparse.Namespace) -> int:
    from ol2r_cli.recipes.recipe import load_recipe, recipe_names

    if sum((bool(given.add), given.repeat is not None, given.run)) > 1:
        raise ValueError("--add, --repeat and --run exclude each other: leave out all but one")
    if given.name is None:
        if given.out is not None:
            from ol2r_cli.recipes.actions import write_all

            return write_all(given.out)
        from ol2r_cli.recipes.recipe_runs import published

        summaries = {name: load_recipe("benchmark", name).summary for name in recipe_names("benchmark")}
        missing = {name: "" if published(name) else " (not published yet)" for name in summaries}
        width = max(map(len, summaries))
        print("\n".join(f"{name:{width}}  {shows}{missing[name]}" for name, shows in summaries.items()))
        return DONE
    from ol2r_cli.recipes import actions
    from ol2r_cli.recipes.run_plan import benchmark_plan

    recipe, typed = load_recipe("benchmark", given.name), [*given.overrides, *as_options(given.config_dir)]
    if len(given.add or ()) > 1:
        raise ValueError("--add adds one ranker: add the others with a command each")
    if given.out and not given.run:
        raise ValueError("--out goes with --run, or without NAME")
    words = given.add[0] if given.add else ()
    if given.dry_run:
        if not (given.add or given.run):
            raise ValueError("--dry-run goes with --run or --add")
        return actions.dry_run(benchmark_plan(recipe, typed, added=words))
    if given.repeat is not None:
        rows = [word for word in given.repeat if "=" not in word]
        return actions.repeat(recipe, rows, [*typed, *(word for word in given.repeat if "=" in word)])
    if given.add:
        return actions.add(recipe, words, typed)
    return actions.run(recipe, typed, given.out) if given.run else actions.show(recipe, typed)
