"""Click logs: counts or sessions of shown documents and their clicks, as they stand in a csv or parquet file."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl

from ol2r_cli.dataset.parse import DataError, open_text
from ol2r_cli.formatting import one_line
from ol2r_cli.tensor.shapes import Bool, Float, Int

COUNTS = "query", "document", "place", "impressions", "clicks"
SESSIONS = "session", "query", "document", "place", "click"
CLAX = "query_id", "query_doc_ids", "clicks"  # a row for each session, with lists
PUBLISHED = {"url": "document", "pos": "place", "Impression": "impressions", "Click": "clicks"}  # `pos` counts from 0
MOST_PLACES = 1000
MORE_CLICKS = "clicks from 0 to impressions"
LeaveOut = Literal["none", "more clicks", "malformed"]


@dataclass(frozen=True)
class ClickLog:
    """Impressions and clicks of D documents, each of one query, at K places.

    `pages`, if they are known, are the documents of S pages by place, -1 where there is none, and their clicks.
    `query_ids`, if they are known, are the ids in the file of the queries, which `query` numbers.
    """

    query: Int[np.ndarray, "D"]
    impressions: Float[np.ndarray, "D K"]
    clicks: Float[np.ndarray, "D K"]
    pages: tuple[Int[np.ndarray, "S K"], Bool[np.ndarray, "S K"]] | None = None
    query_ids: Sequence[str] = ()

    def of(self, kept: Bool[np.ndarray, "D"]) -> ClickLog:
        """Return the log of some documents, which must be all those of their queries."""
        pages = self.pages
        if pages is not None:
            rows = kept[pages[0].max(1)]
            document, click = pages[0][rows], pages[1][rows]
            pages = np.where(document < 0, -1, (np.cumsum(kept) - 1)[document]), click
        return ClickLog(self.query[kept], self.impressions[kept], self.clicks[kept], pages, self.query_ids)


def read(path: Path, leave_out: LeaveOut = "none") -> tuple[ClickLog, int]:
    """Return the log in a csv or parquet file with the columns `COUNTS` or `SESSIONS`, and how many rows were left out.

    A row of `SESSIONS` is a shown document, a row of `CLAX` the documents and clicks of a session from the top.
    `position` may stand for `place`, which counts from 1; the columns of `PUBLISHED` are those of `COUNTS`. Rows of the
    same query, document and place are added. `leave_out` says which rows are left out: none, those with more clicks
    than impressions, or all that are malformed. DataError, with the line, for the first other malformed row; ValueError
    for a file that cannot be read or has too little.
    """
    typed, first = _columns(path)
    numbers = pl.col("place", "impressions", "clicks").str.strip_chars().str.to_lowercase()
    numbers = numbers.replace({"true": "1", "false": "0"})  # clicks of sessions, as pandas and polars write them
    numbers = numbers.str.replace(r"\.0*$", "")  # 2.0, as pandas writes a column with gaps
    table = typed.with_columns(numbers.cast(pl.Int64, strict=False))
    holds = table.select(**_rules(table, first))
    if leave_out != "malformed":
        _check(path, typed, holds if leave_out == "none" else holds.drop(MORE_CLICKS))
    kept = holds.select(pl.all_horizontal(pl.all())).to_series()
    was_shown = pl.col("query").is_not_null() & (pl.col("impressions") > 0)
    table = table.filter(kept & was_shown).with_columns(place=pl.col("place") - first)
    if table.is_empty():
        raise ValueError(f"{path} has no row that can be used")
    log = _as_arrays(table)
    if not log.clicks.any():
        raise ValueError(f"{path} has no click")
    unseen = log.impressions.sum(0) == 0
    if unseen.any():
        places, place = log.impressions.shape[1], int(unseen.argmax()) + 1
        raise ValueError(f"{path} must have impressions at each place from 1 to {places}, got none at place {place}")
    return log, int((~kept).sum())


def _check(path: Path, typed: pl.DataFrame, holds: pl.DataFrame) -> None:
    """Raise DataError, with the line, if a row of `typed`, which is as in the file, breaks a rule."""
    malformed = ~holds.select(pl.all_horizontal(pl.all())).to_series()
    if not malformed.any():
        return
    row = int(malformed.arg_max() or 0)
    rule = next(name for name in holds.columns if not holds[name][row])
    fields = ", ".join(f"{name} {value!s}" for name, value in typed.row(row, named=True).items())
    in_all = f"malformed rows in all: {malformed.sum():,}"
    raise DataError(f"{path}, {_where(path, row)}: a row must have {rule}, got {fields} ({in_all})")


def _rules(table: pl.DataFrame, first: int) -> dict[str, pl.Expr]:
    """Return whether each row keeps each rule, by the words of the rule. Blank lines keep all of them."""
    last, shown, clicks = first + MOST_PLACES - 1, pl.col("impressions"), pl.col("clicks")
    rules = {
        "query and document": pl.col("query").is_not_null() & pl.col("document").is_not_null(),
        f"place from {first} to {last}": pl.col("place").is_between(first, last),
        "impressions from 0": shown >= 0,
        "clicks from 0": clicks >= 0,
        MORE_CLICKS: clicks <= shown,
    }
    if "session" in table.columns:
        rules["session"] = pl.col("session").is_not_null()
        rules["each place of a session once"] = pl.struct("session", "query", "place").is_unique()
    blank = pl.all_horizontal(pl.exclude("impressions").is_null())
    return {name: rule.fill_null(False) | blank for name, rule in rules.items()}


def _columns(path: Path) -> tuple[pl.DataFrame, int]:
    """Return the columns of a file as text, by the names of `COUNTS` and `session`, and which number the top place has.

    A document shown in a session is one impression.
    """
    in_file = _table(path)
    if set(CLAX) <= set(in_file.columns):
        in_file = _as_sessions(in_file, path)
    is_published = "pos" in in_file.columns and not {"place", "position"}.intersection(in_file.columns)
    names = PUBLISHED if is_published else {"position": "place"}
    absent = {name: new for name, new in names.items() if new not in in_file.columns}
    renamed = in_file.rename(absent, strict=False)
    wanted = SESSIONS if "session" in in_file.columns else COUNTS
    missing = [name for name in wanted if name not in renamed.columns]
    if missing:
        both = f"{', '.join(COUNTS)}, or {', '.join(SESSIONS)}"
        there = ", ".join(in_file.columns)
        raise ValueError(f"{path} must have the columns {both}; it has {there}, and no {missing[0]}")
    table = _as_text(renamed.select(wanted), path)
    if wanted is SESSIONS:
        impressions = pl.lit("1").alias("impressions")
        table = table.select("session", "query", "document", "place", impressions, clicks="click")
    return table, 0 if is_published else 1


def _as_sessions(table: pl.DataFrame, path: Path) -> pl.DataFrame:
    """Return the rows of `CLAX` as rows of `SESSIONS`; ValueError for a row whose lists differ in length."""
    sessions = table.select(CLAX).with_row_index("session")
    places = pl.int_ranges(1, pl.col("query_doc_ids").list.len() + 1).alias("place")
    try:
        shown = sessions.with_columns(places).explode("query_doc_ids", "clicks", "place")
        click = pl.col("clicks").cast(pl.Int64)
        return shown.select("session", "place", query="query_id", document="query_doc_ids", click=click)
    except pl.exceptions.PolarsError:
        message = "must have lists of the same length in query_doc_ids and clicks, with clicks of 0 and 1"
        raise ValueError(f"{path} {message}") from None


def _table(path: Path) -> pl.DataFrame:
    """Return what is in a csv file, as text, or in a parquet file; ValueError for a file that is neither."""
    is_csv = path.suffix != ".parquet"
    try:
        with open_text(path) if is_csv else path.open("rb") as file:
            content = file.read()
        return pl.read_csv(content, infer_schema=False) if is_csv else pl.read_parquet(content)
    except DataError as error:  # of a compressed file, not of a row
        raise ValueError(str(error)) from None
    except (OSError, pl.exceptions.PolarsError) as error:
        reason = _unreadable(path) if is_csv and path.is_file() else ""
        raise ValueError(f"{path} must be a csv or parquet file ({reason or one_line(error)[:120]})") from None


def _as_text(table: pl.DataFrame, path: Path) -> pl.DataFrame:
    """Return the table with text in all columns; ValueError for a column that has lists or other structures."""
    for column in table:
        try:
            table = table.with_columns(column.cast(pl.String))
        except pl.exceptions.PolarsError:
            problem = f"column {column.name} must have one number or text a row, got {column.dtype}"
            raise ValueError(f"{path}: {problem}") from None
    return table


def _records(path: Path, strict: bool) -> Iterator[tuple[int, list[str]]]:
    """Yield the first line and the fields of every record of a csv file.

    csv.Error for a field of more than 131,072 characters and, if `strict`, for a bad quote.
    """
    with open_text(path) as file:
        rows = csv.reader((line.decode(errors="replace") for line in file), strict=strict)
        first = 1
        try:
            for fields in rows:
                yield first, fields
                first = rows.line_num + 1
        except csv.Error:
            defect = "a quote that is not closed or in a wrong place, or a very long field"
            raise csv.Error(f"line {first} has {defect}") from None


def _where(path: Path, row: int) -> str:
    """Return the line on which a row of a csv file begins, or the number of the row in other files.

    The header is no row; quoted fields may have line breaks.
    """
    if path.suffix != ".parquet":
        with suppress(StopIteration, csv.Error):  # polars reads some files otherwise than csv
            line, _ = next(islice(_records(path, strict=False), row + 1, None))
            return f"line {line}"
    return f"row {row + 1}"


def _unreadable(path: Path) -> str:
    """Return which line of a csv file has more fields than the first, or a bad quote; empty if none has."""
    records = _records(path, strict=True)
    try:
        width = len(next(records, (1, []))[1])
        long = next((line for line, fields in records if len(fields) > width), None)
    except csv.Error as error:
        return str(error)
    return f"line {long} has more fields than the first" if long else ""


def _as_arrays(table: pl.DataFrame) -> ClickLog:
    """Return the rows as arrays. Documents are sorted by query; places count from 0."""

    def numbered(*names: str) -> Int[np.ndarray, "N"]:
        return table.select(pl.struct(names).rank("dense").cast(pl.Int64) - 1).to_series().to_numpy()

    place, document = table["place"].to_numpy(), numbered("query", "document")
    documents, places = int(document.max()) + 1, int(place.max()) + 1
    query = np.zeros(documents, np.int64)
    query[document] = numbered("query")
    impressions, clicks = np.zeros((2, documents, places))
    np.add.at(impressions, (document, place), table["impressions"].to_numpy())
    np.add.at(clicks, (document, place), table["clicks"].to_numpy())
    log = ClickLog(query, impressions, clicks, query_ids=table["query"].unique().sort().to_list())
    if "session" not in table.columns:
        return log
    page = numbered("session", "query")
    shape = int(page.max()) + 1, places
    document_at, clicked_at = np.full(shape, -1), np.zeros(shape, np.bool_)
    document_at[page, place] = document
    clicked_at[page, place] = table["clicks"].to_numpy()
    return replace(log, pages=(document_at, clicked_at))
