"""Judged documents in a csv or parquet file, a row for each: `read_documents`."""

from __future__ import annotations

import csv
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl

from ol2r_cli.dataset.documents import Documents
from ol2r_cli.dataset.parse import DataError, Missing, fill_with_minima, open_utf8
from ol2r_cli.dataset.records import as_text, longer_than_heading, place_of, records
from ol2r_cli.dataset.table import LARGEST_GRADE, SPLITS
from ol2r_cli.tensor.shapes import Float
from ol2r_cli.text.formatting import one_line

_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"  # as in LETOR files
_GRADE = r"^[0-9]{1,3}(\.0*)?$"
_OTHER = ";", "\t", "|"  # separators that are not read


def read_documents(
    path: Path | str,
    label: str = "label",
    without: Collection[str] = (),
    missing: Missing | float = "error",
    sort: bool = False,
) -> Documents:
    """Return the documents of a file with the columns `query` and `label`, or what `label` calls it, and one for each
    feature.

    Two more may be there: `document` names each document, and `split` says its split. Columns in `without` are no
    features. Ids are text: 007 and 7 are two queries. Labels are whole numbers from 0, features decimal numbers as in
    LETOR files. `missing` says what an empty cell or NULL is, as `dataset.missing` does, and may be NaN. Rows of a
    query follow each other, or with `sort` are brought together, queries in the order of their ids. Columns of csv are
    separated by commas. DataError, with file, line as an editor counts it, and column, for the first cell that is
    something else; ValueError for a file that cannot be read.
    """
    path = Path(path).expanduser()
    table, place = _text(path)
    table = table.with_columns(pl.Series("row", np.arange(len(table)), pl.Int64).alias(_ROW))
    table = table.filter(~pl.all_horizontal(pl.exclude(_ROW).is_null()))  # blank lines
    names = [name for name in table.columns if name not in ("query", label, "document", "split", _ROW, *without)]
    _check_columns(path, table.columns, ["query", label], names, without)
    if table.is_empty():
        raise DataError(f"{path}: found no document, expected a line for each")
    if sort:
        table = table.sort("query", maintain_order=True)
    rows = table[_ROW].to_numpy()
    at: Callable[[int], str] = lambda row: place(int(rows[row]))  # noqa: E731
    check = partial(_check, path, at)
    for name in ("query", "document", "split"):
        if name in table.columns:
            given = table[name].fill_null("")
            allowed = given.is_in(SPLITS) if name == "split" else given != ""
            check(given, allowed, f"one of {', '.join(SPLITS)}" if name == "split" else "text")
    grades = table[label].fill_null("")
    grade = grades.str.replace(r"\.0*$", "").cast(pl.Int64, strict=False)
    fits = grades.str.contains(_GRADE) & (grade <= LARGEST_GRADE).fill_null(False)
    check(grades, fits, f"a whole number from 0 to {LARGEST_GRADE}")
    features = np.stack([_numbers(table[name], missing, check) for name in names], 1)
    if missing == "minimum":
        query = table["query"].to_numpy()
        fill_with_minima(features, np.flatnonzero(np.concatenate([[True], query[1:] != query[:-1], [True]])))
    return Documents(
        query=table["query"].to_list(),
        label=grade.to_list(),
        features=features,
        split=table["split"].to_list() if "split" in table.columns else None,
        names=names,
        document=table["document"].to_list() if "document" in table.columns else None,
        place=lambda row: f"{path}:{at(row)}",
    )


_ROW = "row of the file"


def _numbers(
    column: pl.Series, missing: Missing | float, check: Callable[[pl.Series, pl.Series, str], None]
) -> Float[np.ndarray, "N"]:
    """Return the values of a feature, float64, NaN for a missing minimum."""
    empty = column.is_null() | column.is_in(["", "NULL"])
    number = column.cast(pl.Float64, strict=False)
    fits = column.str.contains(_NUMBER).fill_null(False) & number.is_finite().fill_null(False)
    if missing == "error":
        check(column, fits | ~empty, "a number: say missing='minimum' or missing=0 to read it as one")
        check(column, fits, "a number")
    else:
        check(column, fits | empty, "a number")
    return number.set(empty, np.nan if isinstance(missing, str) else missing).to_numpy().copy()


def _check(path: Path, at: Callable[[int], str], column: pl.Series, fits: pl.Series, expected: str) -> None:
    """Raise DataError for the first cell that does not fit."""
    if not fits.all():
        row = int((~fits).arg_max() or 0)
        cell = column[row]
        found = repr(cell[:40]) if cell else "an empty cell"
        raise DataError(f"{path}:{at(row)}: found {found} in column {column.name}, expected {expected}")


def _check_columns(
    path: Path, there: Sequence[str], needed: Sequence[str], features: Sequence[str], without: Collection[str]
) -> None:
    """Raise DataError unless a file has the columns that are needed, and one for a feature."""
    columns = ", ".join(name for name in there if name != _ROW)
    where = f"{path}:1" if path.suffix != ".parquet" else str(path)
    for name in (*needed, *without):
        if name not in there:
            raise DataError(f"{where}: found the columns {columns}, and no {name}")
    if not features:
        raise DataError(f"{where}: found the columns {columns}, expected one more for each feature")


def _text(path: Path) -> tuple[pl.DataFrame, Callable[[int], str]]:
    """Return the columns of a csv or parquet file as text, and what says where a row is in the file."""
    try:
        if path.suffix == ".parquet":
            table = pl.read_parquet(path, glob=False, hive_partitioning=False)
            return table.select(as_text(path, column) for column in table), lambda row: f"row {row + 1}"
        _check_heading(path)
        with open_utf8(path) as file:
            return pl.read_csv(file.read(), infer_schema=False), lambda row: place_of(path, row).removeprefix("line ")
    except (OSError, pl.exceptions.PolarsError) as error:
        reason = _unreadable(path) if path.is_file() and path.suffix != ".parquet" else ""
        raise DataError(reason or f"{path} must be a csv or parquet file ({one_line(error)[:120]})") from None


def _check_heading(path: Path) -> None:
    """Raise DataError unless the first line of a csv file names several columns, each once."""
    heading = next(records(path, strict=False), (1, []))[1]
    if not heading:
        raise DataError(f"{path}:1: found nothing, expected names of columns")
    if len(heading) == 1 and (other := next((mark for mark in _OTHER if mark in heading[0]), "")):
        raise DataError(f"{path}:1: found columns that are separated by {other!r}, expected commas")
    for place, name in enumerate(heading):
        if not name.strip():
            raise DataError(f"{path}:1: found no name for column {place + 1}, expected one for each column")
        if name in heading[:place]:
            raise DataError(f"{path}:1: found {name!r} twice, expected a name of its own for each column")


def _unreadable(path: Path) -> str:
    """Return what is wrong with a csv file that cannot be read, and on which line; empty where nothing is found.

    DataError for one that is not UTF-8.
    """
    try:
        long = longer_than_heading(path)
    except csv.Error as error:
        return f"{path}: {error}"
    return f"{path}:{long[0]}: found {long[1]} fields, expected {long[2]}, as in the heading" if long else ""
