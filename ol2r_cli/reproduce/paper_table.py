"""The table of a recipe: values of our runs beside the numbers that the paper prints."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ol2r_cli.dataset.dataset_statistics import group_statistics
from ol2r_cli.report.estimates import Estimate, over_folds
from ol2r_cli.report.measures import digits, heading
from ol2r_cli.report.run_groups import Group
from ol2r_cli.report.text_table import Cell, TextTable
from ol2r_cli.reproduce.paper_plan import PaperPlan, PaperSlot
from ol2r_cli.reproduce.recipe import load_dataset
from ol2r_cli.reproduce.recipe_runs import RecipeRuns
from ol2r_cli.reproduce.run_plan import Condition
from ol2r_cli.run.directory import RunDirectory

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


def run_values(plan: PaperPlan, runs: RecipeRuns) -> list[ReportedValue]:
    """The values of all conditions and metrics, in the order of the recipe."""
    slots = {slot.title: slot for slot in plan.slots}
    values = []
    for condition, group in runs.groups.items():
        settings = " ".join(runs.settings[condition].values())
        for metric in plan.recipe.metrics:
            value = _estimate(group, metric)
            if value is not None:
                printed = _printed(plan, slots[condition.slot], condition, metric)
                values.append(ReportedValue(condition, settings, metric, value, printed))
    return values


def data_values(plan: PaperPlan) -> list[ReportedValue]:
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
                printed = _printed(plan, slot, condition, metric)
                values.append(ReportedValue(condition, "", metric, Estimate(value, None, 1), printed))
    return values


def _estimate(group: Group, metric: str) -> Estimate | None:
    """A metric over folds and seeds, running time over runs; None when the runs do not have the metric."""
    if metric != SECONDS:
        return group.estimate(metric)
    seconds = [RunDirectory(run.path).read_json("run.json")["seconds"] for run in group.runs]
    return over_folds({None: [Estimate(value, None, 1) for value in seconds]})


def _printed(plan: PaperPlan, slot: PaperSlot, condition: Condition, metric: str) -> dict[str, float]:
    """The paper's numbers for a condition and metric; a printed number without click model holds for all of them."""
    return {
        load_dataset(number.data).title: number.value
        for number in plan.recipe.printed
        if number.data in slot.stands_for
        and (number.competitor, number.metric) == (condition.competitor, metric)
        and number.click in ("", condition.click)
    }


def comparison_table(values: Sequence[ReportedValue], comparable: bool, settings: bool = True) -> TextTable:
    """A row for each condition and three columns for each metric: ours, the paper's, and their difference.

    comparable: whether our runs follow the protocol of the paper; otherwise differences are left out and the paper's
    dataset is named. settings: whether to show the settings of competitors. Empty columns are left out.
    """
    labels = ["data", "click", "competitor", "settings", "n"]
    by_condition: dict[Condition, dict[str, ReportedValue]] = {}
    for value in values:
        by_condition.setdefault(value.condition, {})[value.metric] = value
    metrics = list(dict.fromkeys(value.metric for value in values))
    rows = []
    for condition, by_metric in by_condition.items():
        first = next(iter(by_metric.values()))
        n = str(first.value.n) if condition.click else ""  # statistics of the data have no seeds
        row = [condition.slot, condition.click, condition.competitor, _brief(first.settings) if settings else "", n]
        for metric in metrics:
            row += _cells(by_metric[metric], comparable) if metric in by_metric else ["", "", ""]
        rows.append([Cell(text) for text in row])
    headings = [*labels, *(text for metric in metrics for text in (heading(metric), "the paper", "difference"))]
    is_number = [column >= labels.index("n") for column in range(len(headings))]
    return TextTable(headings, rows, is_number).without_empty()


def _cells(reported: ReportedValue, comparable: bool) -> list[str]:
    """Our value, the paper's numbers, and the differences."""
    mean, half_width, metric = reported.value.mean, reported.value.half_width, reported.metric
    ours = _number(mean, metric) + ("" if half_width is None else f" ± {_number(half_width, metric)}")
    printed = [
        _number(value, metric) + ("" if comparable else f" ({title})") for title, value in reported.printed.items()
    ]
    differences = [_number(mean - value, metric) for value in reported.printed.values()] if comparable else []
    return [ours, ", ".join(printed), ", ".join(differences)]


def _brief(settings: str) -> str:
    """Settings by the last part of their names: `l2=0.1 alpha=0.01`."""
    pairs = (override.partition("=") for override in settings.split())
    return " ".join(f"{name.rpartition('.')[2]}={value}" for name, _, value in pairs)


def _number(value: float, metric: str) -> str:
    return f"{value:.{4 if metric == UTILITY else digits(metric)}f}"


def as_csv(values: Sequence[ReportedValue], scale: str) -> str:
    """All values in full precision as CSV, with a row for every number that the paper prints for a value."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    columns = ["scale", "data", "click", "competitor", "settings", "metric", "mean", "half_width", "n"]
    writer.writerow([*columns, "paper_data", "paper_value"])
    for reported in values:
        condition, value = reported.condition, reported.value
        row = [scale, condition.slot, condition.click, condition.competitor, reported.settings, reported.metric]
        for printed in reported.printed.items() or [("", None)]:
            writer.writerow([*row, value.mean, value.half_width, value.n, *printed])
    return text.getvalue()
