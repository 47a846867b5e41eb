"""A report: its tables, the lines below them, its frame in full precision, and its file in each format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ol2r_cli.files import write_parquet, write_text
from ol2r_cli.formatting import plural, plus_minus
from ol2r_cli.lazy import lazy, pl
from ol2r_cli.metrics.intervals import LEAST_UNITS, LEVEL
from ol2r_cli.report.comparison import Comparison, PairedDifference, Selection
from ol2r_cli.report.estimates import ALPHA, least_p
from ol2r_cli.report.figures.drawing import PLAIN, Look
from ol2r_cli.report.frames import as_csv, as_frame, choices, differing_settings
from ol2r_cli.report.latex import LatexTable, plain_table
from ol2r_cli.report.legend import Legend
from ol2r_cli.report.measures import BESIDE, described, digits, heading
from ol2r_cli.report.names import Labels
from ol2r_cli.report.results_table import ResultsTable
from ol2r_cli.report.run_groups import Collection, Group
from ol2r_cli.report.tasks import tasks
from ol2r_cli.text_table import Cell, TextTable, in_markdown, markdown, print_tables

if TYPE_CHECKING:
    from ol2r_cli.report import html_page
else:
    html_page = lazy("ol2r_cli.report.html_page")  # and jinja2

SUFFIXES = {".md": "md", ".csv": "csv", ".parquet": "parquet", ".tex": "latex", ".html": "html", ".json": "json"}
_CHOSEN_BY = {
    "validation": "best mean validation NDCG after the last evaluated round",
    "online": "highest mean cumulative NDCG",
}
_TEST_NAMES = {"t": "paired t test", "permutation": "permutation test (signs of the differences)"}


@dataclass(frozen=True, eq=False, repr=False)
class Document:
    """A report on groups. differences_only: without the table of groups. instead: the rows of another table.
    look: of the figures of a page.
    """

    collection: Collection
    groups: Sequence[Group]
    labels: Labels
    metrics: Sequence[str]
    selection: Selection | None = None
    comparison: Comparison | None = None
    differences_only: bool = False
    instead: Sequence[Sequence[ReportEntry]] = ()
    look: Look = PLAIN

    @cached_property
    def tables(self) -> list[TextTable]:
        """The table of groups, and that of differences from a baseline or, with `differences_only`, of all pairs."""
        if self.instead:
            return [_table(self.instead).without_empty()]
        tables = [] if self.differences_only else [_table(self._groups).without_empty()]
        comparison = self.comparison
        if comparison and comparison.differences and (self.differences_only or comparison.baseline is not None):
            tables.append(_table(self._differences).without_empty())
        return tables

    @cached_property
    def notes(self) -> list[str]:
        """The lines below the tables: what the numbers are, how rows were compared, which runs are left out."""
        folds = any(len(group.seeds) > 1 for group in self.groups)
        values = "(fold, seed), every fold counting the same" if folds else "seed"
        units = f" with the {_units('folds')} where there are several folds, else with the seeds" if folds else ""
        if self.groups and self.groups[0].of_users:
            values = "user of each split, the mean over seeds"
            units = f" with the {_units('users')}, whatever the number of splits" if folds else ""
        lines = [
            f"{plural(len(self.collection.runs), 'run')}. Figures are means over n values, one for each {values}; ± is "
            f"half the width of the {LEVEL:.0%} interval of the mean (Student's t){units}, left out for a single value."
        ]
        lines += [BESIDE[name] for name in self.metrics if name in BESIDE] + self._on_queries_without_relevant
        if self.selection is not None and self.selection.chose:
            lines.append(
                f"The settings are those with the {_CHOSEN_BY[self.selection.by]}. The seeds that chose them are those "
                "that report: to report others, run the chosen ones with them (--overrides)."
            )
        return lines + (_comparison_notes(self.comparison) if self.comparison else []) + self.collection.left_out

    @property
    def _on_queries_without_relevant(self) -> list[str]:
        """A line about queries that count 0 in NDCG, with which other tables compare badly."""
        has_ndcg = any("ndcg" in metric and group.estimate(metric) for metric in self.metrics for group in self.groups)
        if not has_ndcg or all(group.settings.get("no_relevant") != "zero" for group in self.groups):
            return []
        line = (
            "Queries without a relevant document count 0 in NDCG (no_relevant=zero); tables that leave them out have "
        )
        line += "higher values"
        if any(group.choices["dataset"] == "mq2008" for group in self.groups):
            line += ": on MQ2008, where they are 28 % of all, .48 here is about .67 there"
        return [f"{line}."]

    def frame(self) -> pl.DataFrame:
        """Full precision: one row for each group or, with `differences_only`, for each comparison and metric."""
        rows = self.instead or (self._differences if self.differences_only else self._groups)
        return as_frame([_values(row) for row in rows])

    @cached_property
    def best(self) -> frozenset[tuple[Group, str]]:
        """Groups with the metrics in which they are significantly better than all others of their task: bold."""
        if self.comparison is None:
            return frozenset()
        return frozenset(
            (group, metric)
            for metric in self.metrics
            if described(metric).higher_is_better is not None
            for task in tasks(self.groups)
            for group in task
            if self.comparison.is_best(group, metric, task)
        )

    @cached_property
    def _groups(self) -> list[list[ReportEntry]]:
        """A row for each group, with the marks of a comparison. The place to add a column to the report."""
        metrics = [name for name in self.metrics if any(group.estimate(name) for group in self.groups)]
        settings = differing_settings(self.groups, self.labels)
        rows = []
        for group in self.labels.ordered(self.groups, metrics):
            of_metrics = [self._metric_entry(group, metric) for metric in self.metrics]
            rows.append([*self._word_entries(group, settings), *of_metrics])
        return rows

    def _word_entries(self, group: Group, settings: Sequence[str]) -> list[ReportEntry]:
        """The columns of a group before its metrics."""
        labels, comparison, selection = self.labels, self.comparison, self.selection
        letter = comparison.letters.get(group, "") if comparison else ""
        baseline = " (baseline)" if comparison and group in comparison.bases else ""
        chosen_from = selection.cells[group] if selection else ""
        has_notes = any(other.note for other in self.groups)
        return [
            ReportEntry("", letter, {"letter": letter} if comparison and comparison.letters else {}),
            ReportEntry("dataset", group.choices["dataset"], choices(group)),
            ReportEntry("click", group.choices["click"].removeprefix("none")),
            ReportEntry("intent", group.choices.get("intent", "none").removeprefix("none")),
            ReportEntry("ranker", labels.ranker(group) + baseline),
            ReportEntry("settings", labels.short(group), {name: group.settings.get(name) for name in settings}),
            ReportEntry("note", group.note, {"note": group.note} if has_notes else {}),
            ReportEntry("chosen from", str(chosen_from), {"chosen_from": chosen_from} if selection else {}, True),
            ReportEntry("n", _number_of_values(group), {"folds": len(group.seeds), "n": group.n}, True),
        ]

    def _metric_entry(self, group: Group, metric: str) -> ReportEntry:
        """The value of a group in the column of a metric, with its mark."""
        comparison, estimate = self.comparison, group.estimate(metric)
        text, mark = "", comparison.mark(group, metric) if comparison else ""
        values = {name: getattr(estimate, name, None) for name in ("mean", "sd", "half_width", "n")}
        if estimate:
            text = plus_minus(estimate.mean, estimate.half_width, digits(metric))
            text += f" (n = {estimate.n})" if estimate.n != group.n else ""
        if comparison and comparison.baseline is None:
            values["better_than"] = mark
        elif comparison and comparison.against_baseline:
            difference = comparison.against_baseline.get((group, metric))
            some = difference or next(iter(comparison.against_baseline.values()))
            of_difference = _values(_numbers(some))
            values |= of_difference if difference else dict.fromkeys(of_difference)
        columns = {f"{metric}_{name}": value for name, value in values.items()}
        return ReportEntry(heading(metric), Cell(text, mark, (group, metric) in self.best), columns, True)

    @cached_property
    def _differences(self) -> list[list[ReportEntry]]:
        """A row for each difference."""
        names = self.comparison.row_names(self.labels) if self.comparison else {}
        places = {
            group: [group.choices.get(part, "none").removeprefix("none") for part in ("dataset", "click", "intent")]
            for group in names
        }
        return self._rows_of_differences(names, places)

    def _rows_of_differences(
        self, names: Mapping[Group, str], places: Mapping[Group, Sequence[str]]
    ) -> list[list[ReportEntry]]:
        """A row for each difference. places: dataset, users and intents of each group."""
        rows = []
        for d in self.comparison.differences if self.comparison else ():
            rival = {
                f"rival_{part}": name for part, name in choices(d.rival).items() if part not in ("dataset", "click")
            }
            row = [
                ReportEntry("metric", heading(d.metric), {"metric": d.metric}),
                ReportEntry("dataset", places[d.group][0], choices(d.group)),
                ReportEntry("click", places[d.group][1]),
                ReportEntry("intent", places[d.group][2]),
                ReportEntry("ranker", names[d.group], {"row": names[d.group]}),
                ReportEntry("minus", names[d.rival], rival | {"rival_row": names[d.rival]}),
            ]
            rows.append(row + _numbers(d))
        return rows

    def text(self, form: str) -> str:
        """The report as md, latex, csv or json."""
        if form in ("csv", "json"):
            return self.frame().write_json() if form == "json" else as_csv(self.frame()).rstrip("\n")
        if form == "latex":
            return self.latex().text()
        return "\n\n".join([*map(markdown, self.tables), *map(in_markdown, self.notes)])

    def latex(self) -> LatexTable:
        """One table: that of groups with click models as columns or, with `differences_only`, that of differences."""
        if self.instead:
            return plain_table(self.tables[0], self.notes)
        if self.differences_only:
            legend = Legend(self.groups, self.labels)
            places = {
                group: [panel.dataset, panel.users, ""] for panel in legend.panels for group in legend.panels[panel]
            }
            return plain_table(_table(self._rows_of_differences(legend.names, places)), self.notes)
        remarks = []
        if self.selection and self.selection.chose:
            remarks.append(f"The settings are those with the {_CHOSEN_BY[self.selection.by]}.")
        if self._on_queries_without_relevant:
            remarks.append("Queries without a relevant document count 0 in NDCG.")
        table = ResultsTable(self.groups, self.labels, self.metrics, self.comparison, self.best)
        return table.latex(remarks, self.notes)

    def __repr__(self) -> str:
        return self.text("md")

    _repr_markdown_ = __repr__  # what a notebook displays

    def print(self) -> None:
        """Print the report on a terminal."""
        print_tables(self.tables, self.notes)

    def write(self, path: Path, form: str) -> None:
        """Write the report atomically. ValueError where the file cannot be written."""
        with writing(path):
            if form == "html":
                html_page.write_page(path, self)
            elif form == "parquet":
                write_parquet(path, self.frame())
            else:
                write_text(path, self.text(form) + "\n")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Makes the folder of `path`, and turns an error while writing into a ValueError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise ValueError(f"--out must be a file that can be written, got {path} ({error.strerror})") from error


def _number_of_values(group: Group) -> str:
    """How many values a group has, such as `25 (5 folds x 5 seeds)`."""
    folds, sizes = len(group.seeds), {len(seeds) for seeds in group.seeds.values()}
    if folds == 1 or group.of_users:
        return str(group.n)
    seeds = f" x {plural(max(sizes), 'seed')}" if len(sizes) == 1 else ""
    return f"{group.n} ({folds} folds{seeds})"


class ReportEntry(NamedTuple):
    """What a row has in a column of the table, and in place of it in the frame: by name, in full precision."""

    heading: str
    cell: str | Cell
    values: Mapping[str, Any] = {}
    is_number: bool = False


def _table(rows: Sequence[Sequence[ReportEntry]]) -> TextTable:
    columns = rows[0] if rows else ()
    words, numbers = ([each.heading for each in columns if each.is_number is kind] for kind in (False, True))
    return TextTable.of(words, numbers, [[each.cell for each in row] for row in rows])


def _values(row: Sequence[ReportEntry]) -> dict[str, Any]:
    return {name: value for entry in row for name, value in entry.values.items()}


def _numbers(d: PairedDifference) -> list[ReportEntry]:
    """A difference: interval, p, p after Holm, effect size, wins/ties/losses, number of pairs."""
    mean, half = d.estimate.mean, d.estimate.half_width
    difference = Cell(plus_minus(mean, half, digits(d.metric) + 1, sign="+"), d.arrow)
    effect = "" if d.effect is None else f"{d.effect:+.2f}"
    pairs = str(d.estimate.n)
    if d.estimate.clusters > 1 and not d.group.of_users:
        pairs += f" in {d.estimate.clusters} folds"
    elif d.estimate.clusters < d.estimate.n and d.group.of_users:
        pairs += f" of {d.estimate.clusters} users"
    counts = {"wins": d.wins, "ties": d.ties, "losses": d.losses}
    return [
        ReportEntry("difference", difference, {"difference": mean, "difference_half_width": half}, True),
        ReportEntry("p", _p(d.p), {"p": d.p}, True),
        ReportEntry("p (Holm)", _p(d.holm), {"p_holm": d.holm}, True),
        ReportEntry("g_z", effect, {"effect": d.effect}, True),
        ReportEntry("win/tie/loss", "/".join(map(str, counts.values())), counts, True),
        ReportEntry("pairs", pairs, {"pairs": d.estimate.n, "missing": d.missing}, True),
    ]


def _p(p: float | None) -> str:
    """Three decimals, scientific notation below .001, <1e-6 below that; empty for None."""
    if p is None:
        return ""
    return "<1e-6" if p < 1e-6 else f"{p:.1e}" if p < 0.001 else f"{p:.3f}"


def _comparison_notes(comparison: Comparison) -> list[str]:
    differences = comparison.differences
    tested = [d for d in differences if d.p is not None]
    family = max(Counter(d.metric for d in tested).values(), default=0)
    comparisons = plural(family, "comparison")
    lines = []
    if tested:
        mark = f"↑ and ↓ are significantly more and less than {comparison.baseline}"
        if comparison.baseline is None:
            mark = "Letters name the rows that a value is significantly better than"
        names = {d.group.units(d.estimate) for d in tested}
        units, pairs = _units(*sorted(names)), "users" if names == {"users"} else "(fold, seed)"
        lines.append(
            f"{mark}, at {ALPHA} after Holm's correction for the {comparisons} of each metric: "
            f"{_TEST_NAMES[comparison.test]} over the {pairs} that both have, with the {units}."
        )
    if len(tested) < len(differences) or not tested:
        count = f"{len(differences) - len(tested)} of {len(differences)} not tested" if tested else "Nothing was tested"
        few = f"too few seeds, or folds where there are several, that both have: a test needs {LEAST_UNITS}"
        lines.append(f"{count}: {few}.")
    if tested:
        most = max(differences, key=lambda d: d.estimate.units)
        least = min(1.0, family * least_p(comparison.test, most.estimate.units))
        unit = most.group.units(most.estimate)
        if least >= ALPHA:
            lines.append(
                f"With {most.estimate.units} {unit} and {comparisons} no p of this test can be below {least:.2g} "
                f"after the correction, so nothing can be significant: type --test t, or run more {unit}."
            )
    if missing := [d for d in differences if d.missing]:
        worst = max(missing, key=lambda d: d.missing)
        pairs = "(user, split)" if worst.group.of_users else "(fold, seed)"
        lines.append(
            f"Not all {pairs} are in both rows of {plural(len(missing), 'comparison')}; where most are missing, "
            f"{worst.missing} of {worst.estimate.n + worst.missing} are."
        )
    if comparison.alone:
        more = f", and {len(comparison.alone) - 3} more" * (len(comparison.alone) > 3)
        reason = "a single row" if comparison.baseline is None else "no other row, or no baseline"
        lines.append(f"Not compared, with {reason}: {'; '.join(comparison.alone[:3])}{more}.")
    return lines


def _units(first: str, *others: str) -> str:
    text = f"{first} as units (degrees of freedom: {first} - 1)"
    return ", or ".join([text, *(f"{unit} as units ({unit} - 1)" for unit in others)])
