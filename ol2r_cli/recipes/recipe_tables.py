"""Tables of recipes: values of our runs beside the numbers of a paper, and the rankers of a benchmark, best first."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from ol2r_cli.dataset.dataset_statistics import group_statistics
from ol2r_cli.formatting import plus_minus
from ol2r_cli.recipes.recipe import Recipe
from ol2r_cli.recipes.recipe_runs import Entry, RecipeRuns
from ol2r_cli.recipes.run_plan import ROLES_OF_A_ROW, Condition, RunPlan, Slot, role
from ol2r_cli.report.comparison import compare_with
from ol2r_cli.report.estimates import Estimate, over_folds
from ol2r_cli.report.measures import described, digits, gain, heading
from ol2r_cli.report.text_table import Cell, TextTable
from ol2r_cli.run.run import Run

SECONDS = "seconds"  # wall-clock time of a run; all other metrics are those of summary.json
SIZE, UTILITY = "size", "utility"  # of a group of documents: per cent of all documents, mean label
GROUPS = ("A", "B")  # the paper's names of groups 0 and 1


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


def run_values(plan: RunPlan, runs: RecipeRuns) -> list[ReportedValue]:
    """The values of all conditions and metrics that the runs have, in the order of the recipe.

    A metric is estimated over folds and seeds, running time over runs.
    """
    slots = {slot.title: slot for slot in plan.slots}
    values = []
    for condition, group in runs.groups.items():
        settings = " ".join(runs.settings[condition].values())
        for metric in plan.recipe.metrics:
            if metric == SECONDS:
                seconds = [Run.read_finished(run.path).manifest["seconds"] for run in group.runs]
                value = over_folds({None: [Estimate(each, None, 1) for each in seconds]})
            else:
                value = group.estimate(metric)
            if value is not None:
                printed = _printed(plan.recipe, slots[condition.slot], condition, metric)
                values.append(ReportedValue(condition, settings, metric, value, printed))
    return values


def data_values(plan: RunPlan) -> list[ReportedValue]:
    """Size and utility of both groups in every dataset; ValueError for a dataset without two groups."""
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
                printed = _printed(plan.recipe, slot, condition, metric)
                values.append(ReportedValue(condition, "", metric, Estimate(value, None, 1), printed))
    return values


def _printed(recipe: Recipe, slot: Slot, condition: Condition, metric: str) -> dict[str, float]:
    """The paper's numbers for a condition and metric; a printed number without click model holds for all of them."""
    return {
        recipe.data[number.data].title: number.value
        for number in recipe.printed
        if number.data in slot.stands_for
        and (number.competitor, number.metric) == (condition.competitor, metric)
        and number.click in ("", condition.click)
    }


def comparison_table(values: Sequence[ReportedValue], comparable: bool, settings: bool = True) -> TextTable:
    """A row for each condition and three columns for each metric: ours, the paper's, and their difference.

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
        chosen = " ".join(map(_brief, first.settings.split())) if settings else ""
        n = str(first.value.n) if condition.click else ""  # statistics of the data have no seeds
        row = [*condition, chosen, n]
        for metric in metrics:
            row += _compared(by_metric[metric], comparable) if metric in by_metric else ["", "", ""]
        rows.append([Cell(text) for text in row])
    headings = ["data", "click", "competitor", "settings", "n"]
    headings += [text for metric in metrics for text in (heading(metric), "the paper", "difference")]
    return TextTable(headings, rows, [column > 3 for column in range(len(headings))]).without_empty()


def _compared(reported: ReportedValue, comparable: bool) -> list[str]:
    """Our number, the paper's numbers, and the differences."""
    places, printed = 4 if reported.metric == UTILITY else digits(reported.metric), reported.printed
    ours = plus_minus(reported.value.mean, reported.value.half_width, places)
    theirs = [f"{value:.{places}f}" + ("" if comparable else f" ({title})") for title, value in printed.items()]
    differences = [f"{reported.value.mean - value:.{places}f}" for value in printed.values()] if comparable else []
    return [ours, ", ".join(theirs), ", ".join(differences)]


def _brief(word: str) -> str:
    """A setting by the last part of its name: `l2=0.1`."""
    name, _, value = word.partition("=")
    return f"{re.split('[./]', name)[-1]}={value}"


def as_csv(values: Sequence[ReportedValue], scale: str) -> str:
    """All values in full precision as CSV, with a row for every number that the paper prints for a value."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    columns = ["scale", "data", "click", "competitor", "settings", "metric", "mean", "half_width", "n"]
    writer.writerow([*columns, "paper_data", "paper_value"])
    for reported in values:
        value = reported.value
        row = [scale, *reported.condition, reported.settings, reported.metric, value.mean, value.half_width, value.n]
        writer.writerows([*row, *printed] for printed in reported.printed.items() or [("", None)])
    return text.getvalue()


def by_table(entries: Iterable[Entry]) -> dict[tuple[str, str], list[Entry]]:
    """The rows of each table, by dataset and click model, in the order in which tables occur."""
    tables: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        tables.setdefault(entry.table, []).append(entry)
    return tables


def result_table(recipe: Recipe, rows: Sequence[Entry]) -> TextTable:
    """One table: best first, by the first metric of the recipe, with marks against its baseline and the costs."""
    base = next((row for row in rows if row.about.competitor == recipe.baseline), None)
    comparison = compare_with(base.group, [row.group for row in rows], recipe.metrics) if base else None
    places = {metric: _places(rows, metric) for metric in recipe.metrics}

    def cells(row: Entry) -> list[Cell]:
        cells = [Cell(row.about.competitor + (" (baseline)" if row is base else "")), Cell(_settings(row))]
        for metric, place in places.items():
            estimate = row.group.estimate(metric)
            value = "" if estimate is None else plus_minus(estimate.mean, estimate.half_width, digits(metric))
            cells.append(Cell(value, comparison.mark(row.group, metric) if comparison else "", place.get(row) == 1))
        seconds = row.cpu_seconds
        cells.append(Cell("" if seconds is None else f"{seconds:,.{1 if seconds < 10 else 0}f}"))
        memory = [run.peak_memory_gb for run in row.group.runs if run.peak_memory_gb is not None]
        return [*cells, Cell(f"{max(memory):.2f}" if memory else "")]

    headings = ["ranker", "settings", *map(heading, recipe.metrics), "CPU s", "peak GB"]
    best_first = sorted(rows, key=lambda row: places[recipe.metrics[0]].get(row, len(rows)))
    numbers = [column > 1 for column in range(len(headings))]
    return TextTable(headings, list(map(cells, best_first)), numbers).without_empty()


def _settings(row: Entry) -> str:
    """What it has typed of its ranker, exploration and fairness, but for the ranker itself; * at the end of a grid."""
    names = {word: word.partition("=")[0] for word in row.about.words}
    shown = {word: name for word, name in names.items() if role(name) in ROLES_OF_A_ROW and name != "ranker"}
    return " ".join(_brief(word) + "*" * (name in row.about.edges) for word, name in shown.items())


def _places(rows: Iterable[Entry], metric: str) -> dict[Entry, int]:
    """The place of each row by the mean of a metric: 1 is best, equal ones share the better place.

    Rows without the metric have none, and no row has one where neither direction is better.
    """
    if described(metric).higher_is_better is None:
        return {}
    estimates = {row: row.group.estimate(metric) for row in rows}
    gains = {row: gain(metric, estimate.mean) for row, estimate in estimates.items() if estimate is not None}
    return {row: 1 + sum(other > own for other in gains.values()) for row, own in gains.items()}


def index_table(recipe: Recipe, entries: Sequence[Entry]) -> TextTable:
    """A row for each ranker: its mean place by the first metric, and the means of two metrics in every table."""
    tables, metrics = by_table(entries), recipe.metrics[:2]
    places: dict[str, list[int]] = {}
    for of_table in tables.values():
        for row, place in _places(of_table, metrics[0]).items():
            places.setdefault(row.about.competitor, []).append(place)
    rows = []
    for competitor in sorted(places, key=lambda name: fmean(places[name])):
        cells = [Cell(competitor), Cell(f"{fmean(places[competitor]):.1f}")]
        for of_table in tables.values():
            own = [row for row in of_table if row.about.competitor == competitor]
            cells.append(Cell(" / ".join(_mean(own[0], metric) for metric in metrics) if own else ""))
        rows.append(cells)
    headings = ["ranker", "mean rank", *(", ".join(table) for table in tables)]
    return TextTable(headings, rows, [column > 0 for column in range(len(headings))])


def _mean(row: Entry, metric: str) -> str:
    estimate = row.group.estimate(metric)
    if estimate is None:
        return "-"
    shown = 3 if "ndcg_10" in metric or abs(estimate.mean) < 1 else 1
    return f"{estimate.mean:.{min(shown, digits(metric))}f}"
