"""A report as a whole: what was found and asked for, and what it looks like in each format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from ol2r_cli.report import formats
from ol2r_cli.report.collect import Collection
from ol2r_cli.report.comparison import Comparison
from ol2r_cli.report.differences import differences
from ol2r_cli.report.formats import Table
from ol2r_cli.report.groups import Group
from ol2r_cli.report.labels import Labels
from ol2r_cli.report.notes import notes
from ol2r_cli.report.select import Selection
from ol2r_cli.report.table import table
from ol2r_cli.results.directory import RunDirectory

if TYPE_CHECKING:
    import polars as pl

SUFFIXES = {".md": "md", ".csv": "csv", ".parquet": "parquet", ".tex": "latex", ".html": "html"}
FORMATS = tuple(SUFFIXES.values())


@dataclass(frozen=True, eq=False)
class Document:
    """Groups, in a table with these metrics. alone: only the differences of the comparison, without the table."""

    collection: Collection
    groups: Sequence[Group]
    labels: Labels
    metrics: Sequence[str]
    selection: Selection | None = None
    comparison: Comparison | None = None
    alone: bool = False

    @cached_property
    def tables(self) -> list[Table]:
        """The table, and the differences from a baseline; those of all pairs are too many to follow unasked."""
        own = [] if self.alone else [table(self.groups, self.labels, self.metrics, self.selection, self.comparison)]
        if self.comparison and self.comparison.differences and (self.alone or self.comparison.baseline is not None):
            own.append(differences(self.comparison, self.labels))
        return own

    @cached_property
    def notes(self) -> list[str]:
        """The lines under the tables."""
        chosen = self.selection is not None and max(self.selection.cells, default=0) > 1
        return notes(self.collection, self.groups, chosen, self.comparison)

    def text(self, form: str) -> str:
        """As md, latex or csv."""
        if form == "csv":
            return self.frame().write_csv().rstrip("\n")
        if form == "latex":
            return "\n\n".join(formats.latex(own, () if place else self.notes) for place, own in enumerate(self.tables))
        return "\n\n".join([*map(formats.markdown, self.tables), *self.notes])

    def print(self) -> None:
        """On the terminal."""
        formats.terminal(self.tables, self.notes)

    def frame(self) -> pl.DataFrame:
        """In full precision: one row a group, or, `alone`, one a comparison and metric."""
        from ol2r_cli.report.frames import differences_frame, groups_frame

        if self.alone and self.comparison:
            return differences_frame(self.comparison, self.labels)
        return groups_frame(self.groups, self.labels, self.metrics, self.selection, self.comparison)

    def write(self, path: Path, form: str) -> None:
        """Into a file, whole or not at all. ValueError where it cannot be written."""
        writing(path, lambda: self._write(path, form))

    def _write(self, path: Path, form: str) -> None:
        if form == "html":
            from ol2r_cli.report.page import write_page

            write_page(path, self.collection, self.groups, self.labels, self.selection, self.comparison)
        elif form == "parquet":
            RunDirectory(path.parent).write_parquet(path.name, self.frame())
        else:
            RunDirectory(path.parent).write_text(path.name, self.text(form) + "\n")


def writing(path: Path, write: Callable[[], None]) -> None:
    """Write, into a folder that is made if need be. ValueError in place of an OSError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write()
    except OSError as error:
        raise ValueError(f"--out must be a file that can be written, got {path} ({error.strerror})") from error
