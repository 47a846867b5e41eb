"""A parser for LETOR text: SVMlight lines with query ids, plain or gzipped.

A compiled loop (`loops/letor_text.py`) reads chunks of whole lines. Where it is not sure of one, or without numba,
`_strict` reads the file line by line, ten times as slowly, and names the first defect. It defines what is read.
"""

from __future__ import annotations

import codecs
import gzip
import re
import zlib
from array import array
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedIOBase
from itertools import groupby
from pathlib import Path
from typing import Annotated, Literal

import numpy as np

from ol2r_cli import loops
from ol2r_cli.config.ranges import Range
from ol2r_cli.dataset.table import LARGEST_INT8, setting
from ol2r_cli.tensor.shapes import Float, Int

PARSER_VERSION = 1  # raise it when the same file gives other arrays than before
CHUNK = 1 << 23  # bytes of text that are converted at once
BLOCK = 8192  # documents, or one query if that is longer

Missing = Literal["error", "minimum"] | Annotated[float, Range(-1e38, 1e38)]  # what NULL is
LARGEST_FLOAT32 = 3.4028234663852886e38
LARGEST_FEATURE = 100_000  # the table is dense

_GRADE = re.compile(rb"([0-9]{1,3})(\.0*)?")
_NUMBER = re.compile(rb"[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|inf(inity)?)", re.IGNORECASE)
_BYTE_ORDER_MARKS = codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE
_Chunk = tuple[Float[np.ndarray, "n f"], Int[np.ndarray, "n"], list[str]]  # features, grades, queries


class DataError(ValueError):
    """A data file is malformed. The message is one line: file, line number, what was found and what was expected."""


class _Unsure(Exception):
    """The strict parser has to read the file."""


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
    """Return the documents of a file, in its order; a feature that a line leaves out is 0.

    `features` is the largest feature id allowed, None for any. `overflow` says what a value beyond the range of float32
    is: an `error`, or `zero` (some publishers write 1.8e308 for "unknown"). `missing` says what the value NULL is: an
    `error`, a number, or the `minimum` of the feature over the documents of the query, 0 where none has a value. NaN is
    always an error. Raises DataError for the first defect of the file.
    """
    try:
        documents = _fast(path, features, overflow)
    except _Unsure:
        with open_text(path) as file:
            documents = _joined([_strict(file, str(path), features, overflow, missing)])
    for rows, start in blocks(documents.offsets) if missing == "minimum" else ():
        block = documents.features[rows]
        if (holes := np.isnan(block)).any():
            low = np.nan_to_num(np.fmin.reduceat(block, start))
            block[holes] = np.repeat(low, np.diff(start, append=len(block)), 0)[holes]
    return documents


@contextmanager
def open_text(path: Path) -> Iterator[BufferedIOBase]:
    """Open a plain or gzipped file, which its first two bytes distinguish; a damaged gzip file raises DataError."""
    with path.open("rb") as raw:
        gzipped = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        if not gzipped:
            yield raw
            return
        try:
            with gzip.open(raw) as file:
                yield file
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            expected = "a complete one: copy or download it again"
            raise DataError(f"{path}: found a damaged gzip file ({error}), expected {expected}") from None


def blocks(offsets: Int[np.ndarray, "Q1"]) -> Iterator[tuple[slice, Int[np.ndarray, "q"]]]:
    """Yield ranges of about BLOCK rows of whole queries, each with the starts of its queries relative to the range."""
    first = 0
    while first < len(offsets) - 1:
        last = max(first + 1, int(np.searchsorted(offsets, offsets[first] + BLOCK, "right")) - 1)
        yield slice(int(offsets[first]), int(offsets[last])), offsets[first:last] - offsets[first]
        first = last


def _fast(path: Path, features: int | None, overflow: str) -> Documents:
    if not loops.available():
        raise _Unsure
    with open_text(path) as file:
        texts = iter(lambda: file.read(CHUNK) + file.readline(), b"")
        return _joined([_converted(text, features or LARGEST_FEATURE, overflow) for text in texts])


def _converted(text: bytes, most: int, overflow: str) -> _Chunk:
    """Convert whole lines."""
    from ol2r_cli.loops.letor_text import read  # imports numba

    text = text if text.endswith(b"\n") else text + b"\n"
    lines, tokens = text.count(b"\n"), text.count(b":")
    grades, query, row = np.empty(lines, np.int8), np.empty((lines, 2), np.int64), np.empty(tokens, np.int64)
    key, value, inexact = np.empty(tokens, np.int64), np.empty(tokens), np.empty((tokens, 3), np.int64)
    arrays = grades, query, row, key, value, inexact
    documents, count, inexacts = read(np.frombuffer(text, np.uint8), most, *arrays)
    if documents < 0:
        raise _Unsure
    for number, begin, end in inexact[:inexacts].tolist():
        value[number] = float(text[begin:end])
    value = value[:count]
    outside = np.abs(value) > LARGEST_FLOAT32
    if outside.any() and overflow == "error":
        raise _Unsure
    value[outside] = 0
    try:
        queries = [text[begin:end].decode() for begin, end in query[:documents].tolist()]
    except UnicodeDecodeError:
        raise _Unsure from None
    return _dense(row[:count], key[:count], value, documents), grades[:documents], queries


def _dense(row: np.ndarray, key: np.ndarray, value: np.ndarray, documents: int) -> Float[np.ndarray, "n f"]:
    dense = np.zeros((documents, int(key.max(initial=0))), np.float32)
    dense[row, key - 1] = value
    return dense


def _joined(chunks: list[_Chunk]) -> Documents:
    """Concatenate the chunks, which are released as they are copied; a query may continue in the next chunk."""
    labels = np.concatenate([grades for _, grades, _ in chunks]) if chunks else np.zeros(0, np.int8)
    runs = [(query, len(list(run))) for query, run in groupby(query for *_, queries in chunks for query in queries)]
    query_ids = [query for query, _ in runs]
    if not query_ids or len(set(query_ids)) < len(query_ids):
        raise _Unsure
    features = np.zeros((len(labels), max(table.shape[1] for table, *_ in chunks)), np.float32)
    start = 0
    chunks.reverse()
    while chunks:
        table = chunks.pop()[0]
        features[start : start + len(table), : table.shape[1]] = table
        start += len(table)
    return Documents(features, labels, np.cumsum([0, *(length for _, length in runs)], dtype=np.int64), query_ids)


def _strict(lines: Iterable[bytes], name: str, features: int | None, overflow: str, missing: float | str) -> _Chunk:
    """Read line by line; DataError for the first defect. A minimum is NaN until the query is complete."""
    grades, queries, began = array("b"), list[str](), dict[str, int]()
    row, key, value = array("l"), array("l"), array("d")
    number = 1
    for number, line in enumerate(lines, 1):
        tokens = re.findall(rb"[^ \t\r\n]+", line.split(b"#", 1)[0])
        if not tokens:
            continue
        try:
            grade, query = _head(line, tokens)
            if began.setdefault(query, number) != number and query != queries[-1]:
                again = f"{f'qid:{query}'[:40]!r} again, after other queries (it began at line {began[query]})"
                raise _defect(again, "the documents of a query on consecutive lines")
            previous = 0
            for token in tokens[2:]:
                previous, text = _feature(token, previous, features)
                row.append(len(grades))
                key.append(previous)
                value.append(_value(previous, text, overflow, missing))
        except DataError as defect:
            raise DataError(f"{name}:{number}: {defect}") from None
        queries.append(query)
        grades.append(grade)
    if not grades:
        raise DataError(f"{name}:{number}: {_defect('no document', 'lines of the form 2 qid:10 1:0.5 2:0.25')}")
    return _dense(np.array(row), np.array(key), np.array(value), len(grades)), np.array(grades), queries


def _defect(found: str, expected: str) -> DataError:
    return DataError(f"found {found}, expected {expected}")


def _head(line: bytes, tokens: list[bytes]) -> tuple[int, str]:
    """Return grade and query of a line."""
    if line.startswith(_BYTE_ORDER_MARKS):  # that of UTF-32 begins with one of UTF-16
        typed = r"sed 's/^\xEF\xBB\xBF//' FILE > NEW, or for another encoding: iconv -f UTF-16 -t UTF-8 FILE > NEW"
        raise _defect("a byte order mark", f"UTF-8 text without one: type {typed}")
    grade = _GRADE.fullmatch(tokens[0])
    if grade is None or int(grade[1]) > LARGEST_INT8:
        raise _defect(f"grade {_shown(tokens[0])}", f"a whole number from 0 to {LARGEST_INT8}")
    query = tokens[1] if len(tokens) > 1 else b""
    if not query.startswith(b"qid:") or query.count(b":") > 1 or query == b"qid:":
        raise _defect(_shown(query) if query else "the end of the line", "qid:<query> after the grade")
    try:
        if b"\0" not in query:  # numpy cuts a NUL off the end of a text
            return int(grade[1]), query[4:].decode()
    except UnicodeDecodeError:
        pass
    raise _defect(f"query id {query[4:44]!r}", "UTF-8 text without NUL")


def _feature(token: bytes, previous: int, most: int | None) -> tuple[int, bytes]:
    """Return id and text of the value; `previous` is the id before it in the line."""
    digits, colon, text = token.partition(b":")
    if not colon or not digits.isdigit():
        raise _defect(_shown(token), "<feature id>:<value>")
    feature = int(digits.lstrip(b"0")[:20] or b"0")  # int refuses thousands of digits; 20 are beyond every limit
    limit, rule = (LARGEST_FEATURE, "") if most is None else (most, f" ({setting('features')})")
    if feature < 1:
        raise _defect("feature id 0", "feature ids that start at 1")
    if feature > limit:
        raise _defect(f"feature id {feature}", f"at most {limit}{rule}")
    if feature <= previous:
        raise _defect(f"feature id {feature} after {previous}", "feature ids in ascending order, each at most once")
    return feature, text


def _value(feature: int, text: bytes, overflow: str, missing: float | str) -> float:
    if text == b"NULL":
        if missing == "error":
            name = setting("missing")
            expected = f"a number: {name}=minimum or {name}=0 reads NULL as one"
            raise _defect(f"value 'NULL' of feature {feature}", expected)
        return float("nan") if missing == "minimum" else float(missing)
    if not _NUMBER.fullmatch(text):  # `float` accepts 1_000 and form feeds too
        raise _defect(f"value {_shown(text)} of feature {feature}", "a number")
    if abs(number := float(text)) <= LARGEST_FLOAT32:
        return number
    if overflow == "error":
        raise _defect(f"value {_shown(text)} of feature {feature}", "a finite number within the range of float32")
    return 0.0


def _shown(text: bytes) -> str:
    """Return the text in quotes, cut to 40 characters."""
    return repr(text[:40].decode("utf-8", "replace")) + ("..." if len(text) > 40 else "")
