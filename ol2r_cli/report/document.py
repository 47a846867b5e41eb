"""A report: its tables and notes, its rendering in each format, and its file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from ol2r_cli.files import write_parquet, write_text
from ol2r_cli.report.comparison import Comparison, Selection
from ol2r_cli.report.figures.drawing import PLAIN, Look
from ol2r_cli.report.frames import as_csv, differences_frame, groups_frame
from ol2r_cli.report.names import Labels
from ol2r_cli.report.result_tables import differences_table, groups_table, notes
from ol2r_cli.report.run_groups import Collection, Group
from ol2r_cli.report.text_table import TextTable, in_markdown, latex, markdown, terminal

if TYPE_CHECKING:
    import polars as pl

    from ol2r_cli.report.recovery import Recovery

SUFFIXES = {".md": "md", ".csv": "csv", ".parquet": "parquet", ".tex": "latex", ".html": "html", ".json": "json"}
FORMATS = tuple(SUFFIXES.values())


@dataclass(frozen=True, eq=False, repr=False)
class Document:
    """A report on groups. differences_only: without the table of groups. recoveries: these instead of the groups.
    look: of the figures of a page.
    """

    collection: Collection
    groups: Sequence[Group]
    labels: Labels
    metrics: Sequence[str]
    selection: Selection | None = None
    comparison: Comparison | None = None
    differences_only: bool = False
    recoveries: Sequence[Recovery] | None = None
    look: Look = PLAIN

    @cached_property
    def tables(self) -> list[TextTable]:
        """The table of groups, and that of differences from a baseline or, with `differences_only`, of all pairs."""
        if self.recoveries is not None:
            from ol2r_cli.report.recovery import recovery_table  # imports torch

            return [recovery_table(self.recoveries)]
        tables = []
        if not self.differences_only:
            tables.append(groups_table(self.groups, self.labels, self.metrics, self.selection, self.comparison))
        comparison = self.comparison
        if comparison and comparison.differences and (self.differences_only or comparison.baseline is not None):
            tables.append(differences_table(comparison, self.labels))
        return tables

    @cached_property
    def notes(self) -> list[str]:
        """The lines below the tables."""
        return notes(self.collection, self.groups, self.selection, self.comparison)

    def text(self, form: str) -> str:
        """The report as md, latex, csv or json."""
        if form in ("csv", "json"):
            return self.frame().write_json() if form == "json" else as_csv(self.frame()).rstrip("\n")
        if form == "latex":
            return "\n\n".join(latex(table, () if number else self.notes) for number, table in enumerate(self.tables))
        return "\n\n".join([*map(markdown, self.tables), *map(in_markdown, self.notes)])

    def __repr__(self) -> str:
        return self.text("md")

    def _repr_markdown_(self) -> str:
        """What a notebook displays."""
        return self.text("md")

    def print(self) -> None:
        """Print the report on a terminal."""
        terminal(self.tables, self.notes)

    def frame(self) -> pl.DataFrame:
        """Full precision: one row for each group or, with `differences_only`, for each comparison and metric."""
        if self.recoveries is not None:
            from ol2r_cli.report.recovery import recovery_frame

            return recovery_frame(self.recoveries)
        if self.differences_only and self.comparison:
            return differences_frame(self.comparison, self.labels)
        return groups_frame(self.groups, self.labels, self.metrics, self.selection, self.comparison)

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
