"""Our values of a figure or table of a paper beside the numbers that it prints, as a table and as CSV."""

from __future__ import annotations

import csv
import io
from itertools import chain
from typing import NamedTuple

from ol2r_cli.dataset.dataset_statistics import group_statistics
from ol2r_cli.plugins.benchmark.overrides import brief
from ol2r_cli.plugins.benchmark.play import RecipeRuns
from ol2r_cli.plugins.benchmark.protocol import protocol
from ol2r_cli.plugins.benchmark.run_plan import RunPlan
from ol2r_cli.plugins.benchmark.trials import Condition, PlayedTrial
from ol2r_cli.report.estimates import Estimate, of_values
from ol2r_cli.report.measures import digits, heading
from ol2r_cli.run.run import Run
from ol2r_cli.text.formatting import plus_minus
from ol2r_cli.text.table import TextTable

SECONDS = "seconds"  # wall-clock time of a run; all other metrics are those of summary.json
SIZE, UTILITY = "size", "utility"  # of a group of documents: per cent of all documents, mean label
GROUPS = ("A", "B")  # the paper's names of groups 0 and 1


class Reported(NamedTuple):
    """The settings of a competitor under a condition, and its value of each metric."""

    settings: str
    estimates: dict[str, Estimate]


Values = dict[Condition, Reported]  # for statistics of data: no click model, and a group of documents as competitor


def run_values(plan: RunPlan, runs: RecipeRuns) -> Values:
    """Return the values of all conditions and metrics that the runs have, in the order of the recipe."""
    values: Values = {}
    for row in runs.rows:
        estimates: dict[str, Estimate] = {}
        for metric in plan.recipe.metrics:
            estimate = _seconds(row) if metric == SECONDS else row.group.estimate(metric)
            if estimate is not None:
                estimates[metric] = estimate
        if estimates:
            values[row.trial.condition] = Reported(" ".join(row.settings.values()), estimates)
    return values


def _seconds(row: PlayedTrial) -> Estimate | None:
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
            values[Condition(slot.title, "", group)] = Reported("", both)
    return values


def printed_numbers(plan: RunPlan, condition: Condition, metric: str) -> dict[str, float]:
    """Return the paper's numbers for a condition and metric, by the title of their dataset."""
    stands_for = next(slot.stands_for for slot in plan.slots if slot.title == condition.slot)
    numbers = {}
    for number in plan.recipe.printed:
        of_row = number["data"] in stands_for and number["competitor"] == condition.competitor
        of_click = number.get("click", "") in ("", condition.click)
        if of_row and of_click and number["metric"] == metric:
            numbers[plan.recipe.data[number["data"]].title] = number["value"]
    return numbers


def comparison_table(plan: RunPlan, values: Values, settings: bool = True) -> TextTable:
    """Return a row for each condition and three columns for each metric: ours, the paper's, and their difference.

    Where our runs do not follow the protocol of the paper, differences are left out and the paper's dataset is named.
    settings: whether to show the settings of competitors. Empty columns are left out.
    """
    _, comparable = protocol(plan)
    metrics = list(dict.fromkeys(chain(*(reported.estimates for reported in values.values()))))
    rows = []
    for condition, (chosen, estimates) in values.items():
        n = str(next(iter(estimates.values())).n) if plan.recipe.competitors else ""  # else statistics, without seeds
        row = [*condition[:3], " ".join(brief(chosen.split())) if settings else "", n]
        for metric in metrics:
            printed = printed_numbers(plan, condition, metric)
            row += _beside_printed(estimates.get(metric), printed, metric, comparable)
        rows.append(row)
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
