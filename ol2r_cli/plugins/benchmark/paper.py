"""`ol2r reproduce NAME`: runs of a figure or table of a paper, figures, and our values beside the printed numbers.

A caveat comes first wherever data or protocol differ from those of the paper.
"""

from __future__ import annotations

import csv
import io
import shlex
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import yaml

from ol2r_cli.config.grammar import expand
from ol2r_cli.dataset.dataset_statistics import group_statistics
from ol2r_cli.metrics.intervals import LEVEL
from ol2r_cli.plugins.benchmark.play import RecipeRuns, dry_run, run_recipe
from ol2r_cli.plugins.benchmark.recipe import PAPERS, Condition, Overrides, Recipe, brief, value_of
from ol2r_cli.plugins.benchmark.results import Row
from ol2r_cli.plugins.benchmark.run_plan import RunPlan
from ol2r_cli.plugins.figures.drawing import draw, save
from ol2r_cli.report.estimates import Estimate, of_values
from ol2r_cli.report.measures import digits, heading
from ol2r_cli.report.names import Labels
from ol2r_cli.report.run_groups import Group
from ol2r_cli.report.units import SEEDS
from ol2r_cli.run import INTERRUPTED
from ol2r_cli.run.identity import HASHED_OTHERWISE, NOT_HASHED
from ol2r_cli.run.run import Run
from ol2r_cli.run.store import RunDirectory, create_root
from ol2r_cli.text.formatting import plural, plus_minus, wrapped
from ol2r_cli.text.table import TextTable, markdown, print_result

# Settings that may be typed, as the path of the data: numbers remain comparable.
_COMPARABLE_WITH = {*NOT_HASHED, *HASHED_OTHERWISE, "click"}
# Rankers with a network that ol2r fits in another way than the papers: docs/explanation/reproduced.md says how.
_REFITTED = {f"ranker={name}" for name in ("olranknet", "ollambdarank", "ollambdarank_gt", "p2neurrank")}
SECONDS = "seconds"  # wall-clock time of a run; all other metrics are those of summary.json
SIZE, UTILITY = "size", "utility"  # of a group of documents: per cent of all documents, mean label
GROUPS = ("A", "B")  # the paper's names of groups 0 and 1
_FONT_SIZE = 7  # of the line above a figure, in points
_CHARACTERS = 16  # in an inch of this line
_WARNING_COLOUR = "#8a1c00"

Values = dict[Condition, dict[str, Estimate]]  # by metric; in statistics of data, groups of documents compete


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
    directory.write_text("table.csv", as_csv(plan, runs, values))
    directory.write_text("README.md", paper_page(plan, runs, values, figures))
    lines_of_points = any(condition.point for condition in values)
    # the warning is repeated below the numbers
    print_result(comparison_table(plan, runs, values, settings=lines_of_points), [] if comparable else [line])
    for path in [*figures, directory / "README.md"]:
        print(f"written: {path}")
    return runs.code


def protocol(plan: RunPlan) -> tuple[str, bool]:
    """Return the protocol of the runs in one line, and whether numbers can be compared with those of the paper.

    Where they cannot, the line ends in the reason: `quick: T = 1,000, 5 seeds, generated data: shapes can ..`.
    """
    reason = _why_not_comparable(plan)
    titles = ["generated data" if plan.stand_in in slot.shared.values() else slot.title for slot in plan.slots]
    data = " and ".join(dict.fromkeys(titles))  # such as `MSLR-WEB10K and Yahoo`
    return f"{plan.scale}: {', '.join([*_extents(plan), data])}{reason}", not reason


def _extents(plan: RunPlan) -> list[str]:
    """Return how much is run, such as `T = 10,000` and `5 seeds x 5 folds`; empty where nothing is run."""
    shared = plan.slots[0].shared
    if not plan.kind.plays_rounds:
        fold = plan.kind.fold
        return [plural(len(expand(shared[fold])), fold.rpartition(".")[2])]
    if not plan.recipe.competitors:
        return []
    rounds = _whole_number(shared, "rounds")
    seeds = plural(_whole_number(shared, "replicas"), "seed")
    folds = len(expand(shared["dataset.fold"])) if "dataset.fold" in shared else 1
    return [f"T = {rounds:,}", f"{seeds} x {folds} folds" if folds > 1 else seeds]


def _whole_number(shared: Overrides, name: str) -> int:
    value = value_of(shared, name)
    if not value.isdecimal():
        raise ValueError(f"{name} must be a whole number, got {value}")
    return int(value)


def _why_not_comparable(plan: RunPlan) -> str:
    """Return the end of the line that says why numbers cannot be compared; empty where they can."""
    recipe = plan.recipe
    if plan.scale == "quick":
        return ": shapes can be compared, numbers cannot"
    for slot in plan.slots:
        used = value_of(slot.shared, plan.kind.data)
        if any(used != recipe.data[name].choice for name in slot.stands_for):
            return ", which is not the data of the paper: numbers cannot be compared"
    allowed = {*_COMPARABLE_WITH, f"{plan.kind.data}.path"}
    typed = [override for name, override in plan.typed.items() if name not in allowed]
    if typed:
        return f", with {' '.join(typed)}, which is not the protocol of the paper"
    if recipe.caveat:
        return f", {recipe.caveat}"
    if any(not _REFITTED.isdisjoint(competitor.words.split()) for competitor in recipe.competitors.values()):
        return ", with networks that are not fitted as in the paper: numbers cannot be compared"
    return ""


def run_values(plan: RunPlan, runs: RecipeRuns) -> Values:
    """Return the values of all conditions and metrics that the runs have, in the order of the recipe."""
    values: Values = {}
    for row in runs.rows:
        for metric in plan.recipe.metrics:
            estimate = _seconds(row) if metric == SECONDS else row.group.estimate(metric)
            if estimate is not None:
                values.setdefault(row.condition, {})[metric] = estimate
    return values


def _seconds(row: Row) -> Estimate | None:
    """Return the running time over runs; all other metrics are estimated over folds and seeds."""
    seconds = [Run.read_finished(run.path).manifest["seconds"] for run in row.group.runs]
    return of_values({(None, number): seconds_of_run for number, seconds_of_run in enumerate(seconds)})


def data_values(plan: RunPlan) -> Values:
    """Return size and utility of both groups in every dataset; ValueError for a dataset without two groups."""
    values: Values = {}
    for slot in plan.slots:
        statistics = group_statistics(plan.dataset(slot).load())
        if not statistics or len(statistics[-1].sizes) != len(GROUPS):
            raise ValueError(f"{slot.title} must have two groups of documents: type 'dataset.group={{..}}'")
        total = statistics[-1]  # over all splits
        for group, size, utility in zip(GROUPS, total.sizes, total.utilities, strict=True):
            both = {SIZE: Estimate(100 * size / sum(total.sizes), None, 1), UTILITY: Estimate(utility, None, 1)}
            values[Condition(slot.title, "", group)] = both
    return values


def printed_numbers(plan: RunPlan, condition: Condition, metric: str) -> dict[str, float]:
    """Return the paper's numbers for a condition and metric, by the title of their dataset."""
    stands_for = next(slot.stands_for for slot in plan.slots if slot.title == condition.data)
    numbers = {}
    for number in plan.recipe.printed:
        of_row = number["data"] in stands_for and number["competitor"] == condition.competitor
        of_click = number.get("click", "") in ("", condition.click)
        if of_row and of_click and number["metric"] == metric:
            numbers[plan.recipe.data[number["data"]].title] = number["value"]
    return numbers


def comparison_table(plan: RunPlan, runs: RecipeRuns, values: Values, settings: bool = True) -> TextTable:
    """Return a row for each condition and three columns for each metric: ours, the paper's, and their difference.

    Where our runs do not follow the protocol of the paper, differences are left out and the paper's dataset is named.
    settings: whether to show the settings of competitors. Empty columns are left out.
    """
    _, comparable = protocol(plan)
    metrics = list(dict.fromkeys(chain(*values.values())))
    chosen = {row.condition: brief(row.settings.values()) for row in runs.rows} if settings else {}
    rows = []
    for condition, estimates in values.items():
        n = str(next(iter(estimates.values())).n) if plan.recipe.competitors else ""  # else statistics, without seeds
        cells = [*condition[:3], " ".join(chosen.get(condition, ())), n]
        for metric in metrics:
            printed = printed_numbers(plan, condition, metric)
            cells += _beside_printed(estimates.get(metric), printed, metric, comparable)
        rows.append(cells)
    headings = ["n"]
    for metric in metrics:
        headings += [heading(metric), "the paper", "difference"]
    return TextTable.of(["data", "click", "competitor", "settings"], headings, rows).without_empty()


def _beside_printed(
    own: Estimate | None, printed: dict[str, float], metric: str, comparable: bool
) -> tuple[str, str, str]:
    """Return our value, the paper's numbers, and where they are comparable the differences."""
    if own is None:
        return "", "", ""
    places = 4 if metric == UTILITY else digits(metric)
    value = plus_minus(own.mean, own.half_width, places)
    if not comparable:
        return value, ", ".join(f"{number:.{places}f} ({title})" for title, number in printed.items()), ""
    numbers = ", ".join(f"{number:.{places}f}" for number in printed.values())
    return value, numbers, ", ".join(f"{own.mean - number:.{places}f}" for number in printed.values())


def as_csv(plan: RunPlan, runs: RecipeRuns, values: Values) -> str:
    """Return all values in full precision as CSV, with a row for every number that the paper prints for a value."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    columns = ["scale", "data", "click", "competitor", "settings", "metric", "mean", "half_width", "n"]
    writer.writerow([*columns, "paper_data", "paper_value"])
    settings = {row.condition: " ".join(row.settings.values()) for row in runs.rows}
    for condition, estimates in values.items():
        for metric, value in estimates.items():
            names = [plan.scale, *condition[:3], settings.get(condition, ""), metric]
            numbers = [value.mean, value.half_width, value.n]
            printed = printed_numbers(plan, condition, metric).items() or [("", None)]
            writer.writerows([*names, *numbers, *number] for number in printed)
    return text.getvalue()


def _write_figures(recipe: Recipe, runs: RecipeRuns, line: str, directory: RunDirectory) -> list[Path]:
    """Write the figures of a recipe below the line of their protocol; return the paths of the PNG files."""
    groups = {row.condition: at_point(row) for row in runs.rows}
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


def at_point(row: Row) -> Group:
    """Return the group of a row with the setting of its point: its runs may have been typed otherwise for others."""
    name, _, value = row.condition.point.partition("=")
    of_point = {row.group.run_kind.as_shown(name): yaml.safe_load(value)} if name else {}
    return replace(row.group, settings={**row.group.settings, **of_point})


def drawn(kind: str, groups: Mapping[Condition, Group], **options: Any) -> Any:
    """Return a figure in which groups have the names of their competitors."""
    names = {group: condition.competitor for condition, group in groups.items()}
    return draw(kind, list(names), Labels(list(names), names), **options)


def write_above(figure: Any, line: str) -> None:
    """Write a wrapped line above a figure, which grows by the height of the text."""
    width, height = figure.get_size_inches()
    lines = textwrap.wrap(line, int(width * _CHARACTERS))
    figure.set_size_inches(width, height + (len(lines) + 0.5) * _FONT_SIZE * 1.3 / 72)
    text = "\n".join(lines)
    figure.suptitle(text, fontsize=_FONT_SIZE, fontweight="bold", color=_WARNING_COLOUR, parse_math=False)


def paper_page(plan: RunPlan, runs: RecipeRuns, values: Values, figures: Sequence[Path]) -> str:
    """Return the README.md of a figure or table of a paper; a caveat comes before the first number."""
    recipe = plan.recipe
    line, comparable = protocol(plan)
    paragraphs = [
        f"# {recipe.title}",
        f"{PAPERS[recipe.paper][1]}, {recipe.where}: {recipe.shows}.",
        line if comparable else f"> **{line}**",
        "The paper says, and published runs of ol2r (`docs/reference/reproduced.md`) show:",
        "\n".join(_claims(recipe)),
        *(f"![{path.stem}]({path.name})" for path in figures),
    ]
    if values:
        paragraphs += [markdown(comparison_table(plan, runs, values)), " ".join(_notes(runs, values))]
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
    estimates = chain(*(of_condition.values() for of_condition in values.values()))
    if any(estimate.half_width is not None for estimate in estimates):
        groups = [row.group for row in runs.rows]
        units = (groups[0].units if groups else SEEDS).below_table(groups)
        notes.append(f"± is half the {LEVEL:.0%} interval of the mean (Student's t) over {units}")
    most = max((len(runs.cells(row.condition)) for row in runs.rows), default=0)
    if most:
        chosen = f"Settings are the best of up to {most} by validation NDCG@10"
        notes.append(f"{chosen}, chosen with other seeds than those reported.")
    return notes
