"""Click logs: counts or sessions of shown documents and their clicks, as they stand in a csv or parquet file."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import polars as pl

from ol2r_cli.dataset.parse import DataError, open_utf8
from ol2r_cli.dataset.records import as_text, longer_than_heading, place_of
from ol2r_cli.tensor.shapes import Bool, Float, Int
from ol2r_cli.text.formatting import one_line

COUNTS = "query", "document", "place", "impressions", "clicks"
SESSIONS = "session", "query", "document", "place", "click"
CLAX = "query_id", "query_doc_ids", "clicks"  # a row for each session, with lists
PUBLISHED = {"url": "document", "pos": "place", "Impression": "impressions", "Click": "clicks"}  # `pos` counts from 0
MOST_PLACES = 1000
MORE_CLICKS = "clicks from 0 to impressions"
LeaveOut = Literal["none", "more clicks", "malformed"]
_IDS, _WHOLE = ("session", "query", "document"), ("place", "impressions", "clicks")
_BLOCK_BYTES, _BLOCK_ROWS, _BLOCK_LISTS = 2**22, 2**17, 2**14  # of a file that are text at the same time


@dataclass(frozen=True)
class ClickLog:
    """Impressions and clicks of D documents, each of one query, at K places.

    `pages`, if they are known, are the documents of S pages by place, -1 where there is none, and their clicks.
    `query_ids`, if they are known, are the ids in the file of the queries, which `query` numbers, and `document_ids`
    those of the documents. `repeats` is how many rows of sessions the file has once more: they are left out.
    """

    query: Int[np.ndarray, "D"]
    impressions: Float[np.ndarray, "D K"]
    clicks: Float[np.ndarray, "D K"]
    pages: tuple[Int[np.ndarray, "S K"], Bool[np.ndarray, "S K"]] | None = None
    query_ids: Sequence[str] = ()
    document_ids: Sequence[str] = ()
    repeats: int = 0

    def of(self, kept: Bool[np.ndarray, "D"]) -> ClickLog:
        """Return the log of some documents, which must be all those of their queries, without their ids."""
        pages = self.pages
        if pages is not None:
            rows = kept[pages[0].max(1)]
            number = np.append(np.cumsum(kept) - 1, -1).astype(pages[0].dtype)  # the last one is that of no document
            pages = number[pages[0][rows]], pages[1][rows]
        return ClickLog(self.query[kept], self.impressions[kept], self.clicks[kept], pages, self.query_ids)


def read(path: Path, leave_out: LeaveOut = "none") -> tuple[ClickLog, int]:
    """Return the log in a csv or parquet file with the columns `COUNTS` or `SESSIONS`, and how many rows were left out.

    A row of `SESSIONS` is a shown document, a row of `CLAX` the documents and clicks of a session from the top.
    `position` may stand for `place`, which counts from 1; the columns of `PUBLISHED` are those of `COUNTS`. Counts of
    the same query, document and place are added. Of equal rows of a session one is kept, and none is malformed.
    `leave_out` says which rows are left out: none, those with more clicks than impressions, or all that are malformed.
    DataError, with the line, for the first other malformed row; ValueError for a file that cannot be read or has too
    little.
    """
    layout, malformed = _layout(path), _Malformed(path, leave_out)
    ids = {name: pl.Categorical(pl.Categories.random()) for name in _IDS}
    parts, rows = [], 0
    for text in _blocks(path, layout):
        kept = _kept(text, rows, layout.first, malformed)
        parts.append(kept.with_columns(pl.col(name).cast(ids[name]) for name in _IDS if name in kept.columns))
        rows += len(text)
    table, repeats = pl.concat(parts).with_columns(pl.col("place") - layout.first), 0
    parts.clear()
    if "session" in table.columns:
        table, repeats = _each_place_once(table.with_columns(page=_pages(table)), layout.first, malformed)
    malformed.check()
    table = table.drop("row", "session", strict=False)
    if table.is_empty():
        raise ValueError(f"{path} has no row that can be used")
    log = replace(_as_arrays(table), repeats=repeats)
    if not log.clicks.any():
        raise ValueError(f"{path} has no click")
    unseen = log.impressions.sum(0) == 0
    if unseen.any():
        places, place = log.impressions.shape[1], int(unseen.argmax()) + 1
        raise ValueError(f"{path} must have impressions at each place from 1 to {places}, got none at place {place}")
    return log, malformed.left_out


class _Malformed:
    """How many rows of a file are malformed and left out, and the first of those that must not be there."""

    def __init__(self, path: Path, leave_out: LeaveOut):
        self.path, self.leave_out = path, leave_out
        self.left_out, self.number, self.row, self.told = 0, 0, sys.maxsize, ""

    def add(self, fields: pl.DataFrame, holds: pl.DataFrame, row: pl.Series) -> None:
        """Add the rows with these fields that break a rule of `holds`; `row` has their numbers in the file."""
        self.left_out += _number_of_false(holds)
        if self.leave_out == "more clicks":
            holds = holds.drop(MORE_CLICKS, strict=False)
        number = 0 if self.leave_out == "malformed" else _number_of_false(holds)
        if not number:
            return
        self.number += number
        first = int(holds.select(~pl.all_horizontal(pl.all())).to_series().arg_max() or 0)
        if row[first] < self.row:
            rule = next(name for name in holds.columns if not holds[name][first])
            got = ", ".join(f"{name} {value!s}" for name, value in fields.row(first, named=True).items())
            self.row, self.told = row[first], f"a row must have {rule}, got {got}"

    def check(self) -> None:
        """Raise DataError, with the line of the first row, if there is one."""
        if self.number:
            in_all = f"malformed rows in all: {self.number:,}"
            where = place_of(self.path, self.row) if _is_csv(self.path) else f"row {self.row + 1}"
            raise DataError(f"{self.path}, {where}: {self.told} ({in_all})")


def _number_of_false(holds: pl.DataFrame) -> int:
    return int(holds.select((~pl.all_horizontal(pl.all())).sum()).item())


def _kept(text: pl.DataFrame, rows: int, first: int, malformed: _Malformed) -> pl.DataFrame:
    """Return the rows of a block, the first of which is row `rows` of the file, that are shown and keep all rules."""
    table = text.with_columns(_whole(text[name]) for name in _WHOLE if name in text.columns)
    holds, row = table.select(**_rules(table, first)), pl.int_range(rows, rows + len(text), dtype=pl.UInt32, eager=True)
    malformed.add(text, holds, row)
    shown = table["query"].is_not_null()
    if "session" not in table.columns:
        shown &= table["impressions"] > 0
    kept = holds.select(pl.all_horizontal(pl.all())).to_series()
    table = table.with_columns(row.alias("row")).filter(kept & shown)
    small = pl.Int8 if "session" in table.columns else pl.Int64
    return table.with_columns(pl.col("place").cast(pl.Int16), pl.col("clicks").cast(small))


def _rules(table: pl.DataFrame, first: int) -> dict[str, pl.Expr]:
    """Return whether each row keeps each rule, by the words of the rule. Blank lines keep all of them."""
    last, clicks = first + MOST_PLACES - 1, pl.col("clicks")
    rules = {
        "query and document": pl.col("query").is_not_null() & pl.col("document").is_not_null(),
        f"place from {first} to {last}": pl.col("place").is_between(first, last),
    }
    is_session = "session" in table.columns
    shown = pl.lit(1) if is_session else pl.col("impressions")
    rules |= {"impressions from 0": shown >= 0, "clicks from 0": clicks >= 0, MORE_CLICKS: clicks <= shown}
    if is_session:
        rules["session"] = pl.col("session").is_not_null()
    blank = pl.all_horizontal(pl.all().is_null())
    return {name: rule.fill_null(False) | blank for name, rule in rules.items()}


def _whole(column: pl.Series) -> pl.Series:
    """Return whole numbers of text, null where it has none.

    Pandas and polars write clicks as True and true, and pandas 2.0 in a column with gaps.
    """
    numbers = column.cast(pl.Int64, strict=False)
    if numbers.null_count() == column.null_count():
        return numbers
    plain = column.str.strip_chars().str.to_lowercase().replace({"true": "1", "false": "0"})
    return plain.str.replace(r"\.0*$", "").cast(pl.Int64, strict=False)


def _each_place_once(table: pl.DataFrame, first: int, malformed: _Malformed) -> tuple[pl.DataFrame, int]:
    """Return the rows of sessions without repeats, how many these are, and without places that have several documents
    or clicks, whose rows are malformed."""
    places = int(table["place"].max() or 0) + 1  # type: ignore[arg-type]
    cell = table["page"].to_numpy() * np.int64(places) + table["place"].to_numpy()
    taken = np.zeros(cell.max(initial=0) + 1, np.bool_)
    taken[cell] = True
    if taken.sum() == len(cell):
        return table, 0
    cells = table.with_columns(cell=cell)
    same = pl.struct("document", "clicks").n_unique().over("cell") == 1
    marked = cells.with_columns(once=same, is_first=pl.col("cell").is_first_distinct())
    fields = marked.select("session", "query", "document", pl.col("place") + first, "clicks")
    malformed.add(fields, marked.select(pl.col("once").alias("each place of a session once")), marked["row"])
    kept = marked.filter("once", "is_first").drop("cell", "once", "is_first")
    return kept, int(marked["once"].sum()) - len(kept)


class _Layout(NamedTuple):
    """Which columns of a file are read, with their names here; the number of the top place; and whether a row has
    lists."""

    names: dict[str, str]
    first: int = 1
    lists: bool = False


def _layout(path: Path) -> _Layout:
    """Return what the columns of a file are; ValueError where some are missing."""
    there = _columns(path)
    if set(CLAX) <= set(there):
        return _Layout(dict(zip(CLAX, ("query", "document", "clicks"), strict=True)), lists=True)
    is_published = "pos" in there and not {"place", "position"}.intersection(there)
    others = PUBLISHED if is_published else {"position": "place"}
    in_file = {new: name for name, new in others.items() if name in there} | {name: name for name in there}
    wanted = SESSIONS if "session" in there else COUNTS
    missing = [name for name in wanted if name not in in_file]
    if missing:
        both = f"{', '.join(COUNTS)}, or {', '.join(SESSIONS)}"
        raise ValueError(f"{path} must have the columns {both}; it has {', '.join(there)}, and no {missing[0]}")
    return _Layout({in_file[name]: "clicks" if name == "click" else name for name in wanted}, 0 if is_published else 1)


def _columns(path: Path) -> list[str]:
    """Return the names of the columns of a file; ValueError unless it is csv or parquet."""
    with _reading(path):
        if _is_csv(path):
            return pl.read_csv(next(_records_at_once(path)), infer_schema=False).columns
        with path.open("rb"):  # so that a folder is none
            return list(pl.read_parquet_schema(path))


def _blocks(path: Path, layout: _Layout) -> Iterator[pl.DataFrame]:
    """Yield the rows of a file as text, some at a time; ValueError for columns that have something else."""
    sessions = 0
    for block in _tables(path, layout):
        table = block.rename(layout.names)
        if layout.lists:
            table = _as_sessions(table.with_row_index("session", sessions), path)
            sessions += len(block)
        yield table.select(as_text(path, column) for column in table)


def _as_sessions(table: pl.DataFrame, path: Path) -> pl.DataFrame:
    """Return a row for each document of rows of lists; ValueError for a row whose lists differ in length."""
    try:
        places = pl.int_ranges(1, pl.col("document").list.len() + 1).alias("place")
        return table.with_columns(places).explode("document", "clicks", "place").cast({"clicks": pl.Int64})
    except pl.exceptions.PolarsError:
        message = "must have lists of the same length in query_doc_ids and clicks, with clicks of 0 and 1"
        raise ValueError(f"{path} {message}") from None


def _tables(path: Path, layout: _Layout) -> Iterator[pl.DataFrame]:
    """Yield the columns of a layout as they are in a csv or parquet file, at least one table; ValueError as of
    `_columns`."""
    with _reading(path):
        if _is_csv(path):
            for text in _records_at_once(path):
                yield pl.read_csv(text, infer_schema=False).select(*layout.names)  # of all columns: none has more
            return
        scan = pl.scan_parquet(path, glob=False, hive_partitioning=False).select(*layout.names)
        rows = scan.select(pl.len()).collect().item()
        step = _BLOCK_LISTS if layout.lists else _BLOCK_ROWS
        for begin in range(0, max(rows, 1), step):
            yield scan.slice(begin, step).collect()


def _is_csv(path: Path) -> bool:
    return path.suffix != ".parquet"


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn errors of a file into a ValueError that says what is wrong with it."""
    try:
        yield
    except DataError as error:  # of a compressed file or of an encoding, not of a row
        raise ValueError(str(error)) from None
    except (OSError, pl.exceptions.PolarsError) as error:
        try:
            reason = _unreadable(path) if _is_csv(path) and path.is_file() else ""
        except DataError as other_encoding:
            raise ValueError(str(other_encoding)) from None
        raise ValueError(f"{path} must be a csv or parquet file ({reason or one_line(error)[:120]})") from None


def _records_at_once(path: Path) -> Iterator[bytes]:
    """Yield whole records of a csv file, some at a time, each time below the first one, which names the columns."""
    heading, text = b"", b""
    with open_utf8(path) as file:
        while more := file.read(_BLOCK_BYTES):
            text += more
            ends = _ends(text)
            if len(ends) and not heading:
                heading = text[: ends[0]]
                yield heading
                text, ends = text[ends[0] :], ends[1:] - ends[0]
            if len(ends):
                yield heading + text[: ends[-1]]
                text = text[ends[-1] :]
    if text or not heading:
        yield heading + text


def _ends(text: bytes) -> Int[np.ndarray, "n"]:
    """Return where the lines of a text end that end no part of a quoted field."""
    content = np.frombuffer(text, np.uint8)
    breaks, quotes = np.flatnonzero(content == ord("\n")), np.flatnonzero(content == ord('"'))
    return breaks[np.searchsorted(quotes, breaks) % 2 == 0] + 1


def _unreadable(path: Path) -> str:
    """Return which line of a csv file has more fields than the first, or a bad quote; empty if none has. DataError for
    one that is not UTF-8."""
    try:
        long = longer_than_heading(path)
    except csv.Error as error:
        return str(error)
    return f"line {long[0]} has more fields than the first" if long else ""


def _as_arrays(table: pl.DataFrame) -> ClickLog:
    """Return the rows as arrays. Documents are sorted by query; places count from 0."""
    place, clicks = table["place"].to_numpy(), table["clicks"].to_numpy()
    query, query_ids = _numbered(table["query"])
    name, names = _numbered(table["document"])
    key = query.astype(np.int64)  # in place: a log may have a hundred million rows
    key *= len(names)
    key += name
    del query, name
    document, pairs = _dense(key)
    shape = len(pairs), int(place.max()) + 1
    np.multiply(document, shape[1], out=key)
    key += place

    def summed(cells: Int[np.ndarray, "n"], weights: Int[np.ndarray, "n"] | None = None) -> Float[np.ndarray, "D K"]:
        return np.bincount(cells, weights, shape[0] * shape[1]).reshape(shape).astype(np.float64)

    if "page" in table.columns:
        shown, clicked = summed(key), summed(key[clicks > 0])
    else:
        shown, clicked = summed(key, table["impressions"].to_numpy()), summed(key, clicks)
    del key
    ids = [names[number] for number in (pairs % len(names)).tolist()]
    log = ClickLog(pairs // len(names), shown, clicked, query_ids=query_ids, document_ids=ids)
    if "page" not in table.columns:
        return log
    page, different = _dense(table["page"].to_numpy())
    document_at = np.full((len(different), shape[1]), -1, np.int32)
    clicked_at = np.zeros(document_at.shape, np.bool_)
    document_at[page, place] = document
    clicked_at[page, place] = clicks
    return replace(log, pages=(document_at, clicked_at))


def _pages(table: pl.DataFrame) -> Int[np.ndarray, "N"]:
    """Return the number of the page of each row: a session has one for each query."""
    session, query = (table[name].to_physical().cast(pl.Int32).to_numpy() for name in ("session", "query"))
    of_session = np.zeros(session.max(initial=0) + 1, np.int32)
    of_session[session] = query
    if (of_session[session] == query).all():
        return _dense(session)[0]
    return _dense(session * (np.int64(query.max()) + 1) + query)[0]


def _numbered(ids: pl.Series) -> tuple[Int[np.ndarray, "N"], list[str]]:
    """Return the number of each id in the order of text, and the ids in this order."""
    unique = ids.unique()
    ordered = unique.gather(unique.cast(pl.String).arg_sort())
    codes = ordered.to_physical().to_numpy()
    number = np.zeros(int(codes.max()) + 1, np.int32)
    number[codes] = np.arange(len(codes))
    return number[ids.to_physical().to_numpy()], ordered.cast(pl.String).to_list()


def _dense(keys: Int[np.ndarray, "N"]) -> tuple[Int[np.ndarray, "N"], Int[np.ndarray, "U"]]:
    """Return the number of each key in their order, and the different keys."""
    largest = int(keys.max(initial=0))
    if largest > 4 * len(keys):
        unique = np.sort(pl.Series(keys).unique().to_numpy())
        return np.searchsorted(unique, keys).astype(np.int32), unique
    there = np.zeros(largest + 1, np.bool_)
    there[keys] = True
    return (np.cumsum(there, dtype=np.int32) - 1)[keys], np.flatnonzero(there)
