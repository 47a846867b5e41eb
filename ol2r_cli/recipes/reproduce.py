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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ol2r_cli.config.composer import expand
from ol2r_cli.dataset.dataset_statistics import group_statistics
from ol2r_cli.formatting import plus_minus
from ol2r_cli.recipes.recipe import PAPERS
from ol2r_cli.recipes.recipe_runs import RecipeRuns, run_recipe
from ol2r_cli.recipes.run_plan import STAND_IN, Condition, RunPlan, Slot
from ol2r_cli.report.estimates import LEVEL, Estimate, of_values
from ol2r_cli.report.figures.drawing import draw, save
from ol2r_cli.report.measures import digits, heading
from ol2r_cli.report.names import Labels
from ol2r_cli.report.run_groups import Group
from ol2r_cli.report.text_table import TextTable, markdown, terminal
from ol2r_cli.run import INTERRUPTED
from ol2r_cli.run.identity import NOT_HASHED
from ol2r_cli.run.run import Run
from ol2r_cli.run.store import RunDirectory, create_root

SECONDS = "seconds"  # wall-clock time of a run; all other metrics are those of summary.json
SIZE, UTILITY = "size", "utility"  # of a group of documents: per cent of all documents, mean label
GROUPS = ("A", "B")  # the paper's names of groups 0 and 1
_WITHOUT_EFFECT = {*NOT_HASHED, "dataset.path", "click"}  # overrides after which numbers remain comparable
# Rankers with a network that ol2r fits in another way than the papers: docs/reproduce.md says how.
_REFITTED = {f"ranker={name}" for name in ("olranknet", "ollambdarank", "ollambdarank_gt", "p2neurrank")}
_FONT_SIZE = 7  # of the line above a figure, in points
_CHARACTERS = 16  # in an inch of this line
_WARNING_COLOUR = "#8a1c00"


@dataclass(frozen=True)
class ReportedValue:
    """A value of one metric under a condition; `printed` has the paper's numbers by the title of their dataset.

    For statistics of the data, the condition has no click model and its competitor is a group of documents.
    """

    condition: Condition
    settings: str
    metric: str
    value: Estimate
    printed: Mapping[str, float]


def reproduce(plan: RunPlan, out: Path | None = None) -> int:
    """Run what is missing, write figures, table.csv and README.md, print the table; return the exit code.

    `out` is the folder to write to, by default <output_dir>/reproduce/<name>. ValueError, before anything is run, for
    missing data and a bad configuration.
    """
    plan.check_data()
    warning = caveat(plan)
    print(warning or protocol_line(plan))
    runs = run_recipe(plan) if plan.recipe.competitors else RecipeRuns()
    if runs.code == INTERRUPTED:
        return INTERRUPTED
    values = run_values(plan, runs) if plan.recipe.competitors else data_values(plan)
    create_root(plan.output_dir)
    directory = RunDirectory(out or plan.output_dir / "reproduce" / plan.recipe.name)
    figures = list(_draw_figures(plan, runs, directory.path))
    directory.write_text("table.csv", as_csv(values, plan.scale))
    directory.write_text("README.md", paper_page(plan, runs, values, figures))
    # the warning is repeated below the numbers
    print_result(comparison_table(values, comparable=not warning, settings=False), [warning] if warning else [])
    for path in [*figures, directory / "README.md"]:
        print(f"written: {path}")
    return runs.code


def _draw_figures(plan: RunPlan, runs: RecipeRuns, folder: Path) -> Iterator[Path]:
    """Draw the figures of a recipe into a folder and yield their png files; ValueError for runs that lack data."""
    for spec in plan.recipe.figures:
        groups = {each: group for each, group in runs.groups.items() if each.click in spec.get("click", [each.click])}
        if groups:
            figure = drawn(spec["kind"], groups, **spec.get("options", {}))
            # a wrapped text above the figure, which grows by the height of the text
            width, height = figure.get_size_inches()
            lines = textwrap.wrap(caveat(plan) or protocol_line(plan), int(width * _CHARACTERS))
            figure.set_size_inches(width, height + (len(lines) + 0.5) * _FONT_SIZE * 1.3 / 72)
            figure.suptitle("\n".join(lines), fontsize=_FONT_SIZE, fontweight="bold", color=_WARNING_COLOUR)
            for suffix in ("png", "svg", "pdf"):
                save(figure, folder / f"{spec['kind']}.{suffix}")
            yield folder / f"{spec['kind']}.png"


def drawn(kind: str, groups: Mapping[Condition, Group], **options: Any) -> Any:
    """Return a figure in which groups have the names of their competitors."""
    names = {group: condition.competitor for condition, group in groups.items()}
    return draw(kind, list(names), Labels(list(names), names), **options)


def print_result(table: TextTable, notes: Sequence[str] = ()) -> None:
    """Print a table for a terminal, or as markdown."""
    if sys.stdout.isatty():
        terminal([table], notes)
    else:
        print(markdown(table), *notes, sep="\n\n")


def run_values(plan: RunPlan, runs: RecipeRuns) -> list[ReportedValue]:
    """Return the values of all conditions and metrics that the runs have, in the order of the recipe.

    A metric is estimated over folds and seeds, running time over runs.
    """
    slots = {slot.title: slot for slot in plan.slots}
    values = []
    for condition, group in runs.groups.items():
        settings = " ".join(runs.settings[condition].values())
        for metric in plan.recipe.metrics:
            if metric == SECONDS:
                seconds = [Run.read_finished(run.path).manifest["seconds"] for run in group.runs]
                value = of_values({(None, number): each for number, each in enumerate(seconds)})
            else:
                value = group.estimate(metric)
            if value is not None:
                printed = _printed(plan, slots[condition.slot], condition, metric)
                values.append(ReportedValue(condition, settings, metric, value, printed))
    return values


def data_values(plan: RunPlan) -> list[ReportedValue]:
    """Return size and utility of both groups in every dataset; ValueError for a dataset without two groups."""
    values = []
    for slot in plan.slots:
        statistics = group_statistics(plan.dataset(slot).load())
        if not statistics or len(statistics[-1].sizes) != len(GROUPS):
            raise ValueError(f"{slot.title} must have two groups of documents: type dataset.group={{..}}")
        total = statistics[-1]  # over all splits
        sizes = [100 * size / sum(total.sizes) for size in total.sizes]
        for metric, by_group in ((SIZE, sizes), (UTILITY, total.utilities)):
            for group, value in zip(GROUPS, by_group, strict=True):
                condition = Condition(slot.title, "", group)
                printed = _printed(plan, slot, condition, metric)
                values.append(ReportedValue(condition, "", metric, Estimate(value, None, 1), printed))
    return values


def _printed(plan: RunPlan, slot: Slot, condition: Condition, metric: str) -> dict[str, float]:
    """The paper's numbers for a condition and metric."""
    return {
        plan.recipe.data[number["data"]].title: number["value"]
        for number in plan.recipe.printed
        if number["data"] in slot.stands_for
        and (number["competitor"], number["metric"]) == (condition.competitor, metric)
        and number.get("click", "") in ("", condition.click)
    }


def comparison_table(values: Sequence[ReportedValue], comparable: bool, settings: bool = True) -> TextTable:
    """Return a row for each condition and three columns for each metric: ours, the paper's, and their difference.

    comparable: whether our runs follow the protocol of the paper; otherwise differences are left out and the paper's
    dataset is named. settings: whether to show the settings of competitors. Empty columns are left out.
    """
    by_condition: dict[Condition, dict[str, ReportedValue]] = {}
    for value in values:
        by_condition.setdefault(value.condition, {})[value.metric] = value
    metrics = list(dict.fromkeys(value.metric for value in values))
    rows = []
    for condition, by_metric in by_condition.items():
        first = next(iter(by_metric.values()))
        chosen = " ".join(map(brief, first.settings.split())) if settings else ""
        n = str(first.value.n) if condition.click else ""  # statistics of the data have no seeds
        row = [*condition, chosen, n]
        for metric in metrics:
            if (own := by_metric.get(metric)) is None:
                row += ["", "", ""]
                continue
            places = 4 if metric == UTILITY else digits(metric)
            theirs = [f"{n:.{places}f}" + ("" if comparable else f" ({title})") for title, n in own.printed.items()]
            differences = [f"{own.value.mean - n:.{places}f}" for n in own.printed.values()] if comparable else []
            ours = plus_minus(own.value.mean, own.value.half_width, places)
            row += [ours, ", ".join(theirs), ", ".join(differences)]
        rows.append(row)
    of_metrics = [text for metric in metrics for text in (heading(metric), "the paper", "difference")]
    return TextTable.of(["data", "click", "competitor", "settings"], ["n", *of_metrics], rows).without_empty()


def brief(word: str) -> str:
    """Return an override with the last part of its name: `l2=1` of `ranker.l2=1`."""
    name, _, value = word.partition("=")
    return f"{re.split('[./]', name)[-1]}={value}"


def as_csv(values: Sequence[ReportedValue], scale: str) -> str:
    """Return all values in full precision as CSV, with a row for every number that the paper prints for a value."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    columns = ["scale", "data", "click", "competitor", "settings", "metric", "mean", "half_width", "n"]
    writer.writerow([*columns, "paper_data", "paper_value"])
    for reported in values:
        value = reported.value
        row = [scale, *reported.condition, reported.settings, reported.metric, value.mean, value.half_width, value.n]
        writer.writerows([*row, *printed] for printed in reported.printed.items() or [("", None)])
    return text.getvalue()


def protocol_line(plan: RunPlan) -> str:
    """Return the protocol of the runs, such as `quick: T = 1,000, 5 seeds, generated data`."""
    generated = f"dataset={STAND_IN}"
    parts = dict.fromkeys("generated data" if s.shared["dataset"] == generated else s.title for s in plan.slots)
    datasets = " and ".join(parts)
    if not plan.recipe.competitors:
        return f"{plan.scale}: {datasets}"
    shared = plan.slots[0].shared
    for name in ("rounds", "replicas"):
        if not (value := shared[name].partition("=")[2]).isdecimal():
            raise ValueError(f"{name} must be a whole number, got {value}")
    rounds, seeds = (int(shared[name].partition("=")[2]) for name in ("rounds", "replicas"))
    folds = len(expand(shared["dataset.fold"])) if "dataset.fold" in shared else 1
    units = f"{seeds} seed{'s' * (seeds > 1)}" + (f" x {folds} folds" if folds > 1 else "")
    return f"{plan.scale}: T = {rounds:,}, {units}, {datasets}"


def caveat(plan: RunPlan) -> str:
    """Return the reason why numbers cannot be compared with those of the paper; empty when they can."""
    protocol, recipe = protocol_line(plan), plan.recipe
    data = [(slot, recipe.data[name]) for slot in plan.slots for name in slot.stands_for]
    typed = [override for name, override in plan.typed.items() if name not in _WITHOUT_EFFECT]
    if plan.scale == "quick":
        return f"{protocol}: shapes can be compared, numbers cannot"
    if any(slot.shared["dataset"] != f"dataset={paper.choice}" for slot, paper in data):
        return f"{protocol}, which is not the data of the paper: numbers cannot be compared"
    if typed:
        return f"{protocol}, with {' '.join(typed)}, which is not the protocol of the paper"
    if any(not _REFITTED.isdisjoint(competitor.words.split()) for competitor in recipe.competitors.values()):
        return f"{protocol}, with networks that are not fitted as in the paper: numbers cannot be compared"
    return ""


def paper_page(plan: RunPlan, runs: RecipeRuns, values: Sequence[ReportedValue], figures: Sequence[Path]) -> str:
    """Return the README.md of a figure or table of a paper; a caveat comes before the first number."""
    recipe, warning = plan.recipe, caveat(plan)
    verdicts = [seen.partition(",") for seen in recipe.seen]
    parts = [
        f"# {recipe.title}",
        f"{PAPERS[recipe.paper][1]}, {recipe.where}: {recipe.shows}.",
        f"> **{warning}**" if warning else protocol_line(plan),
        "The paper says, and published runs of ol2r (`docs/reproduce.md`) show:",
        "\n".join(
            f"- {claim}\n  - **{verdict}**{comma}{reason}"
            for claim, (verdict, comma, reason) in zip(recipe.claims, verdicts, strict=True)
        ),
        *(f"![{path.stem}]({path.name})" for path in figures),
    ]
    if values:
        notes = []
        if any(value.value.half_width is not None for value in values):
            several = any(value.value.folds > 1 for value in values)
            units = "folds; n counts (fold, seed)." if several else "seeds, of which there are n."
            notes.append(f"± is half the width of the {LEVEL:.0%} interval of the mean (Student's t) over {units}")
        if most := max(map(len, runs.validation.values()), default=0):
            chosen = f"Settings are the best of up to {most} by validation NDCG@10"
            notes.append(f"{chosen}, chosen with other seeds than those reported.")
        parts += [markdown(comparison_table(values, comparable=not warning)), " ".join(notes)]
    parts += [f"failed: {job}" for job in runs.failed]
    command = f"ol2r reproduce {recipe.name} --scale {plan.scale} {shlex.join(plan.typed.values())}".strip()
    return "\n\n".join([*parts, f"    {command}"]) + "\n"
