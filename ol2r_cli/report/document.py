"""A report: its tables, the lines below them, its frame in full precision, and its file in each format.

Its columns stand in `columns.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ol2r_cli.files import write_parquet, write_text
from ol2r_cli.lazy import pl
from ol2r_cli.plugins import Output, plugins
from ol2r_cli.report import notes
from ol2r_cli.report.best_settings import Selection, criterion
from ol2r_cli.report.collection import Collection
from ol2r_cli.report.columns import GroupTable, difference_table
from ol2r_cli.report.comparison import Comparison
from ol2r_cli.report.frames import as_csv, as_frame
from ol2r_cli.report.measures import BESIDE
from ol2r_cli.report.names import Labels
from ol2r_cli.report.run_groups import Group
from ol2r_cli.text.table import TextTable, in_markdown, markdown, print_tables

_CORE = {".md": "md", ".csv": "csv", ".parquet": "parquet", ".json": "json"}


def outputs() -> list[Output]:
    """Return what plug-ins write beside these tables."""
    return [output for plugin in plugins() for output in plugin.outputs]


def endings() -> dict[str, str]:
    """Return the endings of files that have a whole report, with the names of their formats."""
    return _CORE | {ending: form for output in outputs() if output.text for ending, form in output.endings.items()}


@dataclass(frozen=True, eq=False, repr=False)
class Document:
    """A report on groups. differences_only: without the table of groups. instead: another table in its place."""

    collection: Collection
    groups: Sequence[Group]
    labels: Labels
    metrics: Sequence[str]
    selection: Selection | None = None
    comparison: Comparison | None = None
    differences_only: bool = False
    instead: TextTable | None = None

    @cached_property
    def tables(self) -> list[TextTable]:
        """The table of groups, and that of differences from a baseline or, with `differences_only`, of all pairs."""
        if self.instead:
            return [self.instead.without_empty()]
        tables = [] if self.differences_only else [self._groups.table.without_empty()]
        comparison = self.comparison
        if comparison and comparison.differences and (self.differences_only or comparison.baseline is not None):
            tables.append(self._differences.without_empty())
        chosen_by = criterion(self.selection.by).table if self.selection and self.selection.compared else None
        if chosen_by:
            tables.append(chosen_by(self.selection, self.groups, self.labels).without_empty())
        return tables

    @cached_property
    def notes(self) -> list[str]:
        """The lines below the tables: what the numbers are, how rows were compared, which runs are left out."""
        if self.instead and self.instead.below:
            lines = [*self.instead.below]
        else:
            lines = [notes.values_note(self.groups, len(self.collection.runs))]
            lines += [BESIDE[metric] for metric in self.metrics if metric in BESIDE]
            if notes.counts_without_relevant(self.groups, self.metrics):
                lines.append(notes.WITHOUT_RELEVANT)
            lines += notes.discount_notes(self.groups, self.metrics)
        if self.selection is not None and self.selection.chose:
            lines.append(
                f"{notes.choice_note(self.selection)} Model selection used the seeds that are reported. To report "
                "others, run the selected settings with them (--overrides)."
            )
        if self.selection is not None and self.selection.compared:
            lines.append(criterion(self.selection.by).note)
        if self.comparison:
            lines += notes.comparison_notes(self.comparison)
        return lines + self.collection.left_out

    def frame(self) -> pl.DataFrame:
        """Return one row in full precision for each group or, with `differences_only`, for each comparison and
        metric."""
        table = self.instead or (self._differences if self.differences_only else self._groups.table)
        return as_frame(table.values())

    @property
    def best(self) -> frozenset[tuple[Group, str]]:
        """Groups with the metrics that are bold: see `GroupTable`."""
        return self._groups.best

    @cached_property
    def _groups(self) -> GroupTable:
        return GroupTable(self.groups, self.labels, self.metrics, self.selection, self.comparison)

    @cached_property
    def _differences(self) -> TextTable:
        if self.comparison is None:
            return difference_table((), {})
        return difference_table(self.comparison.differences, self.comparison.row_names(self.labels))

    def text(self, form: str, options: Any = None) -> str:
        """Return the report as md, csv, json, or in a format of a plug-in, with the arguments of `ol2r report`."""
        for output in outputs():
            if output.text and form in output.endings.values():
                return output.text(self, options)
        if form == "csv":
            return as_csv(self.frame()).rstrip("\n")
        if form == "json":
            return self.frame().write_json()
        return "\n\n".join([*map(markdown, self.tables), *map(in_markdown, self.notes)])

    def __repr__(self) -> str:
        return self.text("md")

    _repr_markdown_ = __repr__  # what a notebook displays

    def print(self) -> None:
        """Print the report on a terminal."""
        print_tables(self.tables, self.notes)

    def write(self, path: Path, form: str, options: Any = None) -> None:
        """Write the report atomically, as `text` has it. ValueError where the file cannot be written."""
        with writing(path):
            if form == "parquet":
                write_parquet(path, self.frame())
            else:
                write_text(path, self.text(form, options).rstrip("\n") + "\n")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Make the folder of `path`, and turn an error while writing into a ValueError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise ValueError(f"--out must be a file that can be written, got {path} ({error.strerror})") from error
