"""`ol2r reproduce NAME`: runs of a figure or table of a paper, figures, and our values beside the printed numbers.

A caveat comes first wherever data or protocol differ from those of the paper.
"""

from __future__ import annotations

import csv
import io
import re
import shlex
import sys
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from ol2r_cli.config.grammar import expand
from ol2r_cli.dataset.dataset_statistics import group_statistics
from ol2r_cli.formatting import plural, plus_minus, wrapped
from ol2r_cli.metrics.intervals import LEVEL
from ol2r_cli.recipes.recipe import PAPERS
from ol2r_cli.recipes.run_plan import Condition, RecipeRow, RecipeRuns, RunPlan, run_recipe, value_of
from ol2r_cli.report.estimates import Estimate, of_values
from ol2r_cli.report.figures.drawing import draw, save
from ol2r_cli.report.measures import digits, heading
from ol2r_cli.report.names import Labels
from ol2r_cli.report.run_groups import Group
from ol2r_cli.report.units import SEEDS
from ol2r_cli.run import INTERRUPTED
from ol2r_cli.run.identity import HASHED_OTHERWISE, NOT_HASHED
from ol2r_cli.run.run import Run
from ol2r_cli.run.store import RunDirectory, create_root
from ol2r_cli.text_table import TextTable, markdown, print_tables

SECONDS = "seconds"  # wall-clock time of a run; all other metrics are those of summary.json
SIZE, UTILITY = "size", "utility"  # of a group of documents: per cent of all documents, mean label
GROUPS = ("A", "B")  # the paper's names of groups 0 and 1
# After which numbers remain comparable, as after the path of the data.
_WITHOUT_EFFECT = {*NOT_HASHED, *HASHED_OTHERWISE, "click"}
# Rankers with a network that ol2r fits in another way than the papers: docs/reproduce.md says how.
_REFITTED = {f"ranker={name}" for name in ("olranknet", "ollambdarank", "ollambdarank_gt", "p2neurrank")}
_FONT_SIZE = 7  # of the line above a figure, in points
_CHARACTERS = 16  # in an inch of this line
_WARNING_COLOUR = "#8a1c00"


class Reported(NamedTuple):
    """The settings of a competitor under a condition, and its value of each metric."""

    settings: str
    estimates: dict[str, Estimate]


Values = dict[Condition, Reported]  # for statistics of data: no click model, and a group of documents as competitor


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
    figures = []
    for spec in plan.recipe.figures:
        kind, shown = spec["kind"], {row.trial.condition: at_point(row) for row in runs.rows}
        shown = {each: group for each, group in shown.items() if each.click in spec.get("click", [each.click])}
        if shown:
            figure = drawn(kind, shown, **spec.get("options", {}))
            # a wrapped text above the figure, which grows by the height of the text
            width, height = figure.get_size_inches()
            lines = textwrap.wrap(line, int(width * _CHARACTERS))
            figure.set_size_inches(width, height + (len(lines) + 0.5) * _FONT_SIZE * 1.3 / 72)
            figure.suptitle("\n".join(lines), fontsize=_FONT_SIZE, fontweight="bold", color=_WARNING_COLOUR)
            for suffix in ("png", "svg", "pdf"):
                save(figure, directory / f"{kind}.{suffix}")
            figures.append(directory / f"{kind}.png")
    directory.write_text("table.csv", as_csv(plan, values))
    directory.write_text("README.md", paper_page(plan, runs, values, figures))
    # the warning is repeated below the numbers
    lines_of_points = any(condition.point for condition in values)
    print_result(comparison_table(plan, values, settings=lines_of_points), [] if comparable else [line])
    for path in [*figures, directory / "README.md"]:
        print(f"written: {path}")
    return runs.code


def at_point(row: RecipeRow) -> Group:
    """Return the group of a row with the setting of its point: its runs may have been typed otherwise for others."""
    name, _, value = row.trial.condition.point.partition("=")
    of_point = {row.group.kind.as_shown(name): yaml.safe_load(value)} if name else {}
    return replace(row.group, settings={**row.group.settings, **of_point})


def drawn(kind: str, groups: Mapping[Condition, Group], **options: Any) -> Any:
    """Return a figure in which groups have the names of their competitors."""
    names = {group: condition.competitor for condition, group in groups.items()}
    return draw(kind, list(names), Labels(list(names), names), **options)


def print_result(table: TextTable, notes: Sequence[str] = ()) -> None:
    """Print a table for a terminal, or as markdown."""
    if sys.stdout.isatty():
        print_tables([table], notes)
    else:
        print(markdown(table), *notes, sep="\n\n")


def run_values(plan: RunPlan, runs: RecipeRuns) -> Values:
    """Return the values of all conditions and metrics that the runs have, in the order of the recipe.

    A metric is estimated over folds and seeds, running time over runs.
    """
    values = {}
    for row in runs.rows:
        estimates = {metric: row.group.estimate(metric) for metric in plan.recipe.metrics if metric != SECONDS}
        if SECONDS in plan.recipe.metrics:
            seconds = [Run.read_finished(run.path).manifest["seconds"] for run in row.group.runs]
            estimates[SECONDS] = of_values({(None, number): each for number, each in enumerate(seconds)})
        known = {metric: each for metric in plan.recipe.metrics if (each := estimates[metric]) is not None}
        values[row.trial.condition] = Reported(" ".join(row.trial.settings.values()), known)
    return {condition: reported for condition, reported in values.items() if reported.estimates}


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
            values[Condition(slot.title, "", group)] = Reported("", both)
    return values


def printed_numbers(plan: RunPlan, condition: Condition, metric: str) -> dict[str, float]:
    """Return the paper's numbers for a condition and metric, by the title of their dataset."""
    stands_for = {name for slot in plan.slots if slot.title == condition.slot for name in slot.stands_for}
    return {
        plan.recipe.data[number["data"]].title: number["value"]
        for number in plan.recipe.printed
        if number["data"] in stands_for
        and (number["competitor"], number["metric"]) == (condition.competitor, metric)
        and number.get("click", "") in ("", condition.click)
    }


def comparison_table(plan: RunPlan, values: Values, settings: bool = True) -> TextTable:
    """Return a row for each condition and three columns for each metric: ours, the paper's, and their difference.

    Where our runs do not follow the protocol of the paper, differences are left out and the paper's dataset is named.
    settings: whether to show the settings of competitors. Empty columns are left out.
    """
    _, comparable = protocol(plan)
    metrics = list(dict.fromkeys(metric for reported in values.values() for metric in reported.estimates))
    rows = []
    for condition, (chosen, estimates) in values.items():
        n = str(next(iter(estimates.values())).n) if plan.recipe.competitors else ""  # else statistics, without seeds
        row = [*condition[:3], " ".join(brief(chosen.split())) if settings else "", n]
        for metric in metrics:
            if (own := estimates.get(metric)) is None:
                row += ["", "", ""]
                continue
            places, printed = 4 if metric == UTILITY else digits(metric), printed_numbers(plan, condition, metric)
            theirs = [f"{n:.{places}f}" + ("" if comparable else f" ({title})") for title, n in printed.items()]
            differences = [f"{own.mean - n:.{places}f}" for n in printed.values()] if comparable else []
            row += [plus_minus(own.mean, own.half_width, places), ", ".join(theirs), ", ".join(differences)]
        rows.append(row)
    of_metrics = [text for metric in metrics for text in (heading(metric), "the paper", "difference")]
    return TextTable.of(["data", "click", "competitor", "settings"], ["n", *of_metrics], rows).without_empty()


def brief(words: Iterable[str]) -> list[str]:
    """Return overrides with the last parts of their names, such as `l2=1` of `ranker.l2=1`, where these differ."""
    of_words = {word: re.split("[./]", word.partition("=")[0])[-1] for word in words}
    count = Counter(of_words.values())
    return [word if count[last] > 1 else f"{last}={word.partition('=')[2]}" for word, last in of_words.items()]


def as_csv(plan: RunPlan, values: Values) -> str:
    """Return all values in full precision as CSV, with a row for every number that the paper prints for a value."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    columns = ["scale", "data", "click", "competitor", "settings", "metric", "mean", "half_width", "n"]
    writer.writerow([*columns, "paper_data", "paper_value"])
    for condition, (settings, estimates) in values.items():
        for metric, value in estimates.items():
            row = [plan.scale, *condition[:3], settings, metric, value.mean, value.half_width, value.n]
            printed = printed_numbers(plan, condition, metric).items() or [("", None)]
            writer.writerows([*row, *number] for number in printed)
    return text.getvalue()


def protocol(plan: RunPlan) -> tuple[str, bool]:
    """Return the protocol of the runs in one line, and whether numbers can be compared with those of the paper.

    Where they cannot, the line ends in the reason: `quick: T = 1,000, 5 seeds, generated data: shapes can ..`.
    """
    recipe = plan.recipe
    parts = ["generated data" if plan.stand_in in slot.shared.values() else slot.title for slot in plan.slots]
    line = " and ".join(dict.fromkeys(parts))
    shared = plan.slots[0].shared
    if not plan.kind.plays_rounds:
        fold = plan.kind.fold
        line = f"{plural(len(expand(shared[fold])), fold.rpartition('.')[2])}, {line}"
    elif recipe.competitors:
        for name in ("rounds", "replicas"):
            if not (value := value_of(shared, name)).isdecimal():
                raise ValueError(f"{name} must be a whole number, got {value}")
        rounds, seeds = (int(value_of(shared, name)) for name in ("rounds", "replicas"))
        folds = len(expand(shared["dataset.fold"])) if "dataset.fold" in shared else 1
        line = f"T = {rounds:,}, {plural(seeds, 'seed')}{f' x {folds} folds' * (folds > 1)}, {line}"
    line = f"{plan.scale}: {line}"
    data = [(slot, recipe.data[name]) for slot in plan.slots for name in slot.stands_for]
    without_effect = {*_WITHOUT_EFFECT, f"{plan.kind.data}.path"}
    typed = [override for name, override in plan.typed.items() if name not in without_effect]
    if plan.scale == "quick":
        return f"{line}: shapes can be compared, numbers cannot", False
    if any(value_of(slot.shared, plan.kind.data) != paper.choice for slot, paper in data):
        return f"{line}, which is not the data of the paper: numbers cannot be compared", False
    if typed:
        return f"{line}, with {' '.join(typed)}, which is not the protocol of the paper", False
    if recipe.caveat:
        return f"{line}, {recipe.caveat}", False
    if any(not _REFITTED.isdisjoint(competitor.words.split()) for competitor in recipe.competitors.values()):
        return f"{line}, with networks that are not fitted as in the paper: numbers cannot be compared", False
    return line, True


def paper_page(plan: RunPlan, runs: RecipeRuns, values: Values, figures: Sequence[Path]) -> str:
    """Return the README.md of a figure or table of a paper; a caveat comes before the first number."""
    recipe, (line, comparable) = plan.recipe, protocol(plan)
    verdicts = [seen.partition(",") for seen in recipe.seen]
    parts = [
        f"# {recipe.title}",
        f"{PAPERS[recipe.paper][1]}, {recipe.where}: {recipe.shows}.",
        line if comparable else f"> **{line}**",
        "The paper says, and published runs of ol2r (`docs/reproduce.md`) show:",
        "\n".join(
            f"- {claim}\n  - **{verdict}**{comma}{reason}"
            for claim, (verdict, comma, reason) in zip(recipe.claims, verdicts, strict=True)
        ),
        *(f"![{path.stem}]({path.name})" for path in figures),
    ]
    if estimates := [estimate for reported in values.values() for estimate in reported.estimates.values()]:
        notes = []
        if any(estimate.half_width is not None for estimate in estimates):
            several = any(estimate.clusters > 1 for estimate in estimates)
            units = (runs.rows[0].group.units if runs.rows else SEEDS).below_table(several)
            notes.append(f"± is half the width of the {LEVEL:.0%} interval of the mean (Student's t) over {units}")
        if most := max((len(row.cells) for row in runs.rows), default=0):
            chosen = f"Settings are the best of up to {most} by validation NDCG@10"
            notes.append(f"{chosen}, chosen with other seeds than those reported.")
        parts += [markdown(comparison_table(plan, values)), " ".join(notes)]
    parts += [f"failed: {job}" for job in runs.failed]
    command = f"ol2r reproduce {recipe.name} --scale {plan.scale} {shlex.join(plan.typed.values())}".strip()
    return "\n\n".join([*parts, f"    {command}"]) + "\n"
