"""A parser for LETOR text: SVMlight lines with query ids, plain or gzipped.

A compiled loop (`loops/letor_text.py`) reads chunks of whole lines. Where it is not sure of one, or without numba,
`_strict` reads the file line by line, ten times as slowly, and names the first defect. It defines what is read.
"""

from __future__ import annotations

import codecs
import gzip
import re
import shlex
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
from ol2r_cli.dataset.table import LARGEST_GRADE
from ol2r_cli.tensor.shapes import Float, Int

PARSER_VERSION = 1  # raise it when the same file gives other arrays than before
CHUNK = 1 << 23  # bytes of text that are converted at once
BLOCK = 8192  # documents, or one query if that is longer

Missing = Literal["error", "minimum"] | Annotated[float, Range(-1e38, 1e38)]  # what NULL is
LARGEST_FLOAT32 = 3.4028234663852886e38
LARGEST_FEATURE = 100_000  # the table is dense
# A value is lost if rounding it to single precision moves it by more than this share of the range of the feature in its
# query, and a feature is rounded off if that happens in more than this share of the queries in which it varies.
LOST, OFTEN = 1e-3, 1e-2
_CELLS = 1 << 20  # values that are compared at once: they should fit a cache

_GRADE = re.compile(rb"([0-9]{1,3})(\.0*)?")
_NUMBER = re.compile(rb"[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|inf(inity)?)", re.IGNORECASE)
_COMPRESSED = {  # the first bytes of a file, and what writes its content to stdout
    b"BZh": "bzip2 -dc",
    b"\xfd7zXZ\0": "xz -dc",
    b"\x28\xb5\x2f\xfd": "zstd -dc",
    b"PK\3\4": "unzip -p",
    b"7z\xbc\xaf\x27\x1c": "7z x -so",
    b"\x1f\x9d": "uncompress -c",
}
_BYTE_ORDER_MARKS = codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE
# Features, grades, queries, and the counts of `_rounding`.
_Chunk = tuple[Float[np.ndarray, "n f"], Int[np.ndarray, "n"], list[str], Int[np.ndarray, "2 f"]]


class DataError(ValueError):
    """A data file is malformed. The message is one line: file, line number, what was found and what was expected."""


class _Unsure(Exception):
    """The strict parser has to read the file."""


@dataclass(frozen=True)
class ParsedFile:
    """The documents of one file, in its order: query q owns rows offsets[q] .. offsets[q + 1]."""

    features: Float[np.ndarray, "N F"]  # float32; F is the largest id seen
    labels: Int[np.ndarray, "N"]  # int8
    offsets: Int[np.ndarray, "Q1"]  # int64, from 0 to N
    query_ids: list[str]
    rounding: Int[np.ndarray, "2 F"]  # queries in which each feature varies, and in which float32 loses a value of it


def rounded_off(parts: Iterable[ParsedFile]) -> list[int]:
    """Return the ids of features that float32 does not hold: that lose a value in one of a hundred queries or more."""
    counts = np.zeros((2, 0), np.int64)
    for part in parts:
        wider = max(counts.shape[1], part.rounding.shape[1])
        counts = _padded(counts, wider) + _padded(part.rounding, wider)
    return _often_lost(counts)


def rounded_columns(features: Float[np.ndarray, "N F"], offsets: Int[np.ndarray, "Q1"]) -> list[int]:
    """Return the same of a table of float64: the ids, from 1, of columns that float32 does not hold."""
    row, column = np.indices(features.shape).reshape(2, -1)
    with np.errstate(over="ignore"):
        single = features.astype(np.float32)
    return _often_lost(_rounding(row, column + 1, features.ravel(), single, offsets))


def _often_lost(counts: Int[np.ndarray, "2 F"]) -> list[int]:
    return (1 + np.flatnonzero(counts[1] > OFTEN * counts[0])).tolist()


def parse(
    path: Path, features: int | None = None, overflow: str = "error", missing: float | str = "error"
) -> ParsedFile:
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
    """Open a plain or gzipped file, which its first bytes distinguish.

    DataError for a damaged gzip file, and for one that is compressed in another way.
    """
    with path.open("rb") as raw:
        first = raw.read(6)
        raw.seek(0)
        for beginning, command in _COMPRESSED.items():
            if first.startswith(beginning):
                expected = f"text, plain or by gzip: type {command} {shlex.quote(str(path))} > NEW"
                raise DataError(f"{path}: found a file that is compressed in another way, expected {expected}")
        if not first.startswith(b"\x1f\x8b"):
            yield raw
            return
        try:
            with gzip.open(raw) as file:
                yield file
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            expected = "a complete one: copy or download it again"
            raise DataError(f"{path}: found a damaged gzip file ({error}), expected {expected}") from None


def blocks(offsets: Int[np.ndarray, "Q1"], size: int | None = None) -> Iterator[tuple[slice, Int[np.ndarray, "q"]]]:
    """Yield ranges of whole queries, each with the starts of its queries relative to the range.

    A range has about `size` rows, BLOCK for None.
    """
    size = BLOCK if size is None else size
    first = 0
    while first < len(offsets) - 1:
        last = max(first + 1, int(np.searchsorted(offsets, offsets[first] + size, "right")) - 1)
        yield slice(int(offsets[first]), int(offsets[last])), offsets[first:last] - offsets[first]
        first = last


def _fast(path: Path, features: int | None, overflow: str) -> ParsedFile:
    if not loops.compiled():
        raise _Unsure
    from ol2r_cli.loops.letor_text import read  # imports numba

    chunks, most_features = [], features or LARGEST_FEATURE
    with open_text(path) as file:
        for lines in iter(lambda: file.read(CHUNK) + file.readline(), b""):
            text = lines if lines.endswith(b"\n") else lines + b"\n"
            most, tokens = text.count(b"\n"), text.count(b":")  # documents and features
            grades, query, row = np.empty(most, np.int8), np.empty((most, 2), np.int64), np.empty(tokens, np.int64)
            key, value, inexact = np.empty(tokens, np.int64), np.empty(tokens), np.empty((tokens, 3), np.int64)
            arrays = grades, query, row, key, value, inexact
            documents, count, inexacts = read(np.frombuffer(text, np.uint8), LARGEST_GRADE, most_features, *arrays)
            if documents < 0:
                raise _Unsure
            for number, begin, end in inexact[:inexacts].tolist():
                value[number] = float(text[begin:end])
            outside = np.abs(value[:count]) > LARGEST_FLOAT32
            if outside.any() and overflow == "error":
                raise _Unsure
            value[:count][outside] = 0
            queries = [text[begin:end].decode() for begin, end in query[:documents].tolist()]
            chunks.append(_chunk(row[:count], key[:count], value[:count], grades[:documents], queries))
    return _joined(chunks)


def _chunk(row: np.ndarray, key: np.ndarray, value: np.ndarray, grades: np.ndarray, queries: list[str]) -> _Chunk:
    """Return the table of these values, which are in the order of the file. Keys are ids of features."""
    dense = np.zeros((len(grades), int(key.max(initial=0))), np.float32)
    dense[row, key - 1] = value
    return dense, grades, queries, _rounding(row, key, value, dense, _offsets(queries))


def _rounding(
    row: np.ndarray, key: np.ndarray, value: np.ndarray, dense: Float[np.ndarray, "n f"], offsets: Int[np.ndarray, "q1"]
) -> Int[np.ndarray, "2 f"]:
    """Return in how many queries each feature varies, and in how many the table in float32 has lost a value of it.

    A query that goes on in the next chunk is two. NaN, which is missing, is left out.
    """
    features = dense.shape[1]
    counts = np.zeros((2, features), np.int64)
    tiny = np.zeros(features, bool)
    tiny[key[(value != 0) & (np.abs(value) < np.finfo(np.float32).tiny)] - 1] = True
    for rows, start in blocks(offsets, max(1, _CELLS // max(1, features))):
        low, high = (limit.reduceat(dense[rows], start).astype(np.float64) for limit in (np.fmin, np.fmax))
        counts[0] += (high > low).sum(0)
        # Rounding moves a value by 2^-24 of its size at most, so that only values close to each other can be lost.
        size = np.maximum(np.abs(low), np.abs(high))
        close = tiny | ((size > 0) & (LOST * (high - low) < 2.0**-23 * size)).any(0)
        first, end = np.searchsorted(row, [rows.start, rows.stop])
        chosen = first + np.flatnonzero(close[key[first:end] - 1])
        exact = np.zeros((rows.stop - rows.start, close.sum()))
        exact[row[chosen] - rows.start, (close.cumsum() - 1)[key[chosen] - 1]] = value[chosen]
        extent = np.fmax.reduceat(exact, start) - np.fmin.reduceat(exact, start)
        error = np.fmax.reduceat(np.abs(exact - dense[rows][:, close]), start)
        counts[0, close] += (extent > 0).sum(0) - (high > low)[:, close].sum(0)
        counts[1, close] += ((extent > 0) & (error > LOST * extent)).sum(0)
    return counts


def _offsets(queries: list[str]) -> Int[np.ndarray, "q1"]:
    return np.cumsum([0, *(len(list(run)) for _, run in groupby(queries))], dtype=np.int64)


def _padded(counts: Int[np.ndarray, "2 f"], features: int) -> Int[np.ndarray, "2 F"]:
    return np.pad(counts, ((0, 0), (0, features - counts.shape[1])))


def _joined(chunks: list[_Chunk]) -> ParsedFile:
    """Concatenate the chunks, which are released as they are copied; a query may continue in the next chunk."""
    labels = np.concatenate([np.zeros(0, np.int8), *(grades for _, grades, *_ in chunks)])
    queries = [query for _, _, queries, _ in chunks for query in queries]
    offsets, query_ids = _offsets(queries), [query for query, _ in groupby(queries)]
    if not query_ids or len(set(query_ids)) < len(query_ids):
        raise _Unsure
    width = max(table.shape[1] for table, *_ in chunks)
    rounding = sum((_padded(counts, width) for *_, counts in chunks), np.zeros((2, width), np.int64))
    features = np.zeros((len(labels), width), np.float32)
    end = len(labels)
    while chunks:
        table = chunks.pop()[0]
        features[end - len(table) : end, : table.shape[1]] = table
        end -= len(table)
    return ParsedFile(features, labels, offsets, query_ids, rounding)


def _strict(lines: Iterable[bytes], name: str, features: int | None, overflow: str, missing: float | str) -> _Chunk:
    """Read line by line; DataError for the first defect. A minimum is NaN until the query is complete."""
    grades, queries, began = array("b"), list[str](), dict[str, int]()
    row, key, value = array("l"), array("l"), array("d")
    most, rule = (LARGEST_FEATURE, "") if features is None else (features, " (dataset.features)")
    reads_null = ": dataset.missing=minimum or dataset.missing=0 reads NULL as one"
    number = 1

    def defect(found: str, expected: str) -> DataError:
        return DataError(f"{name}:{number}: found {found}, expected {expected}")

    def bad_value(expected: str) -> DataError:
        return defect(f"value {_shown(text)} of feature {feature}", expected)

    for number, line in enumerate(lines, 1):
        tokens = re.findall(rb"[^ \t\r\n]+", line.split(b"#", 1)[0])
        if not tokens:
            continue
        if line.startswith(_BYTE_ORDER_MARKS):  # that of UTF-32 begins with one of UTF-16
            typed = r"sed 's/^\xEF\xBB\xBF//' FILE > NEW, or for another encoding: iconv -f UTF-16 -t UTF-8 FILE > NEW"
            raise defect("a byte order mark", f"UTF-8 text without one: type {typed}")
        grade, query = _GRADE.fullmatch(tokens[0]), tokens[1] if len(tokens) > 1 else b""
        if grade is None or int(grade[1]) > LARGEST_GRADE:
            raise defect(f"grade {_shown(tokens[0])}", f"a whole number from 0 to {LARGEST_GRADE}")
        if not query.startswith(b"qid:") or query.count(b":") > 1 or query == b"qid:":
            raise defect(_shown(query) if query else "the end of the line", "qid:<query> after the grade")
        try:
            queries.append(query[4:].decode())
        except UnicodeDecodeError:
            queries.append("\0")
        if "\0" in queries[-1]:  # numpy cuts a NUL off the end of a text
            raise defect(f"query id {query[4:44]!r}", "UTF-8 text without NUL")
        if began.setdefault(queries[-1], number) != number and queries[-1:] != queries[-2:-1]:
            again = f"{f'qid:{queries[-1]}'[:40]!r} again, after other queries"
            first = f" (it began at line {began[queries[-1]]})"
            raise defect(again + first, "the documents of a query on consecutive lines")
        previous = 0
        for token in tokens[2:]:
            digits, colon, text = token.partition(b":")
            if not colon or not digits.isdigit():
                raise defect(_shown(token), "<feature id>:<value>")
            feature = int(digits.lstrip(b"0")[:20] or b"0")  # int refuses thousands of digits
            if feature < 1:
                raise defect("feature id 0", "feature ids that start at 1")
            if feature > most:
                raise defect(f"feature id {feature}", f"at most {most}{rule}")
            if feature <= previous:
                each = "feature ids in ascending order, each at most once"
                raise defect(f"feature id {feature} after {previous}", each)
            if text == b"NULL" and missing != "error":
                content = np.nan if missing == "minimum" else float(missing)
            elif not _NUMBER.fullmatch(text):  # `float` accepts 1_000 and form feeds too
                raise bad_value(f"a number{reads_null if text == b'NULL' else ''}")
            elif abs(content := float(text)) > LARGEST_FLOAT32:
                if overflow == "error":
                    raise bad_value("a finite number within the range of float32")
                content = 0.0
            previous = feature
            row.append(len(grades))
            key.append(feature)
            value.append(content)
        grades.append(int(grade[1]))
    if not grades:
        raise defect("no document", "lines of the form 2 qid:10 1:0.5 2:0.25")
    return _chunk(np.array(row, int), np.array(key, int), np.array(value), np.array(grades), queries)


def _shown(text: bytes) -> str:
    """Return the text in quotes, cut to 40 characters."""
    return repr(text[:40].decode("utf-8", "replace")) + ("..." if len(text) > 40 else "")
