"""The two tables of a benchmark's results, values with both kinds of intervals, and settings with their costs; what
their marks mean, and what they were made with."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ol2r_cli.metrics.intervals import LEVEL
from ol2r_cli.plugins.benchmark.differences import (
    Difference,
    differences,
    for_metric,
    of_two_settings,
    places,
    spread,
    with_choice,
)
from ol2r_cli.plugins.benchmark.recipe import Recipe, aim_of, brief, by_name, role, value_of
from ol2r_cli.plugins.benchmark.results import Row, Tables, differs_elsewhere
from ol2r_cli.plugins.benchmark.run_plan import ROLES_OF_A_ROW
from ol2r_cli.report.measures import digits, heading
from ol2r_cli.run.identity import RESULTS_VERSION
from ol2r_cli.text.formatting import plus_minus, wrapped
from ol2r_cli.text.table import Cell, TextTable, print_result


class MetricColumn:
    """One column of the main table: the rows for a metric, their places, and differences from the baseline."""

    def __init__(self, rows: Sequence[Row], metric: str, baseline: str):
        self.metric = metric
        self.rows = for_metric(rows, metric)
        self.places = places(self.rows, metric)
        self.differences = differences(self.rows, metric, baseline)

    def cell(self, competitor: str) -> Cell:
        """Return the value of a competitor, with its arrow, and whether it is the best."""
        row = self.rows.get(competitor)
        difference = self.differences.get(competitor)
        text = value_with_choice(row, self.metric) if row else ""
        if difference is not None and not difference.arrow:
            text += f" [{difference.smallest:.{digits(self.metric)}f}]"
        return Cell(
            text,
            difference.arrow if difference else "",
            self.places.get(competitor) == 1,
            {f"{self.metric}_{name}": value for name, value in self._values(row, difference).items()},
        )

    def _values(self, row: Row | None, difference: Difference | None) -> dict[str, Any]:
        """Return what a frame has of a competitor: its value, the difference from the baseline, its settings."""
        estimate = row.group.estimate(self.metric) if row else None
        half_width = estimate.half_width if estimate else None
        with_selection = None
        if row is not None and half_width is not None:
            with_selection = with_choice(half_width, spread(row, self.metric))
        return {
            "mean": estimate.mean if estimate else None,
            "half_width": half_width,
            "half_width_with_selection": with_selection,
            "difference": difference.mean if difference else None,
            "difference_half_width": difference.half_width if difference else None,
            "p_holm": difference.p if difference else None,
            "smallest_difference": difference.smallest if difference else None,
            "overrides": _settings(row, as_typed=True) if row else None,
            "differs_elsewhere": differs_elsewhere(row) if row else None,
        }


def main_table(recipe: Recipe, rows: Sequence[Row]) -> TextTable:
    """Return one table: the metrics of the recipe, each with settings chosen for its aim, best first by the first."""
    columns = [MetricColumn(rows, metric, recipe.baseline) for metric in recipe.metrics]
    competitors = dict.fromkeys(name for column in columns for name in column.rows)
    first_places = columns[0].places
    table = []
    for name in sorted(competitors, key=lambda name: first_places.get(name, len(competitors))):
        shown = f"{name} (baseline)" if name == recipe.baseline else name
        if of_two_settings(column.rows[name] for column in columns if name in column.rows):
            shown += " †"
        table.append([Cell(shown, values={"ranker": name}), *(column.cell(name) for column in columns)])
    return TextTable.of(["ranker"], _headings(recipe, rows), table)


def _headings(recipe: Recipe, rows: Sequence[Row]) -> list[str]:
    """Return the headings of the metrics, with the aim where settings are chosen."""
    if any(row.aim for row in rows):
        return [f"{heading(metric)} ({aim_of(metric)})" for metric in recipe.metrics]
    return list(map(heading, recipe.metrics))


def with_names(table: TextTable, names: Mapping[str, str]) -> TextTable:
    """Return one of the tables here with the rows of the rankers in `names`, which have their names in it."""
    rows = []
    for first, *others in table.rows:
        ranker = first.values["ranker"]
        if ranker in names:
            text = names[ranker] + first.text.removeprefix(ranker)
            rows.append([first._replace(text=text, values={"ranker": names[ranker]}), *others])
    return replace(table, rows=rows)


def value_with_choice(row: Row, metric: str) -> str:
    """Return `0.41 ± 0.02 (0.03) ‡`: the interval, that with the choice of settings, whether it differs elsewhere."""
    estimate = row.group.estimate(metric)
    if estimate is None:
        return ""
    text = plus_minus(estimate.mean, estimate.half_width, digits(metric))
    if estimate.half_width is not None and (of_choice := spread(row, metric)):
        text += f" ({with_choice(estimate.half_width, of_choice):.{digits(metric)}f})"
    return f"{text} ‡" if differs_elsewhere(row) else text


def settings_table(recipe: Recipe, rows: Sequence[Row], as_typed: bool = False) -> TextTable:
    """Return the settings of every row, all of its values with the conditional interval, and its costs.

    as_typed: whether settings are the overrides that one types, with the ranker.
    """
    same_settings: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        same_settings.setdefault((row.competitor, *row.words), []).append(row)
    table: list[list[str | Cell]] = []
    for of_aims in same_settings.values():
        first = of_aims[0]
        chosen = first.aim if len(of_aims) == 1 else "both"
        values = [_value(first, metric) for metric in recipe.metrics]
        table.append(
            [
                Cell(first.competitor, values={"ranker": first.competitor}),
                chosen,
                _settings(first, as_typed),
                *values,
                _cpu_seconds(first),
                _peak_memory(first),
            ]
        )
    numbers = [*map(heading, recipe.metrics), "CPU s", "peak GB"]
    return TextTable.of(
        ["ranker", "selection", "overrides" if as_typed else "settings"], numbers, table
    ).without_empty()


def _settings(row: Row, as_typed: bool) -> str:
    """Return the settings of a row; * marks those at an end of their grid."""
    named = {name: word for name, word in by_name(row.words).items() if role(name) in ROLES_OF_A_ROW}
    if not as_typed:
        named.pop("ranker")
    shown = map(shlex.quote, named.values()) if as_typed else brief(named.values())
    marked = [f"{word}*" if name in row.edges else word for name, word in zip(named, shown, strict=True)]
    return " ".join(marked)


def _value(row: Row, metric: str) -> str:
    estimate = row.group.estimate(metric)
    return "" if estimate is None else plus_minus(estimate.mean, estimate.half_width, digits(metric))


def _cpu_seconds(row: Row) -> str:
    seconds = row.group.cpu_seconds
    if seconds is None:
        return ""
    return f"{seconds:,.1f}" if seconds < 10 else f"{seconds:,.0f}"


def _peak_memory(row: Row) -> str:
    memory = [run.peak_memory_gb for run in row.group.runs if run.peak_memory_gb is not None]
    return f"{max(memory):.2f}" if memory else ""


def legend(recipe: Recipe, settings_below: bool = True) -> dict[str, str]:
    """Return what the columns and marks of the main tables mean, each in a sentence or two without the last full stop.

    Every column is of one model selection, that for its own aim. settings_below: whether a table of settings follows.
    """
    offline = " and ".join(heading(metric) for metric in recipe.metrics if aim_of(metric) == "offline")
    online = " and ".join(heading(metric) for metric in recipe.metrics if aim_of(metric) == "online")
    one_seed = " and ".join(
        title for title, data in recipe.data.items() if value_of(by_name(recipe.choose, data.choose), "replicas") == "1"
    )
    over_folds_alone = f" On {one_seed} one seed selects: there it is that over folds alone." if one_seed else ""
    return {
        "offline": f"{offline} with the settings of the best NDCG@10 on validation queries",
        "online": f"{online} with the settings of the best cumulative NDCG of the seeds for model selection",
        "†": f"{offline} is of one setting and {online} of another: no ranker has both"
        + (". The second table has all values of each setting" if settings_below else ""),
        "±": f"half the {LEVEL:.0%} interval over folds, or over seeds where there is one fold",
        "in parentheses": f"half the interval that contains model selection.{over_folds_alone} Runs for model "
        "selection are not evaluated on test queries: the spread of validation NDCG@10 stands for that of test "
        "NDCG@10",
        "↑ ↓": f"significantly higher or lower than {recipe.baseline}, both with the settings that were selected: of "
        "other settings it says nothing. Differences are paired and contain the model selection of both rows; Holm's "
        "correction is for a column. With fewer than three units, folds or seeds, nothing is tested",
        "[ ]": f"not significantly different from {recipe.baseline}; from the difference in brackets on it would be, "
        "with the same interval",
        "*": "at the end of its grid",
        "‡": "another processor gives other results, as playing some seeds with fewer instructions has shown",
    }


def outdated(rows: Iterable[Row]) -> str:
    """Return a line for results that this version of ol2r would not repeat; empty where it would."""
    versions = sorted({row.group.settings["results_version"] for row in rows})
    if all(version == RESULTS_VERSION for version in versions):
        return ""
    made = " and ".join(map(str, versions))
    return f"outdated: made with results_version {made}, and this version of ol2r has {RESULTS_VERSION}"


def made_with(rows: Iterable[Row]) -> str:
    """Return what results were made with, such as `Made with torch 2.9 and 2.10.`, in order of occurrence.

    Of each row that is what its first run was made with.
    """
    versions: dict[str, dict[str, None]] = {}
    of_results = set()
    for row in rows:
        of_results.add(str(row.group.settings["results_version"]))
        for name, version in next(iter(row.versions.values())).items():
            versions.setdefault(name, {})[version] = None
    versions["results_version"] = dict.fromkeys(sorted(of_results))
    made_with = ", ".join(f"{name} {' and '.join(several)}" for name, several in versions.items())
    return f"Made with {made_with}."


def print_tables(recipe: Recipe, tables: Tables, names: Mapping[str, str] | None = None) -> None:
    """Print the tables, and what the marks in them mean.

    names: of the rows that are shown, by their own; None for all.
    """
    shown = ""
    for (title, click), rows in tables.items():
        values, settings = main_table(recipe, rows), settings_table(recipe, rows)
        if names is not None:
            values, settings = with_names(values, names), with_names(settings, names)
        print(f"\n{title}, {click}\n")
        print_result(values)
        print()
        print_result(settings)
        shown += " ".join(str(cell) for row in (*values.rows, *settings.rows) for cell in row)
    print()
    for mark, meaning in legend(recipe).items():
        if mark[0].isalpha() or any(sign in shown for sign in mark.split()):
            print(wrapped(f"{mark}: {meaning}"))


def print_added(recipe: Recipe, tables: Tables, names: Mapping[str, str]) -> None:
    """Print the rows of the ranker that was added once more, as the last lines of long tables."""
    added = {name: names[name] for name in recipe.competitors}
    for (title, click), rows in tables.items():
        print(f"\n{title}, {click}, added:\n")
        print_result(with_names(main_table(recipe, rows), added))
    print()
