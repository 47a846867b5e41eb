"""How a click log stands in a file: csv, parquet or json lines, with columns of known or given names."""

from __future__ import annotations

import csv
import json
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import polars as pl

from ol2r_cli.dataset.parse import DataError, open_utf8, utf8_lines
from ol2r_cli.dataset.records import as_text, longer_than_heading, place_of
from ol2r_cli.tensor.shapes import Int
from ol2r_cli.text.formatting import nearest, one_line

KNOWN = {  # names of columns, in upper or lower case; of several that a file has, the first counts
    "page": ("page", "page_id", "search_id", "request_id", "session", "session_id"),
    "query": ("query", "query_id", "q", "qid", "search_term", "user_query"),
    "document": (
        *("document", "documents", "document_id", "document_ids", "doc_id", "doc_ids", "docid", "query_doc_ids"),
        *("item_id", "item_ids", "product_id", "product_ids", "object_id", "object_ids", "url", "urls"),
    ),
    "place": ("place", "position", "rank", "pos"),
    "impressions": ("impressions", "impression"),
    "clicks": ("click", "clicks", "clicked", "clicked_documents", "clicked_ids", "clicked_ranks", "clicked_positions"),
    "time": ("time", "timestamp", "datetime"),
}
_UNTOLD = {
    "session",
    "query",
    "query_id",
    "document",
    "documents",
    "query_doc_ids",
    "place",
    "position",
    "time",
    "page",
}
COUNTS = "query", "document", "place", "impressions", "clicks"
SHOWN = "page", "query", "document", "place", "clicks"
PAGES = "query", "document", "clicks"
ClickLists = Literal["flags", "documents", "ranks"]
Rows = Literal["counts", "shown documents", "pages"]
_SEPARATORS = "|", ";", "\t", ",", " "
_BLOCK_BYTES, _BLOCK_ROWS, _BLOCK_LISTS = 2**22, 2**17, 2**14  # of a file that are text at the same time


class Form(NamedTuple):
    """What a user says of the form of a file; what is not said is recognised.

    columns: the column of the file for each key of `KNOWN`. first_rank: the number of the top rank. separator: what is
    between the entries of a list that is text. clicks: what a list of clicks has: 0 or 1 for each document, the
    documents that were clicked, or their ranks.
    """

    columns: Mapping[str, str] = {}
    first_rank: int | None = None
    separator: str | None = None
    clicks: ClickLists | None = None


AS_IT_IS = Form()


class Layout(NamedTuple):
    """What a file is, and its columns by the keys of `KNOWN`.

    rows: a row has the counts of a document at a rank, a shown document, or a page with lists. first: the number of the
    top rank. delimiter: of csv. separator: of lists that are text, empty if they are json.
    """

    kind: Literal["csv", "parquet", "json lines"]
    rows: Rows
    columns: dict[str, str]
    first: int
    delimiter: str
    separator: str

    def place(self, path: Path, row: int) -> str:
        """Return the line on which a row begins, or its number in a parquet file."""
        if self.kind == "csv":
            return place_of(path, row, self.delimiter)
        if self.kind == "json lines":
            numbers = (number for number, line in enumerate(utf8_lines(path), 1) if line.strip())
            return f"line {next(islice(numbers, row, None))}"
        return f"row {row + 1}"


def layout_of(path: Path, form: Form) -> Layout:
    """Return what a file is; ValueError where it cannot be read or has other columns."""
    with _reading(path):
        kind, delimiter, begin = _beginning(path)
    rows, columns = _rows_and_columns(path, begin.columns, form)
    for name, column in columns.items():
        is_list = rows == "pages" and name in ("document", "clicks")
        _check_type(path, kind, column, begin[column].dtype, is_list)
    first, separator = form.first_rank, ""
    if first is None:
        first = int(columns.get("place", "").lower() != "pos")
    if rows == "pages":
        separator = _separator(path, [begin[columns[name]] for name in ("document", "clicks")], form.separator)
    return Layout(kind, rows, columns, first, delimiter, separator)


def _rows_and_columns(path: Path, there: Sequence[str], form: Form) -> tuple[Rows, dict[str, str]]:
    """Return what a row is, which the columns of a file say, and those that are read; ValueError where one is
    missing."""
    columns = _columns(path, there, form.columns)
    if "impressions" in columns and "session" not in there:
        columns.pop("page", None)
    rows: Rows = "shown documents" if "page" in columns else "counts"
    if "place" not in columns and "impressions" not in columns and "document" in columns:
        rows = "pages"
    wanted = {"counts": COUNTS, "shown documents": SHOWN, "pages": PAGES}[rows]
    for name in wanted:
        if name not in columns:
            kinds = f"{', '.join(COUNTS)}, or session, query, document, place, click, or query, documents, clicks"
            typed = f"type --columns {name}=NAME with its name there"
            raise ValueError(f"{path} must have the columns {kinds}; it has {_some(there)}, and no {name}: {typed}")
    used = wanted if rows == "counts" else dict.fromkeys(("page", *wanted, "time"))
    return rows, {name: columns[name] for name in used if name in columns}


def recognised(layout: Layout, form: Form) -> list[str]:
    """Return what was recognised that a user may not expect, a line each."""
    columns, told = layout.columns, []
    renamed = [f"{name}={column}" for name, column in columns.items() if column not in {*_UNTOLD, *COUNTS, "click"}]
    if renamed:
        told.append(f"columns read as: {', '.join(renamed)}")
    if form.first_rank is None and not layout.first:
        told.append("ranks count from 0 in column pos: type --first-rank 1 where they do not")
    if layout.separator and not form.separator:
        told.append(f"lists are separated by {layout.separator!r}")
    if layout.rows == "pages" and "page" not in columns:
        told.append("pages have no id, so that repeats cannot be told: type --columns page=NAME if they have one")
    return told


def _beginning(path: Path) -> tuple[Literal["csv", "parquet", "json lines"], str, pl.DataFrame]:
    """Return what a file is, the delimiter of csv, and its first rows. Its first bytes say it, not its name."""
    with path.open("rb") as file:
        if file.read(4) == b"PAR1":
            return (
                "parquet",
                "",
                pl.scan_parquet(path, glob=False, hive_partitioning=False).head(_BLOCK_LISTS).collect(),
            )
    with open_utf8(path) as text:
        first = text.readline(_BLOCK_BYTES).lstrip()
    if not first:
        raise ValueError(f"{path} must be a csv, parquet or json lines file (its first line is empty)")
    if first[:1] == b"[" or first.strip() == b"{":
        query = "'.[]'" if first[:1] == b"[" else "."
        raise ValueError(
            f"{path} must have one json object a line: type jq -c {query} {shlex.quote(str(path))} > NEW.jsonl"
        )
    if first[:1] == b"{":
        lines = next(_lines_at_once(path))
        try:
            return "json lines", "", pl.read_ndjson(lines, infer_schema_length=None)
        except pl.exceptions.PolarsError:
            good = _without_broken(lines, lambda *_: None)
            return "json lines", "", pl.read_ndjson(good, infer_schema_length=None)
    delimiter = max((",", "\t", ";"), key=first.decode("utf-8", "replace").count)
    *_, records = islice(_records_at_once(path), 2)  # the heading is there alone, too
    return "csv", delimiter, pl.read_csv(records, infer_schema=False, separator=delimiter)


def _columns(path: Path, there: Sequence[str], given: Mapping[str, str]) -> dict[str, str]:
    """Return the columns of a file by the keys of `KNOWN`."""
    for name, column in given.items():
        if column not in there:
            others = f"{nearest(column, there)}; it has {_some(there)}"
            raise ValueError(f"--columns {name}={column}: {path} has no column {column}{others}")
    lower = {column.lower(): column for column in reversed(there) if column not in given.values()}
    lower |= {column: column for column in there if column in lower.values()}
    found = {key: next((lower[name] for name in names if name in lower), "") for key, names in KNOWN.items()}
    return {key: column for key, column in (found | dict(given)).items() if column}


def _some(columns: Sequence[str]) -> str:
    more = f", and {len(columns) - 20} more" if len(columns) > 20 else ""
    return one_line(", ".join(columns[:20]))[:400] + more


def _check_type(path: Path, kind: str, column: str, dtype: pl.DataType, is_list: bool) -> None:
    """Raise ValueError for a column of structures, and for lists where a row has one number or text."""
    inner = dtype.inner if is_list and isinstance(dtype, pl.List) else dtype
    if inner.is_nested():
        must = f"column {column} must have {'lists of numbers or text' if is_list else 'one number or text a row'}"
        flat = ": write a file with jq that has it on the top level" if kind == "json lines" else ""
        raise ValueError(f"{path}: {must}, got {one_line(str(dtype))[:80]}{flat}")


def _separator(path: Path, columns: Sequence[pl.Series], given: str | None) -> str:
    """Return what separates the entries of lists that are text, empty if they are json; ValueError without lists."""
    if any(column.dtype.is_nested() for column in columns):
        return ""
    text = columns[0].drop_nulls().cast(pl.String)
    if given is not None:
        return given
    if text.str.starts_with("[").any():
        return ""
    found = next((one for one in _SEPARATORS if text.str.contains(one, literal=True).any()), "")
    if not found:
        must = f"a column of ranks, or lists in column {columns[0].name}"
        raise ValueError(
            f"{path} must have {must}: type --columns place=NAME, or --separator with what is between entries"
        )
    return found


def blocks(path: Path, layout: Layout, broken: Callable[[int, str], None]) -> Iterator[pl.DataFrame]:
    """Yield the rows of a file as text and lists of text, some at a time, at least one table, with the keys of `KNOWN`
    as columns.

    `broken` is called for lines that are not json, with their number among the rows and what is wrong: it raises an
    error, or they become empty rows. ValueError for columns that have something else.
    """
    names = {column: name for name, column in layout.columns.items()}
    for table in _tables(path, layout, broken):
        yield table.select(
            _as_lists(table[column], layout.separator).alias(name)
            if layout.rows == "pages" and name in ("document", "clicks")
            else as_text(path, table[column]).alias(name)
            for column, name in names.items()
        )


def _as_lists(column: pl.Series, separator: str) -> pl.Series:
    """Return lists of text, null where there is none. Lists of text with single quotes are those that pandas writes."""
    if column.dtype.is_nested():
        is_true = isinstance(column.dtype, pl.List) and column.dtype.inner == pl.Boolean
        return (column.cast(pl.List(pl.Int8)) if is_true else column).cast(pl.List(pl.String))
    text = column.cast(pl.String)
    if separator:
        return text.replace("", None).str.split(separator).list.eval(pl.element().str.strip_chars())
    if text.str.contains("'", literal=True).any() and not text.str.contains('"', literal=True).any():
        text = text.str.replace_all("'", '"', literal=True)
    try:
        return text.str.json_decode(pl.List(pl.String))
    except pl.exceptions.PolarsError:
        return pl.Series(column.name, [_json_list(value) for value in text], dtype=pl.List(pl.String))


def _json_list(text: str | None) -> list[str | None] | None:
    try:
        values = json.loads(text or "")
    except ValueError:
        return None
    return _list_of(values)


def _list_of(value: Any) -> list[str | None] | None:
    """Return a value of json as a list of text: of a list, or of text that is one; None for others."""
    if isinstance(value, str):
        return _json_list(value)
    return [None if one is None else str(one) for one in value] if isinstance(value, list) else None


def _tables(path: Path, layout: Layout, broken: Callable[[int, str], None]) -> Iterator[pl.DataFrame]:
    """Yield the columns of a layout as they are in a file, at least one table; ValueError as of `_beginning`."""
    columns = [*dict.fromkeys(layout.columns.values())]
    with _reading(path):
        if layout.kind == "csv":
            for text in _records_at_once(path):  # of all columns: none has more
                yield pl.read_csv(text, infer_schema=False, separator=layout.delimiter).select(columns)
        elif layout.kind == "json lines":
            rows = 0
            for lines in _lines_at_once(path):
                table = _json_table(lines, layout, lambda row, told, first=rows: broken(first + row, told))  # type: ignore[misc]
                yield table
                rows += len(table)
        else:
            scan = pl.scan_parquet(path, glob=False, hive_partitioning=False).select(columns)
            number = scan.select(pl.len()).collect().item()
            step = _BLOCK_LISTS if layout.rows == "pages" else _BLOCK_ROWS
            for begin in range(0, max(number, 1), step):
                yield scan.slice(begin, step).collect()


def _json_table(lines: bytes, layout: Layout, broken: Callable[[int, str], None]) -> pl.DataFrame:
    """Return the columns of json lines as text, and those of lists as lists of text, null where a value is no list.

    Where polars reads a list as text, backslashes in it are decoded twice: `json` reads those columns in which some
    lists are text themselves.
    """
    has_lists = layout.rows == "pages" and not layout.separator
    lists = [layout.columns[name] for name in ("document", "clicks")] if has_lists else []
    text: dict[str, pl.DataType] = {column: pl.String() for column in layout.columns.values()}
    schema = text | {column: pl.List(pl.String) for column in lists}
    try:
        return pl.read_ndjson(lines, schema=schema)
    except pl.exceptions.PolarsError:
        good = _without_broken(lines, broken)
    try:
        return pl.read_ndjson(good, schema=schema)
    except pl.exceptions.PolarsError:
        table = pl.read_ndjson(good, schema=text)
    values = [json.loads(line) for line in good.splitlines() if line.strip()]
    return table.with_columns(
        pl.Series(column, [_list_of(value.get(column)) for value in values], dtype=pl.List(pl.String))
        for column in lists
    )


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn errors of a file into a ValueError that says what is wrong with it."""
    try:
        yield
    except DataError as error:  # of a compressed file or of an encoding, not of a row
        raise ValueError(str(error)) from None
    except (OSError, pl.exceptions.PolarsError) as error:
        try:
            reason = _unreadable(path) if path.is_file() else ""
        except DataError as other_encoding:
            raise ValueError(str(other_encoding)) from None
        told = f"{path} must be a csv, parquet or json lines file"
        raise ValueError(f"{told} ({reason or one_line(error)[:120]})") from None


def _unreadable(path: Path) -> str:
    """Return which line of a csv file has more fields than the first, or a bad quote; empty if none has. DataError for
    one that is not UTF-8."""
    with path.open("rb") as file:
        if file.read(4) == b"PAR1":
            return ""
    try:
        long = longer_than_heading(path)
    except csv.Error as error:
        return str(error)
    return f"line {long[0]} has more fields than the first" if long else ""


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


def _lines_at_once(path: Path) -> Iterator[bytes]:
    """Yield whole lines of a file, some at a time."""
    with open_utf8(path) as file:
        while lines := file.read(_BLOCK_BYTES):
            yield lines + file.readline()


def _without_broken(lines: bytes, broken: Callable[[int, str], None]) -> bytes:
    """Return json lines with an empty object in place of each that is broken, which `broken` gets with its number."""
    kept: list[bytes] = []
    for line in filter(bytes.strip, lines.splitlines()):
        try:
            is_object = isinstance(json.loads(line), dict)
        except UnicodeDecodeError:
            raise pl.exceptions.ComputeError("invalid utf-8") from None
        except ValueError:
            is_object = False
        if not is_object:
            broken(len(kept), "a line must have one json object")
        kept.append(line if is_object else b"{}")
    return b"\n".join(kept)
