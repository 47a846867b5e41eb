"""One figure or table from beginning to end: check of the data, runs, figures, table and page."""

from __future__ import annotations

import sys
from pathlib import Path

from ol2r_cli.report.text_table import markdown, terminal
from ol2r_cli.reproduce.paper_plan import PaperPlan
from ol2r_cli.reproduce.paper_table import as_csv, comparison_table, data_values, run_values
from ol2r_cli.reproduce.recipe_page import caveat, draw_figures, markdown_page, protocol_line
from ol2r_cli.reproduce.recipe_runs import RecipeRuns, print_trials, run_recipe
from ol2r_cli.run.directory import RunDirectory, create_root
from ol2r_cli.run.exit_status import INTERRUPTED


def reproduce(plan: PaperPlan, out: Path | None = None) -> int:
    """Run what is missing, write figures, table.csv and README.md, print the table; return the exit code.

    `out` is the folder to write to, by default <output_dir>/reproduce/<name>. ValueError, before anything is run, for
    missing data and a bad configuration.
    """
    plan.check_data()
    warning = caveat(plan)
    print(warning or protocol_line(plan))
    runs = run_recipe(plan) if plan.recipe.competitors else RecipeRuns()
    for job in runs.failed:
        print(f"ol2r reproduce: failed: {job.command} ({job.reason})", file=sys.stderr)
    if runs.code == INTERRUPTED:
        print("the same command goes on from here", file=sys.stderr)
        return INTERRUPTED
    values = run_values(plan, runs) if plan.recipe.competitors else data_values(plan)
    create_root(plan.output_dir)
    folder = out or plan.output_dir / plan.part / plan.recipe.name
    figures = list(draw_figures(plan, runs, folder))
    directory = RunDirectory(folder)
    directory.write_text("table.csv", as_csv(values, plan.scale))
    directory.write_text("README.md", markdown_page(plan, runs, values, figures))
    table = comparison_table(values, comparable=not warning, settings=False)
    notes = [warning] if warning else []  # repeated below the numbers
    if sys.stdout.isatty():
        terminal([table], notes)
    else:
        print(markdown(table), *notes, sep="\n\n")
    for path in [*figures, folder / "README.md"]:
        print(f"written: {path}")
    return runs.code


def dry_run(plan: PaperPlan) -> int:
    """Print the runs of a plan without running or writing anything; return the exit code."""
    plan.check_data()
    print(caveat(plan) or protocol_line(plan))
    return print_trials(plan)
