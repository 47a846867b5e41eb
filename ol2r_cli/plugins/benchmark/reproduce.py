"""`ol2r reproduce [NAME]`: a figure or table of the papers: runs what is missing, draws, and compares the numbers.

examples:
  ol2r reproduce                                    all names, and what each shows
  ol2r reproduce pairrank_fig3                      in minutes, on generated data, with few seeds
  ol2r reproduce pairrank_fig3 --dry-run            the runs, and which of them are finished
  ol2r reproduce pairrank_fig3 dataset=mq2008 dataset.path=$HOME/MQ2008 click=inf
  ol2r reproduce p2neurrank_table --scale paper data_dir=/data launcher=slurm
  ol2r reproduce fairexp_fig6 --scale paper dataset=synthetic rounds=1000
SETTING=VALUE holds for all runs of the recipe; finished runs are not run again
exit codes: 0 done, 2 bad configuration or data, 3 some runs failed (the others are drawn), 130 interrupted
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ol2r_cli.commands.command import argument, command
from ol2r_cli.config.own_choices import add_config_dir, as_options
from ol2r_cli.lazy import lazy
from ol2r_cli.plugins.benchmark.recipe import SCALES, load_recipe, recipe_names
from ol2r_cli.run import DONE
from ol2r_cli.text.table import show

if TYPE_CHECKING:
    from ol2r_cli.plugins.benchmark import paper, run_plan
else:
    paper, run_plan = lazy("ol2r_cli.plugins.benchmark.paper"), lazy("ol2r_cli.plugins.benchmark.run_plan")


@command(
    argument(
        "name",
        offers=lambda: recipe_names("reproduce"),
        metavar="NAME",
        nargs="?",
        help="a recipe; without a name, all are listed",
    ),
    argument("overrides", metavar="SETTING=VALUE", nargs="*", help="as for `ol2r run`, for all runs"),
    argument(
        "--scale", choices=SCALES["reproduce"], help="quick: minutes, the default | paper: the protocol of the paper"
    ),
    argument("--dry-run", action="store_true", help="list the runs, and run nothing"),
    add_config_dir,
    argument("--out", metavar="DIR", type=Path, help="for the figures (default: <output_dir>/reproduce/NAME)"),
)
def main(given: argparse.Namespace) -> int:
    if given.name is None:
        show([(name, load_recipe("reproduce", name).summary) for name in recipe_names("reproduce")])
        return DONE
    scales = [word.removeprefix("scale=") for word in given.overrides if word.startswith("scale=")]
    overrides = [word for word in given.overrides if not word.startswith("scale=")]
    recipe = load_recipe("reproduce", given.name)
    scale = given.scale or next(reversed(scales), None)
    plan = run_plan.plan_of(recipe, [*overrides, *as_options(given.config_dir)], scale)
    return paper.show_plan(plan) if given.dry_run else paper.reproduce(plan, given.out)
