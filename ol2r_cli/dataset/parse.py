"""A parser for LETOR text: SVMlight lines with query ids, plain or gzipped.

polars converts large chunks of lines at once. When a chunk is malformed, `diagnose` (`defects.py`) reads the file
again, line by line, to name the first defect.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedIOBase
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import polars as pl

from ol2r_cli.config.ranges import Range
from ol2r_cli.dataset.defects import LARGEST_FEATURE, LARGEST_FLOAT32, LARGEST_GRADE, data_error, diagnose
from ol2r_cli.dataset.normalise import blocks
from ol2r_cli.tensor.shapes import Float, Int

PARSER_VERSION = 1  # raise it when the same file gives other arrays than before
CHUNK = 1 << 23  # bytes of text that are converted at once
WORKERS = 2

Missing = Literal["error", "minimum"] | Annotated[float, Range(-1e38, 1e38)]  # what NULL is

_COMMENT = re.compile(rb"#[^\n]*")
_BLANK_LINE = re.compile(rb"\n *(?=\n|\Z)")
_HEAD = re.compile(rb"\n *([0-9]{1,3})(?:\.0*)? +qid:([^ \n:\0]+)(?![^ \n])")  # grade and query
_NULL = re.compile(rb"( [0-9]+:)NULL(?=[ \n]|\Z)")  # a feature without a value
_LINE_MARK = b" -1:0"  # replaces the head of a line


@dataclass(frozen=True)
class Documents:
    """The documents of one file, in its order: query q owns rows offsets[q] .. offsets[q + 1]."""

    features: Float[np.ndarray, "N F"]  # float32; F is the largest id seen
    labels: Int[np.ndarray, "N"]  # int8
    offsets: Int[np.ndarray, "Q1"]  # int64, from 0 to N
    query_ids: list[str]


def parse(
    path: Path, features: int | None = None, overflow: str = "error", missing: float | str = "error"
) -> Documents:
    """The documents of a file, in its order; a feature that a line leaves out is 0.

    `features` is the largest feature id allowed, None for any. `overflow` says what a value beyond the range of float32
    is: an `error`, or `zero` (some publishers write 1.8e308 for "unknown"). `missing` says what the value NULL is: an
    `error`, a number, or the `minimum` of the feature over the documents of the query, 0 where none has a value. NaN is
    always an error. Raises DataError for the first defect of the file.
    """
    try:
        with open_text(path) as file, ThreadPoolExecutor(WORKERS) as pool:
            documents = _join(list(_in_order(pool, file, features, overflow, missing)))
    except (_Malformed, pl.exceptions.PolarsError):
        with open_text(path) as file:
            raise diagnose(file, str(path), features, overflow, missing) from None
    if missing == "minimum":
        _fill(documents)
    return documents


@contextmanager
def open_text(path: Path) -> Iterator[BufferedIOBase]:
    """Opens a plain or gzipped file, which its first two bytes distinguish; a damaged gzip file raises DataError."""
    with path.open("rb") as raw:
        gzipped = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        if not gzipped:
            yield raw
            return
        with gzip.open(raw) as file:
            try:
                yield file
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                found, expected = f"a damaged gzip file ({error})", "a complete one: copy or download it again"
                raise data_error(str(path), _readable_lines(path) + 1, found, expected) from None


@dataclass(frozen=True)
class _Chunk:
    features: Float[np.ndarray, "n f"]
    labels: Int[np.ndarray, "n"]
    runs: list[tuple[str, int]]  # query id and number of consecutive documents


class _Malformed(Exception):
    """A chunk is malformed; `diagnose` finds the line."""


def _in_order(
    pool: ThreadPoolExecutor, file: BufferedIOBase, features: int | None, overflow: str, missing: float | str
) -> Iterator[_Chunk]:
    """Converts chunks in WORKERS threads, and never more than WORKERS chunks ahead, to bound memory."""
    texts = iter(lambda: file.read(CHUNK) + file.readline(), b"")
    running = [pool.submit(_convert, text, features, overflow, missing) for text in islice(texts, WORKERS)]
    while running:
        yield running.pop(0).result()
        running += [pool.submit(_convert, text, features, overflow, missing) for text in islice(texts, 1)]


def _convert(text: bytes, limit: int | None, overflow: str, missing: float | str) -> _Chunk:
    """Converts whole lines; `limit` is the largest feature id allowed. A minimum is NaN until the query is complete."""
    if b"#" in text:
        text = _COMMENT.sub(b"", text)
    text = _BLANK_LINE.sub(b"", b"\n" + text.replace(b"\t", b" ").replace(b"\r", b" ").rstrip(b" \n"))
    heads = _HEAD.findall(text)
    if len(heads) != text.count(b"\n"):
        raise _Malformed  # a line without a grade or a query
    if not heads:
        return _Chunk(np.zeros((0, 0), np.float32), np.zeros(0, np.int8), [])
    holes = 0
    if missing == "minimum":
        text, holes = _NULL.subn(rb"\1nan", text)
    elif missing != "error":
        text = _NULL.sub(rb"\g<1>" + repr(float(missing)).encode(), text)
    dense = _columns(text, len(heads), limit, holes)
    if dense is None:
        key, value = _tokens(_HEAD.sub(_LINE_MARK, text), text.count(b":"), len(heads), holes)
        dense = _table(key, value, len(heads), limit)
    outside = np.abs(dense) > LARGEST_FLOAT32
    if outside.any():
        if overflow == "error":
            raise _Malformed
        dense = np.where(outside, 0.0, dense)
    labels = np.array([grade for grade, _ in heads]).astype(np.int16)
    if labels.max() > LARGEST_GRADE:
        raise _Malformed
    try:
        runs = [(query.decode(), len(list(run))) for query, run in groupby(q for _, q in heads)]
    except UnicodeDecodeError:
        raise _Malformed from None
    return _Chunk(dense.astype(np.float32), labels.astype(np.int8), runs)


def _columns(text: bytes, lines: int, limit: int | None, holes: int) -> Float[np.ndarray, "n f"] | None:
    """The features by line, float64, of lines that all have the features 1, 2, .., F, separated by single blanks.

    `holes` is the number of values that are NaN in place of NULL; every other one is a defect. None for other text,
    which `_tokens` and `_table` convert or reject at twice the cost.
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
    if "end" in names and table["end"].fill_null("").ne("").any():  # a value with a blank in it has shifted the others
        return None
    dense = numbers.to_numpy()
    return dense if dense.shape == (lines, len(ids)) and np.count_nonzero(np.isnan(dense)) == holes else None


def _tokens(text: bytes, colons: int, lines: int, holes: int) -> tuple[Int[np.ndarray, "t"], Float[np.ndarray, "t"]]:
    """Key and value of every token, line marks included; `colons` counts those of the text, heads included.

    `holes` as in `_columns`.
    """
    if b" +" in text:  # polars takes +2 for a whole number; a value follows a colon, never a blank
        raise _Malformed
    table = pl.read_csv(
        text,
        separator=":",
        eol_char=" ",
        has_header=False,
        quote_char=None,
        schema={"key": pl.Int32, "value": pl.Float64},
        ignore_errors=True,  # other text than a number becomes null
        missing_columns="insert",
        extra_columns="ignore",
    )
    table = table.filter(pl.col("key").is_not_null() & pl.col("value").is_not_null())
    key, value, tokens = table["key"].to_numpy(), table["value"].to_numpy(), len(table)
    # In well-formed text every token is a pair of numbers with one colon, and only line marks have the key -1.
    if tokens != _count_tokens(text) or colons != tokens or np.count_nonzero(key == -1) != lines:
        raise _Malformed
    if np.count_nonzero(np.isnan(value)) != holes:
        raise _Malformed
    return key, value


def _count_tokens(text: bytes) -> int:
    """The number of tokens, which blanks separate; the text begins with a blank."""
    blank = np.frombuffer(text, np.uint8) == ord(" ")
    return int(np.count_nonzero(blank[:-1] > blank[1:]))


def _table(
    key: Int[np.ndarray, "t"], value: Float[np.ndarray, "t"], lines: int, limit: int | None
) -> Float[np.ndarray, "n f"]:
    """The features by line, float64; _Malformed unless ids are at least 1 and ascend within a line."""
    width = len(key) // lines
    ids = np.array([-1, *range(1, width)], key.dtype)
    if len(key) == lines * width and (key.reshape(lines, width) == ids).all():
        if limit is not None and width - 1 > limit:
            raise _Malformed
        return value.reshape(lines, width)[:, 1:]
    mark = key == -1
    row = (np.cumsum(mark, dtype=np.int32) - 1)[~mark]
    key, value = key[~mark], value[~mark]
    largest = key.max(initial=0)
    if key.min(initial=1) < 1 or largest > (LARGEST_FEATURE if limit is None else limit):
        raise _Malformed
    if not ((key[1:] > key[:-1]) | (row[1:] != row[:-1])).all():
        raise _Malformed
    dense = np.zeros((lines, int(largest)))
    dense[row, key - 1] = value
    return dense


def _join(chunks: list[_Chunk]) -> Documents:
    """Concatenates the chunks, which it releases as it copies them; a query may continue in the next chunk."""
    rows = sum(len(chunk.labels) for chunk in chunks)
    features = np.zeros((rows, max((chunk.features.shape[1] for chunk in chunks), default=0)), np.float32)
    labels = np.zeros(rows, np.int8)
    runs: list[tuple[str, int]] = []
    start = 0
    chunks.reverse()
    while chunks:
        chunk = chunks.pop()
        target = slice(start, start := start + len(chunk.labels))
        features[target, : chunk.features.shape[1]] = chunk.features
        labels[target] = chunk.labels
        runs += chunk.runs
    query_ids, lengths = [], []
    for query_id, parts in groupby(runs, key=itemgetter(0)):
        query_ids.append(query_id)
        lengths.append(sum(length for _, length in parts))
    if not query_ids or len(set(query_ids)) < len(query_ids):
        raise _Malformed
    return Documents(features, labels, np.cumsum([0, *lengths], dtype=np.int64), query_ids)


def _fill(documents: Documents) -> None:
    """Replaces NaN by the minimum of the feature over the documents of the query that have a value, and by 0 if none
    has."""
    for rows, start in blocks(documents.offsets):
        block = documents.features[rows]
        if not (holes := np.isnan(block)).any():
            continue
        low = np.nan_to_num(np.fmin.reduceat(block, start))
        block[holes] = np.repeat(low, np.diff(start, append=len(block)), 0)[holes]


def _readable_lines(path: Path) -> int:
    """The number of lines that can be read from a damaged gzip file."""
    lines = 0
    try:
        with gzip.open(path) as file:
            for _ in file:
                lines += 1
    except (EOFError, zlib.error, gzip.BadGzipFile):
        pass
    return lines
