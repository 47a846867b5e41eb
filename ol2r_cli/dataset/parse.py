"""A parser for LETOR text: SVMlight lines with query ids, plain or gzipped.

A file is read in chunks of whole lines, so that its text is never in memory as a whole. A compiled loop
(`dataset/letor_loops.py`) reads a chunk. Where it is not sure, or without numba, `_strict_chunk` reads it line by line,
ten times as slowly; it defines what is read. `_defect_of` names the first defect of a file.
"""

from __future__ import annotations

import codecs
import gzip
import re
import shlex
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BufferedIOBase, BytesIO
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np

from ol2r_cli import loops
from ol2r_cli.config.ranges import Range
from ol2r_cli.dataset.table import LARGEST_GRADE
from ol2r_cli.tensor.shapes import Float, Int
from ol2r_cli.text.terminal import share_shown

PARSER_VERSION = 1  # raise it when the same file gives other arrays than before
CHUNK = 1 << 23  # bytes of text that are converted at once
BLOCK = 8192  # documents, or one query if that is longer

Missing = Literal["error", "minimum"] | Annotated[float, Range(-1e38, 1e38)]  # what NULL is
LARGEST_FLOAT32 = 3.4028234663852886e38
LARGEST_FEATURE = 100_000  # the table is dense
# A value is lost if rounding it to single precision moves it by more than this share of the range of the feature in its
# query, and a feature is rounded off if that happens in more than this share of the queries in which it varies.
LOST, OFTEN = 1e-3, 1e-2

_TOKEN = re.compile(rb"[^ \t\r\n]+")
_GRADE = re.compile(rb"([0-9]{1,3})(\.0*)?")
_FEATURE = re.compile(rb"0*([0-9]{1,20})[0-9]*:(.*)", re.DOTALL)  # id and value; `int` refuses thousands of digits
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
# What to type where a file begins with a mark of its encoding.
_REMOVES_MARK = r"sed 's/^\xEF\xBB\xBF//' FILE > NEW, or for another encoding: iconv -f UTF-16 -t UTF-8 FILE > NEW"


class DataError(ValueError):
    """A data file is malformed. The message is one line: file, line number, what was found and what was expected."""


class _Unsure(Exception):
    """The strict parser has to read a chunk."""


class _Defect(Exception):
    """A line is malformed."""

    line = 0  # its number, where it is known

    def __init__(self, found: str, expected: str):
        self.found, self.expected = found, expected


class _Form(NamedTuple):
    """What a file may have: the settings of `parse`."""

    features: int | None
    overflow: str
    missing: float | str


class _Chunk(NamedTuple):
    """The documents of some lines. A query may continue in the next chunk."""

    features: Float[np.ndarray, "n f"]
    grades: Int[np.ndarray, "n"]
    queries: list[tuple[str, int]]  # ids, and the number of documents that follow each other
    rounding: Int[np.ndarray, "2 f"]  # as in `ParsedFile`


@dataclass(frozen=True)
class ParsedFile:
    """The documents of one file, in its order: query q owns rows offsets[q] .. offsets[q + 1]."""

    features: Float[np.ndarray, "_ F"]  # F is the largest id seen; no row where `parse` gave them to `keep`
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
    return _often_lost(counted_rounding(features, offsets))


def counted_rounding(features: Float[np.ndarray, "N F"], offsets: Int[np.ndarray, "Q1"]) -> Int[np.ndarray, "2 F"]:
    """Return in how many queries each feature of a table of float64 varies, and in how many float32 loses a value."""
    with np.errstate(over="ignore"):
        return np.sum([_rounding(features[rows], start) for rows, start in blocks(offsets)], 0)


def _often_lost(counts: Int[np.ndarray, "2 F"]) -> list[int]:
    return (1 + np.flatnonzero(counts[1] > OFTEN * counts[0])).tolist()


def parse(
    path: Path,
    features: int | None = None,
    overflow: str = "error",
    missing: float | str = "error",
    dtype: type[np.floating[Any]] = np.float32,
    keep: Callable[[np.ndarray], None] | None = None,
) -> ParsedFile:
    """Return the documents of a file, in its order; a feature that a line leaves out is 0.

    `features` is the largest feature id allowed, None for any. `overflow` says what a value beyond the range of float32
    is: an `error`, or `zero` (some publishers write 1.8e308 for "unknown"). `missing` says what the value NULL is: an
    `error`, a number, or the `minimum` of the feature over the documents of the query, 0 where none has a value. NaN is
    always an error. Features are of the precision `dtype`. Where `keep` is given, it takes the features [n, f] of one
    chunk after the other, for a table that need not fit into memory; a missing minimum is then NaN, for
    `fill_with_minima`. Raises DataError for the first defect of the file.
    """
    form, chunks = _Form(features, overflow, missing), list[_Chunk]()
    try:
        with open_text(path) as file:
            for lines in _lines_of(file, path):
                chunk = _read_chunk(lines, form, dtype)
                if keep is not None:
                    keep(chunk.features)
                    chunk = chunk._replace(features=chunk.features[:0].copy())  # a view would keep all
                chunks.append(chunk)
        documents = _joined(chunks, dtype)
    except _Defect:
        with open_text(path) as file:
            raise _defect_of(file, str(path), form) from None
    if missing == "minimum" and keep is None:
        fill_with_minima(documents.features, documents.offsets)
    return documents


def fill_with_minima(features: Float[np.ndarray, "N F"], offsets: Int[np.ndarray, "Q1"]) -> None:
    """Replace each NaN by the minimum of the feature over the documents of the query, or by 0 if all are NaN."""
    for rows, start in blocks(offsets):
        block = features[rows]
        missing = np.isnan(block)
        if missing.any():
            low = np.nan_to_num(np.fmin.reduceat(block, start))
            block[missing] = np.repeat(low, np.diff(start, append=len(block)), 0)[missing]


def _lines_of(file: BufferedIOBase, path: Path) -> Iterator[bytes]:
    """Yield chunks of whole lines, of about `CHUNK` bytes, and show how far the file is read."""
    raw = getattr(file, "fileobj", file)  # of a gzipped file
    with share_shown(f"parsing {path}", path.stat().st_size) as show:
        for lines in iter(lambda: file.read(CHUNK) + file.readline(), b""):
            yield lines if lines.endswith(b"\n") else lines + b"\n"
            show(raw.tell())


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


@contextmanager
def open_utf8(path: Path) -> Iterator[BufferedIOBase]:
    """Open a file as `open_text` does, behind a byte order mark of UTF-8; DataError for a mark of another encoding."""
    with open_text(path) as file:
        first = file.read(4)
        file.seek(len(codecs.BOM_UTF8) if first.startswith(codecs.BOM_UTF8) else 0)
        if first.startswith(_BYTE_ORDER_MARKS[1:]):
            raise _other_encoding(path, 1, "UTF-16")
        yield file


def utf8_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a plain or gzipped file; DataError, with the line, for one that is not UTF-8."""
    with open_utf8(path) as file:
        for number, line in enumerate(file, 1):
            try:
                yield line.decode()
            except UnicodeDecodeError:
                raise _other_encoding(path, number, "LATIN1") from None


def _other_encoding(path: Path, line: int, likely: str) -> DataError:
    command = f"iconv -f {likely} -t UTF-8 {shlex.quote(str(path))} > NEW"
    return DataError(
        f"{path}, line {line}: found text in another encoding, expected UTF-8: if it is {likely}, type {command}"
    )


def blocks(offsets: Int[np.ndarray, "Q1"]) -> Iterator[tuple[slice, Int[np.ndarray, "q"]]]:
    """Yield ranges of whole queries, of about `BLOCK` rows, each with the starts of its queries relative to it."""
    first = 0
    while first < len(offsets) - 1:
        last = max(first + 1, int(np.searchsorted(offsets, offsets[first] + BLOCK, "right")) - 1)
        yield slice(int(offsets[first]), int(offsets[last])), offsets[first:last] - offsets[first]
        first = last


def _read_chunk(text: bytes, form: _Form, dtype: type[np.floating[Any]]) -> _Chunk:
    """Return the documents of whole lines; _Defect where one is malformed."""
    try:
        return _fast_chunk(text, form.features or LARGEST_FEATURE, form.overflow, dtype)
    except _Unsure:
        return _strict_chunk(text, form, dtype)


def _fast_chunk(text: bytes, largest_id: int, overflow: str, dtype: type[np.floating[Any]]) -> _Chunk:
    """Return the documents of whole lines; _Unsure where one has an unusual form, and without numba."""
    if not loops.compiled():
        raise _Unsure
    from ol2r_cli.dataset.letor_loops import Written, read  # imports numba

    lines, colons = text.count(b"\n"), text.count(b":")  # there are no more documents and features
    written = Written(
        grade=np.empty(lines, np.int8),
        query=np.empty((lines, 2), np.int64),
        row=np.empty(colons, np.int64),
        key=np.empty(colons, np.int64),
        value=np.empty(colons),
        inexact=np.empty((colons, 3), np.int64),
    )
    documents, count, inexact = read(np.frombuffer(text, np.uint8), LARGEST_GRADE, largest_id, written)
    if documents < 0:
        raise _Unsure
    value = written.value[:count]
    for number, begin, end in written.inexact[:inexact].tolist():
        value[number] = float(text[begin:end])
    outside = np.abs(value) > LARGEST_FLOAT32
    if outside.any() and overflow == "error":
        raise _Unsure
    value[outside] = 0
    queries = [text[begin:end].decode() for begin, end in written.query[:documents].tolist()]
    return _chunk(written.row[:count], written.key[:count], value, written.grade[:documents], queries, dtype)


def _chunk(
    row: Int[np.ndarray, "v"],
    key: Int[np.ndarray, "v"],
    value: Float[np.ndarray, "v"],
    grades: Int[np.ndarray, "n"],
    queries: list[str],
    dtype: type[np.floating[Any]],
) -> _Chunk:
    """Return the documents with these values, in the order of the file. Keys are ids of features."""
    runs = [(query, len(list(run))) for query, run in groupby(queries)]
    features = np.zeros((len(grades), int(key.max(initial=0))), dtype)
    rounding = np.zeros((2, features.shape[1]), np.int64)
    for rows, start in blocks(_offsets(runs)):
        first, end = np.searchsorted(row, [rows.start, rows.stop])
        exact = np.zeros(features[rows].shape)
        exact[row[first:end] - rows.start, key[first:end] - 1] = value[first:end]
        features[rows] = exact
        rounding += _rounding(exact, start)
    return _Chunk(features, grades, runs, rounding)


def _rounding(exact: Float[np.ndarray, "n f"], start: Int[np.ndarray, "q"]) -> Int[np.ndarray, "2 f"]:
    """Return in how many queries each feature varies, and in how many single precision loses a value of it.

    `start` has the first row of each query. NaN, which is missing, is left out.
    """
    extent = np.fmax.reduceat(exact, start) - np.fmin.reduceat(exact, start)
    error = np.fmax.reduceat(np.abs(exact - exact.astype(np.float32)), start)
    varies = extent > 0
    return np.stack([varies.sum(0), (varies & (error > LOST * extent)).sum(0)])


def _offsets(queries: Iterable[tuple[str, int]]) -> Int[np.ndarray, "q1"]:
    return np.cumsum([0, *(length for _, length in queries)], dtype=np.int64)


def _padded(counts: Int[np.ndarray, "2 f"], features: int) -> Int[np.ndarray, "2 F"]:
    return np.pad(counts, ((0, 0), (0, features - counts.shape[1])))


def _joined(chunks: list[_Chunk], dtype: type[np.floating[Any]]) -> ParsedFile:
    """Concatenate the chunks, which are released as they are copied; _Defect without a document, and for a query in two
    places."""
    labels = np.concatenate([np.zeros(0, np.int8), *(chunk.grades for chunk in chunks)])
    parts = groupby(chain.from_iterable(chunk.queries for chunk in chunks), key=itemgetter(0))
    queries = [(query, sum(length for _, length in of_query)) for query, of_query in parts]
    query_ids = [query for query, _ in queries]
    if not query_ids or len(set(query_ids)) < len(query_ids):
        raise _Defect("", "")
    width = max(chunk.features.shape[1] for chunk in chunks)
    rounding = sum((_padded(chunk.rounding, width) for chunk in chunks), np.zeros((2, width), np.int64))
    end = sum(len(chunk.features) for chunk in chunks)
    features = np.zeros((end, width), dtype)
    while chunks:
        table = chunks.pop().features
        features[end - len(table) : end, : table.shape[1]] = table
        end -= len(table)
    return ParsedFile(features, labels, _offsets(queries), query_ids, rounding)


def _strict_chunk(text: bytes, form: _Form, dtype: type[np.floating[Any]]) -> _Chunk:
    """Read line by line; _Defect for the first defect. A missing minimum is NaN."""
    grades, queries = array("b"), list[str]()
    row, key, value = array("l"), array("l"), array("d")
    for _, grade, query, ids, values in _documents(BytesIO(text), form):
        row.extend([len(grades)] * len(ids))
        key.extend(ids)
        value.extend(values)
        grades.append(grade)
        queries.append(query)
    return _chunk(np.array(row, int), np.array(key, int), np.array(value), np.array(grades), queries, dtype)


def _documents(lines: Iterable[bytes], form: _Form) -> Iterator[tuple[int, int, str, list[int], list[float]]]:
    """Yield number of the line, grade, query, ids and values of each document; _Defect for the first defect of a
    line."""
    for number, line in enumerate(lines, 1):
        tokens = _TOKEN.findall(line.split(b"#", 1)[0])
        if not tokens:
            continue
        try:
            if line.startswith(_BYTE_ORDER_MARKS):  # that of UTF-32 begins with one of UTF-16
                raise _Defect("a byte order mark", f"UTF-8 text without one: type {_REMOVES_MARK}")
            grade = _read_grade(tokens[0])
            query = _read_query(tokens[1] if len(tokens) > 1 else b"")
            ids, values = _read_features(tokens[2:], form)
        except _Defect as defect:
            defect.line = number
            raise
        yield number, grade, query, ids, values


def _defect_of(lines: Iterable[bytes], name: str, form: _Form) -> DataError:
    """Return the error of the first defect of a file that has one."""
    began: dict[str, int] = {}  # the first line of each query
    last, number = None, 1
    try:
        for number, _, query, _, _ in _documents(lines, form):
            if query != last and query in began:
                again = f"{f'qid:{query}'[:40]!r} again, after other queries (it began at line {began[query]})"
                raise _Defect(again, "the documents of a query on consecutive lines")
            began[query], last = began.get(query, number), query
        raise _Defect("no document", "lines of the form 2 qid:10 1:0.5 2:0.25")
    except _Defect as defect:
        at = defect.line or number
        return DataError(f"{name}:{at}: found {defect.found}, expected {defect.expected}")


def _read_grade(token: bytes) -> int:
    match = _GRADE.fullmatch(token)
    if match is None or int(match[1]) > LARGEST_GRADE:
        raise _Defect(f"grade {_shown(token)}", f"a whole number from 0 to {LARGEST_GRADE}")
    return int(match[1])


def _read_query(token: bytes) -> str:
    """Return the id of the query; `token` is empty at the end of the line."""
    if not token.startswith(b"qid:") or token.count(b":") > 1 or token == b"qid:":
        raise _Defect(_shown(token) if token else "the end of the line", "qid:<query> after the grade")
    with suppress(UnicodeDecodeError):
        query = token[4:].decode()
        if "\0" not in query:  # numpy cuts a NUL off the end of a text
            return query
    raise _Defect(f"query id {token[4:44]!r}", "UTF-8 text without NUL")


def _read_features(tokens: Iterable[bytes], form: _Form) -> tuple[list[int], list[float]]:
    """Return the ids of the features and their values."""
    largest = LARGEST_FEATURE if form.features is None else form.features
    ids, values = [], []
    previous = 0
    for token in tokens:
        match = _FEATURE.fullmatch(token)
        if match is None:
            raise _Defect(_shown(token), "<feature id>:<value>")
        digits, text = match.groups()
        feature = int(digits)
        if not previous < feature <= largest:
            expected = f"ascending feature ids from 1 to {largest} (dataset.features)"
            raise _Defect(f"feature id {feature} after {previous}", expected)
        ids.append(feature)
        values.append(_read_value(text, feature, form.overflow, form.missing))
        previous = feature
    return ids, values


def _read_value(text: bytes, feature: int, overflow: str, missing: float | str) -> float:
    if _NUMBER.fullmatch(text):  # `float` accepts 1_000 and form feeds too
        value = float(text)
        if abs(value) <= LARGEST_FLOAT32:
            return value
        if overflow == "zero":
            return 0.0
        expected = "a finite number within the range of float32"
    elif text != b"NULL":
        expected = "a number"
    elif missing == "error":
        expected = "a number: dataset.missing=minimum or dataset.missing=0 reads NULL as one"
    else:
        return np.nan if missing == "minimum" else float(missing)
    raise _Defect(f"value {_shown(text)} of feature {feature}", expected)


def _shown(text: bytes) -> str:
    """Return the text in quotes, cut to 40 characters."""
    return repr(text[:40].decode("utf-8", "replace")) + ("..." if len(text) > 40 else "")
