"""A parser for LETOR text: SVMlight lines with query ids, plain or gzipped.

polars converts large chunks of lines at once. When a chunk is malformed, `diagnose` reads the file again, line by line,
to name the first defect.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedIOBase
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path

import numpy as np
import polars as pl

from ol2r_cli.dataset.table import setting
from ol2r_cli.tensor.shapes import Float, Int

PARSER_VERSION = 1  # raise it when the same file gives other arrays than before
LARGEST_FLOAT32 = 3.4028234663852886e38
LARGEST_FEATURE = 100_000  # the table is dense
LARGEST_GRADE = 127  # labels are stored as int8
CHUNK = 1 << 23  # bytes of text that are converted at once
WORKERS = 2

_COMMENT = re.compile(rb"#[^\n]*")
_BLANK_LINE = re.compile(rb"\n *(?=\n|\Z)")
_HEAD = re.compile(rb"\n *([0-9]{1,3})(?:\.0*)? +qid:([^ \n:\0]+)(?![^ \n])")  # grade and query
_LINE_MARK = b" -1:0"  # replaces the head of a line
_GRADE = re.compile(rb"([0-9]{1,3})(\.0*)?")
_NUMBER = re.compile(rb"[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|inf(inity)?)", re.IGNORECASE)


@dataclass(frozen=True)
class Documents:
    """The documents of one file, in its order: query q owns rows offsets[q] .. offsets[q + 1]."""

    features: Float[np.ndarray, "N F"]  # float32; F is the largest id seen
    labels: Int[np.ndarray, "N"]  # int8
    offsets: Int[np.ndarray, "Q1"]  # int64, from 0 to N
    query_ids: list[str]


class DataError(ValueError):
    """A data file is malformed. The message is one line: file, line number, what was found and what was expected."""


def parse(path: Path, features: int | None = None, overflow: str = "error") -> Documents:
    """The documents of a file, in its order; a feature that a line leaves out is 0.

    `features` is the largest feature id allowed, None for any. `overflow` says what a value beyond the range of float32
    is: an `error`, or `zero` (some publishers write 1.8e308 for "unknown"). NaN is always an error. Raises DataError
    for the first defect of the file.
    """
    try:
        with open_text(path) as file, ThreadPoolExecutor(WORKERS) as pool:
            return _join(list(_in_order(pool, file, features, overflow)))
    except (_Malformed, pl.exceptions.PolarsError):
        with open_text(path) as file:
            raise diagnose(file, str(path), features, overflow) from None


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
                raise _data_error(str(path), _readable_lines(path) + 1, found, expected) from None


@dataclass(frozen=True)
class _Chunk:
    features: Float[np.ndarray, "n f"]
    labels: Int[np.ndarray, "n"]
    runs: list[tuple[str, int]]  # query id and number of consecutive documents


class _Malformed(Exception):
    """A chunk is malformed; `diagnose` finds the line."""


def _in_order(pool: ThreadPoolExecutor, file: BufferedIOBase, features: int | None, overflow: str) -> Iterator[_Chunk]:
    """Converts chunks in WORKERS threads, and never more than WORKERS chunks ahead, to bound memory."""
    texts = iter(lambda: file.read(CHUNK) + file.readline(), b"")
    running = [pool.submit(_convert, text, features, overflow) for text in islice(texts, WORKERS)]
    while running:
        yield running.pop(0).result()
        running += [pool.submit(_convert, text, features, overflow) for text in islice(texts, 1)]


def _convert(text: bytes, limit: int | None, overflow: str) -> _Chunk:
    """Converts whole lines; `limit` is the largest feature id allowed."""
    if b"#" in text:
        text = _COMMENT.sub(b"", text)
    text = _BLANK_LINE.sub(b"", b"\n" + text.replace(b"\t", b" ").replace(b"\r", b" ").rstrip(b" \n"))
    heads = _HEAD.findall(text)
    if len(heads) != text.count(b"\n"):
        raise _Malformed  # a line without a grade or a query
    if not heads:
        return _Chunk(np.zeros((0, 0), np.float32), np.zeros(0, np.int8), [])
    dense = _columns(text, len(heads), limit)
    if dense is None:
        key, value = _tokens(_HEAD.sub(_LINE_MARK, text), text.count(b":"), len(heads))
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


def _columns(text: bytes, lines: int, limit: int | None) -> Float[np.ndarray, "n f"] | None:
    """The features by line, float64, of lines that all have the features 1, 2, .., F, separated by single blanks.

    None for other text, which `_tokens` and `_table` convert or reject at twice the cost.
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
    return dense if dense.shape == (lines, len(ids)) and not np.isnan(dense).any() else None


def _tokens(text: bytes, colons: int, lines: int) -> tuple[Int[np.ndarray, "t"], Float[np.ndarray, "t"]]:
    """Key and value of every token, line marks included; `colons` counts those of the text, heads included."""
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
    table = table.filter(pl.col("key").is_not_null() & pl.col("value").is_not_nan())
    key, value, tokens = table["key"].to_numpy(), table["value"].to_numpy(), len(table)
    # In well-formed text every token is a pair of numbers with one colon, and only line marks have the key -1.
    if tokens != _count_tokens(text) or colons != tokens or np.count_nonzero(key == -1) != lines:
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


def diagnose(lines: Iterable[bytes], name: str, features: int | None, overflow: str) -> DataError:
    """The error that describes the first defect of a file; `features` and `overflow` are those of `parse`.

    Slow, and only called for malformed files.
    """
    form = "lines of the form '2 qid:10 1:0.5 2:0.25'"
    began: dict[bytes, int] = {}
    current = None
    number = 0
    for number, line in enumerate(lines, 1):
        tokens = re.findall(rb"[^ \t\r\n]+", line.split(b"#", 1)[0])
        if not tokens:
            continue
        for found, expected in _defects(tokens, features, overflow):
            return _data_error(name, number, found, expected)
        query = tokens[1]
        if query != current and query in began:
            found = f"{_shown(query)} again, after other queries (it began at line {began[query]})"
            return _data_error(name, number, found, "the documents of a query on consecutive lines")
        current = query
        began.setdefault(query, number)
    if not began:
        return _data_error(name, max(number, 1), "no document", form)
    return _data_error(name, number, "a defect in one of the lines up to here", form)


def _defects(tokens: list[bytes], features: int | None, overflow: str) -> Iterator[tuple[str, str]]:
    """Pairs (what was found, what was expected) for the defects of one line, from left to right."""
    grade = _GRADE.fullmatch(tokens[0])
    if grade is None or int(grade[1]) > LARGEST_GRADE:
        yield f"grade {_shown(tokens[0])}", f"a whole number from 0 to {LARGEST_GRADE}"
    if len(tokens) < 2 or not tokens[1].startswith(b"qid:") or tokens[1].count(b":") > 1 or tokens[1] == b"qid:":
        yield _shown(tokens[1]) if len(tokens) > 1 else "the end of the line", "qid:<query> after the grade"
    elif not _is_utf8(tokens[1]) or b"\0" in tokens[1]:  # numpy cuts a NUL off the end of a text
        yield f"query id {tokens[1][4:44]!r}", "UTF-8 text without NUL"
    limit, rule = (LARGEST_FEATURE, "") if features is None else (features, f" ({setting('features')})")
    previous = 0
    for token in tokens[2:]:
        digits, colon, value = token.partition(b":")
        if not colon or not digits.isdigit():
            yield _shown(token), "<feature id>:<value>"
            return
        feature = int(digits.lstrip(b"0")[:20] or b"0")  # int refuses thousands of digits; 20 are beyond every limit
        if feature < 1:
            yield "feature id 0", "feature ids that start at 1"
        if feature > limit:
            yield f"feature id {feature}", f"at most {limit}{rule}"
        if feature == previous:
            yield f"feature id {feature} twice", "every feature at most once in a line"
        elif feature < previous:
            yield f"feature id {feature} after {previous}", "feature ids in ascending order"
        previous = feature
        yield from _value_defects(feature, value, overflow)


def _value_defects(feature: int, value: bytes, overflow: str) -> Iterator[tuple[str, str]]:
    number = _number(value)
    if number is None:
        yield f"value {_shown(value)} of feature {feature}", "a number"
    elif abs(number) > LARGEST_FLOAT32 and overflow == "error":
        yield f"value {_shown(value)} of feature {feature}", "a finite number within the range of float32"


def _number(text: bytes) -> float | None:
    """The number, or None; `float` alone accepts 1_000 and form feeds, which are no numbers in a data file."""
    return float(text) if _NUMBER.fullmatch(text) else None


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _shown(text: bytes, width: int = 40) -> str:
    """The text in quotes, cut to `width` characters."""
    return repr(text[:width].decode("utf-8", "replace")) + ("..." if len(text) > width else "")


def _data_error(name: str, line: int, found: str, expected: str) -> DataError:
    """An error about the content of a file; `line` counts from 1."""
    return DataError(f"{name}:{line}: found {found}, expected {expected}")


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
