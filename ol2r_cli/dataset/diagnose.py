"""Finds the first wrong line of a LETOR file and says what is wrong with it; slow, and only called for broken files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

LARGEST_FLOAT32 = 3.4028234663852886e38
LARGEST_FEATURE = 100_000  # the table is dense
LARGEST_GRADE = 127  # labels are kept as int8
GRADE = re.compile(rb"([0-9]{1,3})(\.0*)?")


class DataError(ValueError):
    """A data file is not what it should be. The message is one line: file, line number, what was found and expected."""


def data_error(name: str, line: int, found: str, expected: str) -> DataError:
    """The one form every message about a file's content has; `line` counts from 1."""
    return DataError(f"{name}:{line}: found {found}, expected {expected}")


def diagnose(lines: Iterable[bytes], name: str, features: int | None, overflow: str) -> DataError:
    """The error that describes the first defect of a file; the settings are those of `parse`."""
    began: dict[bytes, int] = {}
    current = None
    number = 0
    for number, line in enumerate(lines, 1):
        tokens = re.findall(rb"[^ \t\r\n]+", line.split(b"#", 1)[0])
        if not tokens:
            continue
        for found, expected in _defects(tokens, features, overflow):
            return data_error(name, number, found, expected)
        query = tokens[1]
        if query != current and query in began:
            again = f"{_shown(query)} again, after other queries (it began at line {began[query]})"
            return data_error(name, number, again, "the documents of a query on consecutive lines")
        current = query
        began.setdefault(query, number)
    if not began:
        return data_error(name, max(number, 1), "no document", "lines of the form '2 qid:10 1:0.5 2:0.25'")
    return data_error(
        name, number, "a defect in one of the lines up to here", "lines of the form '2 qid:10 1:0.5 2:0.25'"
    )


def _defects(tokens: list[bytes], features: int | None, overflow: str) -> Iterator[tuple[str, str]]:
    """Pairs of what was found and what was expected, in the order of the line."""
    grade = GRADE.fullmatch(tokens[0])
    if grade is None or int(grade[1]) > LARGEST_GRADE:
        yield f"grade {_shown(tokens[0])}", f"a whole number from 0 to {LARGEST_GRADE}"
    if len(tokens) < 2 or not tokens[1].startswith(b"qid:") or tokens[1].count(b":") > 1 or tokens[1] == b"qid:":
        yield _shown(tokens[1]) if len(tokens) > 1 else "the end of the line", "qid:<query> after the grade"
    previous = 0
    for token in tokens[2:]:
        identity, colon, value = token.partition(b":")
        if not colon or not identity.isdigit():
            yield _shown(token), "<feature id>:<value>"
            return
        feature = int(identity)
        if feature < 1:
            yield "feature id 0", "feature ids that start at 1"
        if features is not None and feature > features:
            yield f"feature id {feature}", f"at most {features} (dataset.features)"
        elif feature > LARGEST_FEATURE:
            yield f"feature id {feature}", f"at most {LARGEST_FEATURE}"
        if feature == previous:
            yield f"feature id {feature} twice", "every feature at most once in a line"
        elif feature < previous:
            yield f"feature id {feature} after {previous}", "feature ids in ascending order"
        previous = feature
        yield from _value_defects(feature, value, overflow)


def _value_defects(feature: int, value: bytes, overflow: str) -> Iterator[tuple[str, str]]:
    number = _number(value)
    if number is None or number != number:
        yield f"value {_shown(value)} of feature {feature}", "a number"
    elif abs(number) > LARGEST_FLOAT32 and overflow == "error":
        yield f"value {_shown(value)} of feature {feature}", "a finite number within the range of float32"


def _number(text: bytes) -> float | None:
    """Python would take 1_000 for a number as well; data files should not contain it."""
    try:
        return None if b"_" in text or not text.isascii() else float(text)
    except ValueError:
        return None


def _shown(text: bytes, width: int = 40) -> str:
    """Quoted and short enough for one line."""
    return repr(text[:width].decode("utf-8", "replace")) + ("..." if len(text) > width else "")
