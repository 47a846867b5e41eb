"""LETOR text read the slow way, a line at a time: the oracle of the parser.

The definition is in docs/reference/datasets.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

BLANKS = (b"\t", b"\r", b" ")
INFINITE = {sign + word for sign in (b"", b"+", b"-") for word in (b"inf", b"infinity")}


@dataclass
class LetorLines:
    """Features by id (a feature that is left out is not there), grade and query id of every document."""

    documents: list[dict[int, np.float32]] = field(default_factory=list)
    grades: list[int] = field(default_factory=list)
    queries: list[str] = field(default_factory=list)
    filled: dict[tuple[int, int], float] = field(default_factory=dict)  # document and feature that had no value


class Defect(Exception):
    """A line is not of the form."""


def read_letor(
    text: bytes, features: int | None = None, overflow: str = "error", missing: float | str = "error"
) -> LetorLines | int:
    """The documents, or the number of the first line that is not of the form.

    Of a text without a document this is the last line. `features`, `overflow` and `missing` are those of `parse`.
    """
    read, lines = LetorLines(), text.split(b"\n")
    for number, line in enumerate(lines, 1):
        tokens = _tokens(line)
        if not tokens:
            continue
        try:
            grade, query = _grade(tokens[0]), _query(tokens[1:2])
            document = _features(tokens[2:], features or 100_000, overflow, missing)
        except Defect:
            return number
        if query in read.queries and read.queries[-1] != query:
            return number
        read.documents.append(document)
        read.grades.append(grade)
        read.queries.append(query)
    for number, document in enumerate(read.documents):
        for feature in [feature for feature, value in document.items() if np.isnan(value)]:
            same_query = [other for other, query in enumerate(read.queries) if query == read.queries[number]]
            values = [read.documents[other].get(feature, np.float32(0)) for other in same_query]
            read.filled[number, feature] = min((value for value in values if not np.isnan(value)), default=0)
    for (number, feature), value in read.filled.items():
        read.documents[number][feature] = np.float32(value)
    return read if read.queries else max(len(lines) - (not lines[-1]), 1)


def _tokens(line: bytes) -> list[bytes]:
    before_comment = line.split(b"#")[0]
    for blank in BLANKS:
        before_comment = before_comment.replace(blank, b" ")
    return [token for token in before_comment.split(b" ") if token]


def _whole(text: bytes) -> int:
    if not text or any(digit not in b"0123456789" for digit in text):
        raise Defect
    value = 0
    for digit in text:
        value = min(10 * value + digit - ord("0"), 10**12)
    return value


def _grade(token: bytes) -> int:
    """At most three digits, which a point and zeros may follow."""
    whole, _, zeros = token.partition(b".")
    grade = _whole(whole)
    if len(whole) > 3 or zeros.strip(b"0") or grade > 62:
        raise Defect
    return grade


def _query(tokens: list[bytes]) -> str:
    if not tokens or tokens[0][:4] != b"qid:" or not tokens[0][4:] or b":" in tokens[0][4:] or b"\0" in tokens[0]:
        raise Defect
    try:
        return tokens[0][4:].decode("utf-8")
    except UnicodeDecodeError:
        raise Defect from None


def _features(tokens: list[bytes], largest: int, overflow: str, missing: float | str) -> dict[int, np.float32]:
    document: dict[int, np.float32] = {}
    previous = 0
    for token in tokens:
        if token.count(b":") != 1:
            raise Defect
        left, right = token.split(b":")
        identity = _whole(left)
        if right == b"NULL" and missing != "error":
            value = float("nan" if missing == "minimum" else missing)
        else:
            value = _value(right)
        if not previous < identity <= largest:
            raise Defect
        if abs(value) > float(np.finfo(np.float32).max):
            if overflow == "error":
                raise Defect
            value = 0.0
        document[identity] = np.float32(value)
        previous = identity
    return document


def _value(text: bytes) -> float:
    """A decimal number or an infinity, rounded to double precision."""
    if text.lower() in INFINITE:
        return float(text)
    if any(character not in b"0123456789+-.eE" for character in text):  # of these, `float` takes decimal numbers alone
        raise Defect
    try:
        return float(text)
    except ValueError:
        raise Defect from None
