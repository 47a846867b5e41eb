"""Records of csv files, with the lines on which they begin as an editor counts them, and columns as text."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

import polars as pl

from ol2r_cli.dataset.parse import utf8_lines


def records(path: Path, strict: bool, delimiter: str = ",") -> Iterator[tuple[int, list[str]]]:
    """Yield the first line and the fields of every record of a csv file.

    csv.Error for a field of more than 131,072 characters and, if `strict`, for a bad quote; DataError as of
    `utf8_lines`.
    """
    rows = csv.reader(utf8_lines(path), strict=strict, delimiter=delimiter)
    first = 1
    try:
        for fields in rows:
            yield first, fields
            first = rows.line_num + 1
    except csv.Error:
        defect = "a quote that is not closed or in a wrong place, or a very long field"
        raise csv.Error(f"line {first} has {defect}") from None


def place_of(path: Path, row: int, delimiter: str = ",") -> str:
    """Return the line on which a row begins, `line 42`, or the number of the row where that cannot be said.

    The heading is no row; quoted fields may have line breaks.
    """
    with suppress(StopIteration, csv.Error):  # polars reads some files otherwise than csv
        line, _ = next(islice(records(path, False, delimiter), row + 1, None))
        return f"line {line}"
    return f"row {row + 1}"


def longer_than_heading(path: Path) -> tuple[int, int, int] | None:
    """Return the line and the number of fields of the first record with more of them than the heading, and the number
    of the heading; None if there is none. csv.Error and DataError as of `records`."""
    rows = records(path, strict=True)
    width = len(next(rows, (1, []))[1])
    return next(((line, len(fields), width) for line, fields in rows if len(fields) > width), None)


def as_text(path: Path, column: pl.Series) -> pl.Series:
    """Return a column as text, true and false as 1 and 0; ValueError for lists and other structures."""
    if column.dtype == pl.Boolean:
        column = column.cast(pl.Int8)
    try:
        return column.cast(pl.String)
    except pl.exceptions.PolarsError:
        must = f"column {column.name} must have one number or text a row"
        raise ValueError(f"{path}: {must}, got {column.dtype}") from None
