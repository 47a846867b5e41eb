"""Reads LETOR text, `grade qid:Q 1:v 2:v ... # comment` (SVMlight with query ids), plain or gzipped, into arrays.

Dense lines are a table with a column for each feature (`_columns`). In general a chunk of the file is to polars a table
of two columns of numbers: rows end at blanks, columns at colons; the grade and query that begin a line become the pair
-1:0, so sparse files are read too. What is not exactly of the form goes to `diagnose`, which names the line. Values
equal sklearn's `load_svmlight_file` cast to float32, bit by bit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from io import BufferedIOBase
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path

import numpy as np
import polars as pl

from ol2r_cli.dataset.diagnose import LARGEST_FEATURE, LARGEST_FLOAT32, LARGEST_GRADE, diagnose
from ol2r_cli.dataset.text_file import open_text
from ol2r_cli.shapes import Float, Int

PARSER_VERSION = 1  # raise it when the same file gives other arrays than before
CHUNK = 1 << 23  # bytes of text that are converted at once
WORKERS = 2
COMMENT = re.compile(rb"#[^\n]*")
BLANK_LINE = re.compile(rb"\n *(?=\n|\Z)")
HEAD = re.compile(rb"\n *([0-9]{1,3})(?:\.0*)? +qid:([^ \n:]+)(?![^ \n])")  # grade and query
LINE_MARK = b" -1:0"  # takes the place of the head of a line


@dataclass(frozen=True)
class Documents:
    """The content of one file: query q owns rows offsets[q] .. offsets[q + 1]."""

    features: Float[np.ndarray, "N F"]  # float32; F is the largest id seen
    labels: Int[np.ndarray, "N"]  # int8
    offsets: Int[np.ndarray, "Q1"]  # int64, from 0 to N
    query_ids: list[str]


@dataclass(frozen=True)
class _Chunk:
    features: Float[np.ndarray, "n f"]
    labels: Int[np.ndarray, "n"]
    runs: list[tuple[str, int]]  # query id and number of consecutive documents


class _Malformed(Exception):
    """Something in a chunk is not as it should be; which line, `diagnose` finds out."""


def parse(path: Path, features: int | None = None, overflow: str = "error") -> Documents:
    """The documents of a file in file order; features that a line leaves out are 0.

    features: the largest feature id allowed, null for any. overflow: what to do with a value beyond the range of
    float32, `error` or `zero` (some publishers write 1.8e308 for "unknown"). NaN is always an error.
    Raises DataError with file and line for anything that is not of the form.
    """
    if overflow not in ("error", "zero"):
        raise ValueError(f"dataset.overflow must be 'error' or 'zero', got {overflow!r}")
    try:
        with open_text(path) as file, ThreadPoolExecutor(WORKERS) as pool:
            return _join(list(_in_order(pool, file, features, overflow)))
    except (_Malformed, pl.exceptions.PolarsError):
        with open_text(path) as file:
            raise diagnose(file, str(path), features, overflow) from None


def _in_order(pool: ThreadPoolExecutor, file: BufferedIOBase, features: int | None, overflow: str) -> Iterator[_Chunk]:
    """Chunks are converted by several threads but never further ahead than there are threads, to bound memory."""
    texts = iter(lambda: file.read(CHUNK) + file.readline(), b"")
    running = [pool.submit(_convert, text, features, overflow) for text in islice(texts, WORKERS)]
    while running:
        yield running.pop(0).result()
        running += [pool.submit(_convert, text, features, overflow) for text in islice(texts, 1)]


def _convert(text: bytes, limit: int | None, overflow: str) -> _Chunk:
    """The documents of some whole lines."""
    if b"#" in text:
        text = COMMENT.sub(b"", text)
    text = BLANK_LINE.sub(b"", b"\n" + text.replace(b"\t", b" ").replace(b"\r", b" ").rstrip())
    heads = HEAD.findall(text)
    if len(heads) != text.count(b"\n"):
        raise _Malformed  # a line without a grade or a query
    if not heads:
        return _Chunk(np.zeros((0, 0), np.float32), np.zeros(0, np.int8), [])
    dense = _columns(text, len(heads), limit)
    if dense is None:
        key, value = _tokens(HEAD.sub(LINE_MARK, text), text.count(b":"), len(heads))
        dense = _table(key, value, len(heads), limit)
    outside = np.abs(dense) > LARGEST_FLOAT32
    if outside.any():
        if overflow == "error":
            raise _Malformed
        dense = np.where(outside, 0.0, dense)
    labels = np.array([grade for grade, _ in heads]).astype(np.int16)
    if labels.max() > LARGEST_GRADE:
        raise _Malformed
    runs = [(query.decode(errors="backslashreplace"), len(list(run))) for query, run in groupby(q for _, q in heads)]
    return _Chunk(dense.astype(np.float32), labels.astype(np.int8), runs)


def _columns(text: bytes, lines: int, limit: int | None) -> Float[np.ndarray, "n f"] | None:
    """Features by line, float64, if every line has the features 1, 2, .., F in single-blank columns, else None.

    Half the work of the general way, which is left to find out what is the matter where a column does not fit: each
    must hold `id:number` in every line.
    """
    first = text[1 : text.find(b"\n", 1)].split(b" ") if lines > 1 else []
    ids = range(1, sum(b":" in token for token in first))
    if not ids or text.count(b":") != lines * (len(ids) + 1) or (limit is not None and len(ids) > limit):
        return None
    names = ["grade", "query", *map(str, ids), *(["end"] if first[-1] == b"" else [])]
    schema = dict.fromkeys(names, pl.String)
    try:
        table = pl.read_csv(text[1:], separator=" ", has_header=False, quote_char=None, schema=schema)
        numbers = table.select(pl.col(str(i)).str.strip_prefix(f"{i}:").cast(pl.Float64) for i in ids)
    except pl.exceptions.PolarsError:
        return None
    if "end" in names and table["end"].fill_null("").ne("").any():  # a value torn in two has moved the others
        return None
    dense = numbers.to_numpy()
    return dense if dense.shape == (lines, len(ids)) and not np.isnan(dense).any() else None


def _tokens(text: bytes, colons: int, lines: int) -> tuple[Float[np.ndarray, "t"], Float[np.ndarray, "t"]]:
    """Key and value of every token, line marks included; `colons` is what a sound text has in heads and features."""
    table = pl.read_csv(
        text,
        separator=":",
        eol_char=" ",
        has_header=False,
        quote_char=None,
        schema={"key": pl.Float64, "value": pl.Float64},
        ignore_errors=True,  # what is not a number becomes null, here NaN
        missing_columns="insert",
        extra_columns="ignore",
    )
    key, value = table["key"].to_numpy(), table["value"].to_numpy()
    number = ~(np.isnan(key) | np.isnan(value))
    tokens = np.count_nonzero(number)
    if tokens < len(number):
        key, value = key[number], value[number]
    # Every token is a pair of numbers, has one colon, and none but the marks looks like a mark.
    if tokens != _count_tokens(text) or colons != tokens or np.count_nonzero(key == -1) != lines:
        raise _Malformed
    return key, value


def _count_tokens(text: bytes) -> int:
    """How many runs of characters other than blanks there are; the text begins with a blank."""
    blank = np.frombuffer(text, np.uint8) == ord(" ")
    return int(np.count_nonzero(blank[:-1] > blank[1:]))


def _table(
    key: Float[np.ndarray, "t"], value: Float[np.ndarray, "t"], lines: int, limit: int | None
) -> Float[np.ndarray, "n f"]:
    """Features by line, float64. Ids are whole numbers from 1 that ascend within a line."""
    width = len(key) // lines
    if len(key) == lines * width and (key.reshape(lines, width) == [-1, *range(1, width)]).all():
        if limit is not None and width - 1 > limit:
            raise _Malformed
        return value.reshape(lines, width)[:, 1:]
    mark = key == -1
    row = (np.cumsum(mark, dtype=np.int32) - 1)[~mark]
    key, value = key[~mark], value[~mark]
    largest = key.max(initial=0)
    if key.min(initial=1) < 1 or largest > (LARGEST_FEATURE if limit is None else limit):
        raise _Malformed
    ids = key.astype(np.int32)
    if not (np.array_equal(ids, key) and ((ids[1:] > ids[:-1]) | (row[1:] != row[:-1])).all()):
        raise _Malformed
    dense = np.zeros((lines, int(largest)))
    dense[row, ids - 1] = value
    return dense


def _join(chunks: list[_Chunk]) -> Documents:
    """One block of all chunks, which are released as they are copied; a query may continue over a seam."""
    rows = sum(len(chunk.labels) for chunk in chunks)
    features = np.zeros((rows, max((chunk.features.shape[1] for chunk in chunks), default=0)), np.float32)
    labels = np.zeros(rows, np.int8)
    runs: list[tuple[str, int]] = []
    start = 0
    chunks.reverse()
    while chunks:
        chunk = chunks.pop()
        rows_here = slice(start, start := start + len(chunk.labels))
        features[rows_here, : chunk.features.shape[1]] = chunk.features
        labels[rows_here] = chunk.labels
        runs += chunk.runs
    query_ids, lengths = [], []
    for identity, group in groupby(runs, key=itemgetter(0)):
        query_ids.append(identity)
        lengths.append(sum(length for _, length in group))
    if not query_ids or len(set(query_ids)) < len(query_ids):
        raise _Malformed
    return Documents(features, labels, np.cumsum([0, *lengths], dtype=np.int64), query_ids)
