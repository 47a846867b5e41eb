"""A report: its tables, the lines below them, its frame in full precision, and its file in each format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ol2r_cli.files import write_parquet, write_text
from ol2r_cli.formatting import plural, plus_minus
from ol2r_cli.report.comparison import Comparison, PairedDifference, Selection
from ol2r_cli.report.estimates import ALPHA, LEAST_UNITS, LEVEL, least_p
from ol2r_cli.report.figures.drawing import PLAIN, Look
from ol2r_cli.report.frames import as_csv, as_frame, choices, differing_settings
from ol2r_cli.report.measures import METRICS, described, digits, gain, heading
from ol2r_cli.report.names import Labels, tasks
from ol2r_cli.report.run_groups import Collection, Group
from ol2r_cli.report.text_table import Cell, TextTable, in_markdown, latex, markdown, terminal

if TYPE_CHECKING:
    import polars as pl

SUFFIXES = {".md": "md", ".csv": "csv", ".parquet": "parquet", ".tex": "latex", ".html": "html", ".json": "json"}
_DIFFERENCE = (
    *("difference", "difference_half_width", "p", "p_holm", "effect"),
    *("wins", "ties", "losses", "pairs", "missing"),
)
_TEST_NAMES = {"t": "paired t test", "permutation": "permutation test (signs of the differences)"}


@dataclass(frozen=True, eq=False, repr=False)
class Document:
    """A report on groups. differences_only: without the table of groups. instead: another table, and its frame.
    look: of the figures of a page.
    """

    collection: Collection
    groups: Sequence[Group]
    labels: Labels
    metrics: Sequence[str]
    selection: Selection | None = None
    comparison: Comparison | None = None
    differences_only: bool = False
    instead: tuple[TextTable, pl.DataFrame] | None = None
    look: Look = PLAIN

    @cached_property
    def tables(self) -> list[TextTable]:
        """The table of groups, and that of differences from a baseline or, with `differences_only`, of all pairs."""
        if self.instead is not None:
            return [self.instead[0]]
        tables = []
        if not self.differences_only:
            tables.append(groups_table(self.groups, self.labels, self.metrics, self.selection, self.comparison))
        comparison = self.comparison
        if comparison and comparison.differences and (self.differences_only or comparison.baseline is not None):
            tables.append(differences_table(comparison, self.labels))
        return tables

    @cached_property
    def notes(self) -> list[str]:
        """The lines below the tables: what the numbers are, how rows were compared, which runs are left out."""
        folds = any(len(group.seeds) > 1 for group in self.groups)
        values = "(fold, seed), every fold counting the same" if folds else "seed"
        units = f" with the {_units('folds')} where there are several folds, else with the seeds" if folds else ""
        lines = [
            f"{plural(len(self.collection.runs), 'run')}. Figures are means over n values, one for each {values}; ± is "
            f"half the width of the {LEVEL:.0%} interval of the mean (Student's t){units}, left out for a single value."
        ]
        if self.selection is not None and self.selection.chose:
            lines.append(
                "The settings are those with the best mean validation NDCG after the last evaluated round. The seeds "
                "that chose them are those that report: to report others, run the chosen ones with them (--overrides)."
            )
        return lines + (_comparison_notes(self.comparison) if self.comparison else []) + self.collection.left_out

    def frame(self) -> pl.DataFrame:
        """Full precision: one row for each group or, with `differences_only`, for each comparison and metric."""
        if self.instead is not None:
            return self.instead[1]
        comparison, labels = self.comparison, self.labels
        rows: list[dict[str, Any]] = []
        if self.differences_only and comparison:
            names = comparison.row_names(labels)
            for d in comparison.differences:
                rival = {f"rival_{n}": name for n, name in choices(d.rival).items() if n not in ("dataset", "click")}
                row: dict[str, Any] = {"metric": d.metric} | choices(d.group) | {"row": names[d.group]}
                rows.append(row | rival | {"rival_row": names[d.rival]} | _numbers(d))
            return as_frame(rows)
        settings = differing_settings(self.groups, labels)
        for group in labels.ordered(self.groups, self.metrics):
            row = choices(group) | {name: group.settings.get(name) for name in settings}
            row |= {"chosen_from": self.selection.cells[group]} if self.selection else {}
            row |= {"letter": comparison.letters.get(group)} if comparison and comparison.letters else {}
            row |= {"note": group.note} if any(each.note for each in self.groups) else {}
            row |= {"folds": len(group.seeds), "n": group.n}
            for metric in self.metrics:
                estimate = group.estimate(metric)
                values = {name: getattr(estimate, name, None) for name in ("mean", "sd", "half_width", "n")}
                if comparison and comparison.baseline is None:
                    values |= {"better_than": comparison.mark(group, metric)}
                elif comparison:
                    values |= _numbers(comparison.against_baseline.get((group, metric)))
                row |= {f"{metric}_{name}": value for name, value in values.items()}
            rows.append(row)
        return as_frame(rows)

    def text(self, form: str) -> str:
        """The report as md, latex, csv or json."""
        if form in ("csv", "json"):
            return self.frame().write_json() if form == "json" else as_csv(self.frame()).rstrip("\n")
        if form == "latex":
            return "\n\n".join(latex(table, () if number else self.notes) for number, table in enumerate(self.tables))
        return "\n\n".join([*map(markdown, self.tables), *map(in_markdown, self.notes)])

    def __repr__(self) -> str:
        return self.text("md")

    _repr_markdown_ = __repr__  # what a notebook displays

    def print(self) -> None:
        """Print the report on a terminal."""
        terminal(self.tables, self.notes)

    def write(self, path: Path, form: str) -> None:
        """Write the report atomically. ValueError where the file cannot be written."""
        with writing(path):
            if form == "html":
                from ol2r_cli.report import html_page  # imports jinja2

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


def groups_table(
    groups: Sequence[Group],
    labels: Labels,
    metrics: Sequence[str] = METRICS,
    selection: Selection | None = None,
    comparison: Comparison | None = None,
) -> TextTable:
    """One row for each group, with the marks of a comparison, without columns that would be empty."""
    metrics = [name for name in metrics if any(group.estimate(name) for group in groups)]
    best: set[tuple[Group, str]] = set()  # of tasks with several rows, and of metrics that have a direction
    for task, name in product(
        tasks(groups), [name for name in metrics if described(name).higher_is_better is not None]
    ):
        means = {group: gain(name, estimate.mean) for group in task if (estimate := group.estimate(name))}
        if len(means) > 1:
            best |= {(group, name) for group, mean in means.items() if mean == max(means.values())}
    rows: list[list[str | Cell]] = []
    for group in labels.ordered(groups, metrics):
        baseline = " (baseline)" if comparison and group in comparison.bases else ""
        folds, sizes = len(group.seeds), {len(seeds) for seeds in group.seeds.values()}
        seeds = f" x {plural(max(sizes), 'seed')}" if len(sizes) == 1 else ""
        row: list[str | Cell] = [
            comparison.letters.get(group, "") if comparison else "",
            group.choices["dataset"],
            group.choices["click"],
            group.choices.get("intent", "none").removeprefix("none"),
            labels.ranker(group) + baseline,
            labels.short(group),
            group.note,
            str(selection.cells[group]) if selection else "",
            f"{group.n} ({folds} folds{seeds})" if folds > 1 else str(group.n),
        ]
        for name in metrics:
            value = ""
            if estimate := group.estimate(name):
                value = plus_minus(estimate.mean, estimate.half_width, digits(name))
                value += f" (n = {estimate.n})" if estimate.n != group.n else ""
            row.append(Cell(value, comparison.mark(group, name) if comparison else "", (group, name) in best))
        rows.append(row)
    words = ("", "dataset", "click", "intent", "ranker", "settings", "note")
    return TextTable.of(words, ["chosen from", "n", *map(heading, metrics)], rows).without_empty()


def differences_table(comparison: Comparison, labels: Labels) -> TextTable:
    """One row for each difference: interval, p, p after Holm, effect size, wins/ties/losses, number of pairs."""
    names = comparison.row_names(labels)
    rows: list[list[str | Cell]] = [
        [
            heading(d.metric),
            d.group.choices["dataset"],
            d.group.choices["click"],
            names[d.group],
            names[d.rival],
            Cell(plus_minus(d.estimate.mean, d.estimate.half_width, digits(d.metric) + 1, sign="+"), d.arrow),
            format_p(d.p),
            format_p(d.holm),
            "" if d.effect is None else f"{d.effect:+.2f}",
            f"{d.wins}/{d.ties}/{d.losses}",
            f"{d.estimate.n}" + (f" in {d.estimate.folds} folds" if d.estimate.folds > 1 else ""),
        ]
        for d in comparison.differences
    ]
    words = ("metric", "dataset", "click", "ranker", "minus")
    return TextTable.of(words, ("difference", "p", "p (Holm)", "g_z", "win/tie/loss", "pairs"), rows)


def format_p(p: float | None) -> str:
    """Three decimals, scientific notation below .001, <1e-6 below that; empty for None."""
    if p is None:
        return ""
    return "<1e-6" if p < 1e-6 else f"{p:.1e}" if p < 0.001 else f"{p:.3f}"


def _numbers(d: PairedDifference | None) -> dict[str, Any]:
    """The numbers of a difference in full precision; None where there is none."""
    if d is None:
        return dict.fromkeys(_DIFFERENCE)
    tests, counts = (d.p, d.holm, d.effect), (d.wins, d.ties, d.losses, d.estimate.n, d.missing)
    return dict(zip(_DIFFERENCE, (d.estimate.mean, d.estimate.half_width, *tests, *counts), strict=True))


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
        units = _units(*sorted({"folds" if d.estimate.folds > 1 else "seeds" for d in tested}))
        lines.append(
            f"{mark}, at {ALPHA} after Holm's correction for the {comparisons} of each metric: "
            f"{_TEST_NAMES[comparison.test]} over the (fold, seed) that both have, with the {units}."
        )
    if len(tested) < len(differences) or not tested:
        count = f"{len(differences) - len(tested)} of {len(differences)} not tested" if tested else "Nothing was tested"
        few = f"too few seeds, or folds where there are several, that both have: a test needs {LEAST_UNITS}"
        lines.append(f"{count}: {few}.")
    if tested:
        most = max((d.estimate for d in differences), key=lambda estimate: estimate.units)
        least = min(1.0, family * least_p(comparison.test, most.units))
        unit = "folds" if most.folds > 1 else "seeds"
        if least >= ALPHA:
            lines.append(
                f"With {most.units} {unit} and {comparisons} no p of this test can be below {least:.2g} "
                f"after the correction, so nothing can be significant: type --test t, or run more {unit}."
            )
    if missing := [d for d in differences if d.missing]:
        worst = max(missing, key=lambda d: d.missing)
        lines.append(
            f"Not all (fold, seed) are in both rows of {plural(len(missing), 'comparison')}; where most are missing, "
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
