"""Click logs: pages of shown documents with their clicks, or counts of them, as arrays."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import polars as pl

from ol2r_cli.dataset.parse import DataError
from ol2r_cli.plugins.click_logs.log_file import AS_IT_IS, ClickLists, Form, Layout, blocks, layout_of, recognised
from ol2r_cli.tensor.shapes import Bool, Float, Int
from ol2r_cli.text.formatting import plural

MOST_PLACES = 1000
MORE_CLICKS = "clicks from 0 to impressions"
LeaveOut = Literal["none", "more clicks", "malformed"]
_WHOLE = "place", "impressions", "clicks"
_TIME = "a time, a number or as 2024-06-01T12:00:00Z"
_SHOWN = 60  # characters of a value in a message
_BLOCK = 2**20  # numbers that are looked up at the same time
_MOST = 0.75  # of the lists at the beginning of a file, which are of one kind: others are then malformed
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ClickLog:
    """Impressions and clicks of D documents, each of one query, at K places.

    `pages`, if they are known, are the documents of S pages by place, -1 where there is none, and their clicks: in the
    order of their time, or without a time of the file. `query_ids`, if they are known, are the ids in the file of the
    queries, which `query` numbers, and `document_ids` those of the documents. `repeats` is how many rows the file has
    once more: they are left out.
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

    def query_of_pages(self) -> Int[np.ndarray, "S"]:
        """Return the query of each page; ValueError for counts."""
        if self.pages is None:
            raise ValueError("a log of counts has no pages")
        return self.query[self.pages[0].max(1)]

    def split(self, share: float = 0.8) -> tuple[ClickLog, ClickLog]:
        """Return the first `share` of the pages, and the others, which came later; of counts each fifth query is
        among the others, if the share is 0.8. Both have all documents, numbered alike, also where they have none of
        their impressions."""
        if self.pages is None:
            queries = int(self.query.max(initial=-1)) + 1
            is_first = np.diff(np.ceil(np.arange(queries + 1) * share - 1e-9)) > 0
            first = is_first[self.query][:, None]
            parts = [
                replace(self, impressions=self.impressions * part, clicks=self.clicks * part)
                for part in (first, ~first)
            ]
            return parts[0], parts[1]
        pages = round(len(self.pages[0]) * share)
        parts = []
        for part in slice(pages), slice(pages, None):
            shown = self.pages[0][part], self.pages[1][part]
            impressions, clicks = _summed(len(self.query), *shown)
            parts.append(replace(self, impressions=impressions, clicks=clicks, pages=shown))
        return parts[0], parts[1]


def read(path: Path, leave_out: LeaveOut = "none", form: Form = AS_IT_IS) -> tuple[ClickLog, int]:
    """Return the log in a csv, parquet or json lines file, and how many rows were left out.

    A row has the counts of a document at a rank, a shown document of a page, or a page with lists: docs/how-to/
    click_logs.md has the columns. What is recognised that a user may not expect is logged. Counts of the same query,
    document and place are added. Of equal rows of a page one is kept, and none is malformed. `leave_out` says which
    rows are left out: none, those with more clicks than impressions, or all that are malformed. DataError, with the
    line, for the first other malformed row; ValueError for a file that cannot be read or has too little.
    """
    layout = layout_of(path, form)
    for line in recognised(layout, form):
        _log.info("%s", line)
    malformed = _Malformed(path, layout, leave_out)
    of_rows = {"counts": _counts, "shown documents": _shown_documents, "pages": _listed_pages}[layout.rows]
    log = of_rows(path, layout, form, malformed)
    if not log.clicks.any():
        raise ValueError(f"{path} has no click")
    unseen = log.impressions.sum(0) == 0
    if unseen.any():
        places, place = log.impressions.shape[1], int(unseen.argmax()) + 1
        raise ValueError(f"{path} must have impressions at each place from 1 to {places}, got none at place {place}")
    return log, malformed.left_out


class _Malformed:
    """How many rows of a file are malformed and left out, and the first of those that must not be there."""

    def __init__(self, path: Path, layout: Layout, leave_out: LeaveOut):
        self.path, self.layout, self.leave_out = path, layout, leave_out
        self.left_out, self.number, self.row, self.told = 0, 0, sys.maxsize, ""

    def broken(self, row: int, told: str) -> None:
        """Add a row that cannot be read, with what it must be."""
        self.left_out += 1
        if self.leave_out != "malformed":
            self.number += 1
            if row < self.row:
                self.row, self.told = row, told

    def add(self, fields: pl.DataFrame, holds: pl.DataFrame, row: Int[np.ndarray, "n"]) -> None:
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
            values = {
                self.layout.columns[name]: str(value if not isinstance(value, pl.Series) else value.to_list())
                for name, value in fields.row(first, named=True).items()
            }
            got = ", ".join(f"{name} {value[:_SHOWN]}" for name, value in values.items())
            self.row, self.told = int(row[first]), f"a row must have {rule}, got {got}"

    def check(self) -> None:
        """Raise DataError, with the line of the first row, if there is one."""
        if self.number:
            in_all = f"malformed rows in all: {self.number:,}"
            raise DataError(f"{self.path}, {self.layout.place(self.path, self.row)}: {self.told} ({in_all})")


def _number_of_false(holds: pl.DataFrame) -> int:
    return int(holds.select((~pl.all_horizontal(pl.all())).sum()).item())


class _Ids:
    """Text of a log as numbers: the same text has the same number in all parts of a file."""

    def __init__(self) -> None:
        self._category = pl.Categorical(pl.Categories.random())
        self._kept = pl.Series([], dtype=self._category)  # polars forgets numbers of which no column is left

    def codes(self, text: pl.Series) -> Int[np.ndarray, "n"]:
        """Return the number of each text, -1 where there is none."""
        numbered = text.cast(self._category)
        self._kept = self._kept if len(self._kept) else numbered[:1]
        return numbered.to_physical().cast(pl.Int32).fill_null(-1).to_numpy()

    def text(self, codes: Int[np.ndarray, "n"]) -> pl.Series:
        """Return the text of each code."""
        return pl.Series(codes, dtype=pl.UInt32).cat.to(self._category).cast(pl.String)

    def in_order(self, codes: Int[np.ndarray, "n"]) -> tuple[Int[np.ndarray, "X"], list[str]]:
        """Return the place of each code that occurs in the order of text, and the texts in this order."""
        there = np.zeros(int(codes.max(initial=-1)) + 1, np.bool_)
        there[codes] = True
        used = np.flatnonzero(there)
        text = self.text(used)
        order = text.arg_sort().to_numpy()
        number = np.full(len(there), -1, np.int32)
        number[used[order]] = np.arange(len(used))
        return number, text.gather(order).to_list()


def _counts(path: Path, layout: Layout, form: Form, malformed: _Malformed) -> ClickLog:
    """Return the log of a file whose rows are counts."""
    ids: dict[str, _Ids] = {name: _Ids() for name in ("query", "document")}
    parts: list[list[np.ndarray]] = [[] for _ in range(5)]
    for table, _ in _kept_rows(path, layout, form, malformed):
        shown = table.filter(pl.col("impressions") > 0)
        columns = *(ids[name].codes(shown[name]) for name in ids), *(shown[name].to_numpy() for name in _WHOLE)
        for part, column in zip(parts, columns, strict=True):
            part.append(column)
    malformed.check()
    query, document, place, impressions, clicks = _joined(parts)
    if not len(query):
        raise ValueError(f"{path} has no row that can be used")
    row, log = _documents(query, document, ids)
    shape = len(log.query), int(place.max()) + 1
    cell = row * np.int64(shape[1]) + place

    def summed(weights: Int[np.ndarray, "n"]) -> Float[np.ndarray, "D K"]:
        return np.bincount(cell, weights, shape[0] * shape[1]).reshape(shape)

    return replace(log, impressions=summed(impressions), clicks=summed(clicks))


def _shown_documents(path: Path, layout: Layout, form: Form, malformed: _Malformed) -> ClickLog:
    """Return the log of a file whose rows are shown documents; a session has a page for each query."""
    ids: dict[str, _Ids] = {name: _Ids() for name in ("page", "query", "document")}
    parts: list[list[np.ndarray]] = [[] for _ in range(6)]
    starts, times, number = [], [], 0
    for table, number_in_file in _kept_rows(path, layout, form, malformed):
        codes = [ids[name].codes(table[name]) for name in ids]
        columns = *codes, table["place"].to_numpy().astype(np.int16), table["clicks"].to_numpy() > 0, number_in_file
        for part, column in zip(parts, columns, strict=True):
            part.append(column)
        if "time" in table.columns:
            begin = np.flatnonzero(np.diff(codes[0], prepend=-1) | np.diff(codes[1], prepend=-1))
            starts.append(begin + number)
            times.append(table["time"].to_numpy()[begin])
        number += len(table)
    session, query, document, place, click, row = _joined(parts)
    if not number:
        malformed.check()
        raise ValueError(f"{path} has no row that can be used")
    page, first = _pages(session, query)
    document_at = np.full((len(first), int(place.max()) + 1), -1, np.int32)
    clicked_at = np.zeros(document_at.shape, np.bool_)
    at, clicked = document_at.reshape(-1), clicked_at.reshape(-1)
    cell = page * np.int64(document_at.shape[1]) + place
    at[cell], clicked[cell] = document, click
    repeats = number - int(np.count_nonzero(at >= 0))
    if repeats:
        other = np.zeros(len(at), np.bool_)
        other[cell[(at[cell] != document) | (clicked[cell] != click)]] = True
        bad = np.flatnonzero(other[cell])
        if len(bad):
            one = bad[:1]
            fields = {
                name: ids[name].text(codes[one]) for name, codes in zip(ids, (session, query, document), strict=True)
            }
            fields |= {"place": pl.Series(place[one] + layout.first), "clicks": pl.Series(click[one].astype(int))}
            rule = f"each place of a {layout.columns['page']} once"
            malformed.add(pl.DataFrame(fields), pl.DataFrame({rule: np.zeros(len(bad), np.bool_)}), row[bad])
        at[other], clicked[other] = -1, False
        repeats -= len(bad) - int(np.count_nonzero(other))
    malformed.check()
    query_of_page, time = query[first], None
    del session, query, document, place, click, row, cell
    if starts:
        start, time = np.concatenate(starts)[::-1], np.full(len(first), np.nan)
        time[page[start]] = np.concatenate(times)[::-1]  # that of its first row
    return _of_pages(document_at, clicked_at, query_of_page, time, ids, repeats, path)


class _Lists(NamedTuple):
    """Pages as they stand in a file: documents and clicks by place, their row, and the codes of their ids."""

    document_at: Int[np.ndarray, "S K"]
    clicked_at: Bool[np.ndarray, "S K"]
    row: Int[np.ndarray, "S"]
    query: Int[np.ndarray, "S"]
    page: Int[np.ndarray, "S"] | None
    time: Float[np.ndarray, "S"] | None


def _listed_pages(path: Path, layout: Layout, form: Form, malformed: _Malformed) -> ClickLog:
    """Return the log of a file whose rows are pages."""
    ids = {name: _Ids() for name in ("page", "query", "document")}
    lists = _read_lists(path, layout, form, malformed, ids)
    kept, repeats = np.ones(len(lists.row), np.bool_), 0
    if lists.page is not None:
        kept, repeats = _without_repeats(lists, lists.page, layout, malformed, ids)
    time = None if lists.time is None else lists.time[kept]
    return _of_pages(lists.document_at[kept], lists.clicked_at[kept], lists.query[kept], time, ids, repeats, path)


def _read_lists(path: Path, layout: Layout, form: Form, malformed: _Malformed, ids: Mapping[str, _Ids]) -> _Lists:
    """Return the pages of a file that keep all rules; ValueError without one."""
    kind, rows, without_id, shown, clicked, others = form.clicks, 0, 0, [], [], []
    for text in blocks(path, layout, malformed.broken):
        table = text.with_columns(_time(text["time"])) if "time" in text.columns else text
        kind = kind or _kind_of_lists(path, layout, table)
        holds = _list_rules(table, layout, kind or "documents")
        row = np.arange(rows, rows + len(text), dtype=np.uint32)
        malformed.add(text, holds, row)
        rows += len(text)
        kept = holds.select(pl.all_horizontal(pl.all())).to_series() & text["query"].is_not_null()
        table, row = table.filter(kept), row[kept.to_numpy()]
        if not len(table):
            continue
        document_at, clicked_at = _list_arrays(table, layout.first, kind or "documents", ids["document"])
        without_id += int(table["document"].list.len().sum()) - int(np.count_nonzero(document_at >= 0))
        shown.append(document_at)
        clicked.append(clicked_at)
        codes = [ids[name].codes(table[name]) for name in ("query", "page") if name in table.columns]
        others.append([row, *codes, *([table["time"].to_numpy()] if "time" in table.columns else [])])
    malformed.check()
    if without_id:
        _log.info("%s of lists without a document: what is below keeps its rank", plural(without_id, "place"))
    if not shown:
        raise ValueError(f"{path} has no row that can be used")
    places = max(part.shape[1] for part in shown)
    row, query, *more = map(np.concatenate, zip(*others, strict=True))
    time = more.pop() if "time" in layout.columns else None
    page = more.pop() if "page" in layout.columns else None
    return _Lists(_side_by_side(shown, places), _side_by_side(clicked, places), row, query, page, time)


def _without_repeats(
    lists: _Lists, page_id: Int[np.ndarray, "S"], layout: Layout, malformed: _Malformed, ids: Mapping[str, _Ids]
) -> tuple[Bool[np.ndarray, "S"], int]:
    """Return which pages are the first with their id and query, and how many repeat one.

    Pages of the same id and query that differ are malformed: DataError, or none of them is kept.
    """
    page, first = _pages(page_id, lists.query)
    if len(first) == len(page):
        return np.ones(len(page), np.bool_), 0
    documents, clicks, of_first = lists.document_at, lists.clicked_at, first[page]
    differs = (documents != documents[of_first]).any(1) | (clicks != clicks[of_first]).any(1)
    other = np.zeros(len(first), np.bool_)
    other[page[differs]] = True
    bad = np.flatnonzero(other[page])
    if len(bad):
        fields = {"page": ids["page"].text(page_id[bad[:1]]), "query": ids["query"].text(lists.query[bad[:1]])}
        rule = f"the same documents and clicks for the same {layout.columns['page']}"
        malformed.add(pl.DataFrame(fields), pl.DataFrame({rule: np.zeros(len(bad), np.bool_)}), lists.row[bad])
        malformed.check()
    kept = np.zeros(len(page), np.bool_)
    kept[first] = ~other
    return kept, len(page) - len(bad) - int(kept.sum())


def _side_by_side(parts: list[Int[np.ndarray, "s k"]], places: int) -> Int[np.ndarray, "S K"]:
    """Return pages one below the other, with -1, or no click, where they are shorter than others."""
    empty = -1 if parts[0].dtype == np.int32 else 0
    pages = np.full((sum(map(len, parts)), places), empty, parts[0].dtype)
    end = 0
    for number, part in enumerate(parts):
        pages[end : end + len(part), : part.shape[1]] = part
        end += len(part)
        parts[number] = part[:0]
    return pages


def _as_clicks(clicks: pl.Expr, kind: ClickLists) -> pl.Expr:
    """Return lists of clicks as numbers, of documents as text; an absent list has none, but of flags."""
    if kind == "documents":
        return clicks.list.drop_nulls().fill_null([])
    plain = pl.element().str.strip_chars().str.to_lowercase().replace({"true": "1", "false": "0"})
    numbers = clicks.list.eval(plain.str.replace(r"\.0*$", "").cast(pl.Int64, strict=False).fill_null(-1))
    return numbers if kind == "flags" else numbers.fill_null([])


def _click_rule(kind: ClickLists, first: int) -> tuple[str, pl.Expr]:
    """Return the rule that lists of clicks keep, in words and of each row."""
    number, clicks = pl.col("document").list.len(), _as_clicks(pl.col("clicks"), kind)
    if kind == "flags":
        is_flag = clicks.list.eval(pl.element().is_between(0, 1)).list.all()
        return "0 or 1 for each document in clicks", (clicks.list.len() == number) & is_flag
    if kind == "documents":
        return "clicks on documents of the list", clicks.list.set_difference("document").list.len() == 0
    within = (clicks.list.min() >= first) & (clicks.list.max() < first + number.cast(pl.Int64))
    return f"clicks at ranks from {first} to the last", within.fill_null(True)


def _list_rules(table: pl.DataFrame, layout: Layout, kind: ClickLists) -> pl.DataFrame:
    """Return whether each row of lists keeps each rule, by the words of the rule. Blank lines keep all of them."""
    words, rule = _click_rule(kind, layout.first)
    rules = {
        "query": pl.col("query").is_not_null(),
        f"a list of 1 to {MOST_PLACES} documents": pl.col("document").list.len().is_between(1, MOST_PLACES),
        words: rule,
    }
    if "page" in table.columns:
        rules[layout.columns["page"]] = pl.col("page").is_not_null()
    if "time" in table.columns:
        rules[_TIME] = pl.col("time").is_not_null()
    blank = pl.all_horizontal(pl.all().is_null())
    return table.select(**{name: rule.fill_null(False) | blank for name, rule in rules.items()})


def _kind_of_lists(path: Path, layout: Layout, table: pl.DataFrame) -> ClickLists | None:
    """Return what lists of clicks have, None where there are none; ValueError if they could have several things."""
    column = layout.columns["clicks"]
    clicked = table.filter(pl.col("clicks").list.drop_nulls().list.len() > 0)
    if clicked.is_empty():
        return None
    if "rank" in column.lower() or "position" in column.lower():
        return "ranks"
    if layout.columns["document"] == "query_doc_ids":  # of CLAX
        return "flags"

    def is_most(kind: ClickLists, first: int = layout.first) -> bool:
        return float(clicked.select(_click_rule(kind, first)[1].fill_null(False).mean()).item()) >= _MOST

    if is_most("flags"):
        return "flags"
    kinds: list[ClickLists] = [kind for kind in ("documents", "ranks") if is_most(kind)]
    if len(kinds) == 1:
        told = "the documents that were clicked" if kinds == ["documents"] else f"ranks of clicks from {layout.first}"
        _log.info("column %s has %s: type --clicks where it has something else", column, told)
        return kinds[0]
    if not kinds and is_most("ranks", 0):
        raise ValueError(f"{path}: column {column} has ranks from 0: type --clicks ranks --first-rank 0")
    could = "0 or 1 for each document, clicked documents, or ranks of clicks"
    why = "it could have documents or ranks" if kinds else "it has none of them"
    typed = "type --clicks flags, --clicks documents or --clicks ranks"
    raise ValueError(f"{path}: column {column} must have {could}, and {why}: {typed}")


def _list_arrays(
    table: pl.DataFrame, first: int, kind: ClickLists, documents: _Ids
) -> tuple[Int[np.ndarray, "s k"], Bool[np.ndarray, "s k"]]:
    """Return the documents and clicks of pages by place. One that is shown twice is clicked where it is first."""
    clicks = table.select(_as_clicks(pl.col("clicks"), kind)).to_series()
    length, clicked = (lists.list.len().to_numpy().astype(np.int64) for lists in (table["document"], clicks))
    page, page_of_click = (np.repeat(np.arange(len(table)), number) for number in (length, clicked))
    place = np.arange(len(page)) - np.repeat(np.cumsum(length) - length, length)
    flat = clicks.filter(pl.Series(clicked > 0)).explode()
    document = documents.codes(table["document"].explode().replace("", None))
    document_at = np.full((len(table), int(length.max())), -1, np.int32)
    clicked_at = np.zeros(document_at.shape, np.bool_)
    document_at[page, place] = document
    if kind == "flags":
        clicked_at[page, place] = flat.to_numpy() == 1
    elif kind == "ranks":
        clicked_at[page_of_click, flat.to_numpy() - first] = True
    else:
        there = pl.Series(page << 32 | document.astype(np.int64))
        on = pl.Series(page_of_click << 32 | documents.codes(flat).astype(np.int64))
        clicked_at[page, place] = (there.is_in(on.implode()) & there.is_first_distinct()).to_numpy()
    return document_at, clicked_at & (document_at >= 0)


def _kept_rows(
    path: Path, layout: Layout, form: Form, malformed: _Malformed
) -> Iterator[tuple[pl.DataFrame, Int[np.ndarray, "n"]]]:
    """Yield the rows of a file that are shown and keep all rules, with their numbers in the file, some at a time.

    ValueError at the end where as many rows are at rank 0 as at rank 1, and nobody said that ranks count from 1.
    """
    rows, zeros, ones = 0, 0, 0
    for text in blocks(path, layout, malformed.broken):
        table = text.with_columns(_whole(text[name]) for name in _WHOLE if name in text.columns)
        if "time" in text.columns:
            table = table.with_columns(_time(text["time"]))
        holds = table.select(**_rules(table, layout))
        row = np.arange(rows, rows + len(text), dtype=np.uint32)
        malformed.add(text, holds, row)
        rows += len(text)
        zeros += int((table["place"] == 0).sum() or 0)
        ones += int((table["place"] == 1).sum() or 0)
        kept = holds.select(pl.all_horizontal(pl.all())).to_series() & table["query"].is_not_null()
        yield table.filter(kept).with_columns(pl.col("place") - layout.first), row[kept.to_numpy()]
    is_told = form.first_rank is not None or malformed.leave_out == "more clicks"  # a dataset has no option for it
    if layout.first and not is_told and zeros and zeros >= ones:
        told = f"{path} has {plural(zeros, 'row')} at rank 0"
        raise ValueError(f"{told}, so that ranks seem to count from 0: type --first-rank 0, or --first-rank 1")


def _rules(table: pl.DataFrame, layout: Layout) -> dict[str, pl.Expr]:
    """Return whether each row keeps each rule, by the words of the rule. Blank lines keep all of them."""
    last, clicks = layout.first + MOST_PLACES - 1, pl.col("clicks")
    rules = {
        "query and document": pl.col("query").is_not_null() & pl.col("document").is_not_null(),
        f"place from {layout.first} to {last}": pl.col("place").is_between(layout.first, last),
    }
    shown = pl.lit(1) if layout.rows == "shown documents" else pl.col("impressions")
    rules |= {"impressions from 0": shown >= 0, "clicks from 0": clicks >= 0, MORE_CLICKS: clicks <= shown}
    if layout.rows == "shown documents":
        rules[layout.columns["page"]] = pl.col("page").is_not_null()
    if "time" in table.columns:
        rules[_TIME] = pl.col("time").is_not_null()
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


def _time(column: pl.Series) -> pl.Series:
    """Return times of text that has a number, or a date with a time as of ISO 8601, as numbers; null where it has none.

    A time without a zone is one of UTC. Where half of the times or more are numbers, the others must be, too.
    """
    numbers = column.cast(pl.Float64, strict=False)
    if 2 * (numbers.null_count() - column.null_count()) <= len(column) - column.null_count():
        return numbers
    plain = column.str.strip_chars().str.replace(r"^(\d{4}-\d\d-\d\d)$", "${1}T00:00:00")
    plain = plain.str.replace(r"^(\d{4}-\d\d-\d\d) +", "${1}T").str.replace(r" *(?:UTC|z)$", "Z")
    plain = plain.str.replace(r"(T\d\d:\d\d(?::\d\d(?:\.\d+)?)?)$", "${1}Z")
    plain = plain.str.replace(r"(T\d\d:\d\d)(Z|[+-])", "${1}:00${2}").str.replace(r"([+-]\d\d)(\d\d)$", "${1}:${2}")
    return plain.str.to_datetime("%+", strict=False, time_zone="UTC", time_unit="us").dt.epoch("us").cast(pl.Float64)


def _pages(
    session: Int[np.ndarray, "N"], query: Int[np.ndarray, "N"]
) -> tuple[Int[np.ndarray, "N"], Int[np.ndarray, "S"]]:
    """Return the number of the page of each row, by first rows, and the first row of each page: a session has a page
    for each query."""
    of_session = np.zeros(session.max(initial=0) + 1, np.int32)
    of_session[session] = query
    if (of_session[session] == query).all():
        page = _dense(session)[0]
    else:
        page = _dense(session * (np.int64(query.max()) + 1) + query)[0]
    first = np.zeros(int(page.max()) + 1, np.int32)
    first[page[::-1]] = np.arange(len(page), dtype=np.int32)[::-1]
    order = np.argsort(first)
    number = np.empty(len(order), np.int32)
    number[order] = np.arange(len(order), dtype=np.int32)
    return number[page], first[order]


def _of_pages(
    document_at: Int[np.ndarray, "S K"],
    clicked_at: Bool[np.ndarray, "S K"],
    query: Int[np.ndarray, "S"],
    time: Float[np.ndarray, "S"] | None,
    ids: dict[str, _Ids],
    repeats: int,
    path: Path,
) -> ClickLog:
    """Return the log of pages, given in the order of the file; ValueError if none has a document."""
    order = np.arange(len(query)) if time is None else np.argsort(time, kind="stable")
    order = order[document_at[order].max(1) >= 0]
    if not len(order):
        raise ValueError(f"{path} has no row that can be used")
    document_at, clicked_at = document_at[order], clicked_at[order]
    shown = document_at >= 0
    places = int(np.flatnonzero(shown.any(0)).max()) + 1
    document_at, clicked_at, shown = document_at[:, :places], clicked_at[:, :places], shown[:, :places]
    row, log = _documents(np.repeat(query[order], shown.sum(1)), document_at[shown], ids)
    document_at[shown] = row
    impressions, clicks = _summed(len(log.query), document_at, clicked_at)
    return replace(log, impressions=impressions, clicks=clicks, pages=(document_at, clicked_at), repeats=repeats)


def _summed(
    documents: int, document_at: Int[np.ndarray, "S K"], clicked_at: Bool[np.ndarray, "S K"]
) -> tuple[Float[np.ndarray, "D K"], Float[np.ndarray, "D K"]]:
    """Return impressions and clicks of documents by place."""
    places = document_at.shape[1]
    impressions, clicks = np.empty((documents, places)), np.empty((documents, places))
    for place in range(places):
        document, clicked = document_at[:, place], clicked_at[:, place]
        there = document >= 0
        impressions[:, place] = np.bincount(document[there], minlength=documents)
        clicks[:, place] = np.bincount(document[there & clicked], minlength=documents)
    return impressions, clicks


def _documents(
    query: Int[np.ndarray, "N"], document: Int[np.ndarray, "N"], ids: dict[str, _Ids]
) -> tuple[Int[np.ndarray, "N"], ClickLog]:
    """Return the row of each pair of query and document, and a log of these rows without counts: documents are sorted
    by query."""
    query_number, query_ids = ids["query"].in_order(query)
    number, names = ids["document"].in_order(document)
    key = query_number[query].astype(np.int64)  # in place: a log may have a hundred million rows
    key *= len(names)
    key += number[document]
    row, pairs = _dense(key)
    document_ids = [names[number] for number in (pairs % len(names)).tolist()]
    none = np.zeros((len(pairs), 0))
    return row, ClickLog(pairs // len(names), none, none, query_ids=query_ids, document_ids=document_ids)


def _dense(keys: Int[np.ndarray, "N"]) -> tuple[Int[np.ndarray, "N"], Int[np.ndarray, "U"]]:
    """Return the number of each key in their order, and the different keys."""
    largest = int(keys.max(initial=0))
    if largest <= len(keys):
        there = np.zeros(largest + 1, np.bool_)
        there[keys] = True
        return (np.cumsum(there, dtype=np.int32) - 1)[keys], np.flatnonzero(there)
    blocks = [slice(begin, begin + _BLOCK) for begin in range(0, len(keys), _BLOCK)]
    unique = np.unique(np.concatenate([pl.Series(keys[block]).unique().to_numpy() for block in blocks]))
    number = np.empty(len(keys), np.int32)
    for block in blocks:
        number[block] = np.searchsorted(unique, keys[block])
    return number, unique


def _joined(parts: Iterable[list[np.ndarray]]) -> Iterator[np.ndarray]:
    """Yield the parts of each column one behind the other, which are then no longer kept."""
    for column in parts:
        yield np.concatenate(column)
        column.clear()
