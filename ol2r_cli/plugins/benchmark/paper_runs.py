"""`ol2r reproduce NAME`: runs of a figure or table of a paper, figures, and our values beside the printed numbers.

A caveat comes first wherever data or protocol differ from those of the paper.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

import yaml

from ol2r_cli.metrics.intervals import LEVEL
from ol2r_cli.plugins.benchmark.figures import drawn, write_above
from ol2r_cli.plugins.benchmark.paper_values import Values, as_csv, comparison_table, data_values, run_values
from ol2r_cli.plugins.benchmark.play import RecipeRuns, dry_run, run_recipe
from ol2r_cli.plugins.benchmark.protocol import protocol
from ol2r_cli.plugins.benchmark.recipe import PAPERS, Recipe
from ol2r_cli.plugins.benchmark.run_plan import RunPlan
from ol2r_cli.plugins.benchmark.trials import PlayedTrial
from ol2r_cli.plugins.figures.drawing import save
from ol2r_cli.report.run_groups import Group
from ol2r_cli.report.units import SEEDS
from ol2r_cli.run import INTERRUPTED
from ol2r_cli.run.store import RunDirectory, create_root
from ol2r_cli.text.formatting import wrapped
from ol2r_cli.text.table import markdown, print_result


def show_plan(plan: RunPlan) -> int:
    """Print the protocol and the runs of a plan, without running anything; return the exit code."""
    plan.check_data()
    line, _ = protocol(plan)
    print(wrapped(line))
    return dry_run(plan)


def reproduce(plan: RunPlan, out: Path | None = None) -> int:
    """Run what is missing, write figures, table.csv and README.md, print the table; return the exit code.

    `out` is the folder to write to, by default <output_dir>/reproduce/<name>. ValueError, before anything is run, for
    missing data and a bad configuration.
    """
    plan.check_data()
    line, comparable = protocol(plan)
    print(wrapped(line))
    runs = run_recipe(plan) if plan.recipe.competitors else RecipeRuns()
    if runs.code == INTERRUPTED:
        return INTERRUPTED
    values = run_values(plan, runs) if plan.recipe.competitors else data_values(plan)
    create_root(plan.output_dir)
    directory = RunDirectory(out or plan.output_dir / "reproduce" / plan.recipe.name)
    figures = _write_figures(plan.recipe, runs, line, directory)
    directory.write_text("table.csv", as_csv(plan, values))
    directory.write_text("README.md", paper_page(plan, runs, values, figures))
    lines_of_points = any(condition.point for condition in values)
    # the warning is repeated below the numbers
    print_result(comparison_table(plan, values, settings=lines_of_points), [] if comparable else [line])
    for path in [*figures, directory / "README.md"]:
        print(f"written: {path}")
    return runs.code


def _write_figures(recipe: Recipe, runs: RecipeRuns, line: str, directory: RunDirectory) -> list[Path]:
    """Write the figures of a recipe below the line of their protocol; return the paths of the PNG files."""
    groups = {row.trial.condition: at_point(row) for row in runs.rows}
    paths = []
    for spec in recipe.figures:
        clicks = spec.get("click")
        shown = {condition: group for condition, group in groups.items() if not clicks or condition.click in clicks}
        if not shown:
            continue
        kind = spec["kind"]
        figure = drawn(kind, shown, **spec.get("options", {}))
        write_above(figure, line)
        for suffix in ("png", "svg", "pdf"):
            save(figure, directory / f"{kind}.{suffix}")
        paths.append(directory / f"{kind}.png")
    return paths


def at_point(row: PlayedTrial) -> Group:
    """Return the group of a row with the setting of its point: its runs may have been typed otherwise for others."""
    name, _, value = row.trial.condition.point.partition("=")
    of_point = {row.group.run_kind.as_shown(name): yaml.safe_load(value)} if name else {}
    return replace(row.group, settings={**row.group.settings, **of_point})


def paper_page(plan: RunPlan, runs: RecipeRuns, values: Values, figures: Sequence[Path]) -> str:
    """Return the README.md of a figure or table of a paper; a caveat comes before the first number."""
    recipe = plan.recipe
    line, comparable = protocol(plan)
    paragraphs = [
        f"# {recipe.title}",
        f"{PAPERS[recipe.paper][1]}, {recipe.where}: {recipe.shows}.",
        line if comparable else f"> **{line}**",
        "The paper says, and published runs of ol2r (`docs/explanation/reproduced.md`) show:",
        "\n".join(_claims(recipe)),
        *(f"![{path.stem}]({path.name})" for path in figures),
    ]
    if values:
        paragraphs += [markdown(comparison_table(plan, values)), " ".join(_notes(runs, values))]
    paragraphs += [f"failed: {job}" for job in runs.failed]
    command = f"ol2r reproduce {recipe.name} --scale {plan.scale} {shlex.join(plan.typed.values())}".strip()
    return "\n\n".join([*paragraphs, f"    {command}"]) + "\n"


def _claims(recipe: Recipe) -> list[str]:
    """Return the claims of a paper as items of a list, each with the verdict and its reason."""
    items = []
    for claim, seen in zip(recipe.claims, recipe.seen, strict=True):
        verdict, comma, reason = seen.partition(",")
        items.append(f"- {claim}\n  - **{verdict}**{comma}{reason}")
    return items


def _notes(runs: RecipeRuns, values: Values) -> list[str]:
    """Return what the intervals below a table are over, and from how many settings those of a row were chosen."""
    notes = []
    estimates = list(chain(*(reported.estimates.values() for reported in values.values())))
    if any(estimate.half_width is not None for estimate in estimates):
        groups = [row.group for row in runs.rows]
        units = (groups[0].units if groups else SEEDS).below_table(groups)
        notes.append(f"± is half the {LEVEL:.0%} interval of the mean (Student's t) over {units}")
    most = max((len(runs.cells(row.trial.condition)) for row in runs.rows), default=0)
    if most:
        chosen = f"Settings are the best of up to {most} by validation NDCG@10"
        notes.append(f"{chosen}, chosen with other seeds than those reported.")
    return notes
