"""What is wrong with a file that is no LETOR text: its first defect, in one line that says what was expected."""

from __future__ import annotations

import codecs
import re
import shlex
from collections.abc import Iterable, Iterator

from ol2r_cli.dataset.table import setting

LARGEST_FLOAT32 = 3.4028234663852886e38
LARGEST_FEATURE = 100_000  # the table is dense
LARGEST_GRADE = 127  # labels are stored as int8

_GRADE = re.compile(rb"([0-9]{1,3})(\.0*)?")
_NUMBER = re.compile(rb"[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|inf(inity)?)", re.IGNORECASE)
_WITHOUT_MARK = r"sed '1s/^\xEF\xBB\xBF//'"
_BYTE_ORDER_MARKS = {  # the first bytes of a text, its encoding, and what gives UTF-8 without such a mark
    codecs.BOM_UTF8: ("UTF-8", _WITHOUT_MARK),
    codecs.BOM_UTF32_LE: ("UTF-32", "iconv -f UTF-32 -t UTF-8"),  # begins with the mark of UTF-16
    codecs.BOM_UTF32_BE: ("UTF-32", "iconv -f UTF-32 -t UTF-8"),
    codecs.BOM_UTF16_LE: ("UTF-16", "iconv -f UTF-16 -t UTF-8"),
    codecs.BOM_UTF16_BE: ("UTF-16", "iconv -f UTF-16 -t UTF-8"),
}


class DataError(ValueError):
    """A data file is malformed. The message is one line: file, line number, what was found and what was expected."""


def diagnose(lines: Iterable[bytes], name: str, features: int | None, overflow: str, missing: float | str) -> DataError:
    """The error that describes the first defect of a file; the settings are those of `parse`.

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
        if mark := next((mark for mark in _BYTE_ORDER_MARKS if line.startswith(mark)), None):
            return data_error(name, number, *_marked(mark, name, number))
        for found, expected in _defects(tokens, features, overflow, missing):
            return data_error(name, number, found, expected)
        query = tokens[1]
        if query != current and query in began:
            found = f"{_shown(query)} again, after other queries (it began at line {began[query]})"
            return data_error(name, number, found, "the documents of a query on consecutive lines")
        current = query
        began.setdefault(query, number)
    if not began:
        return data_error(name, max(number, 1), "no document", form)
    return data_error(name, number, "a defect in one of the lines up to here", form)


def _marked(mark: bytes, name: str, number: int) -> tuple[str, str]:
    """What was found and what was expected where a line begins with a byte order mark."""
    encoding, without = _BYTE_ORDER_MARKS[mark]
    file = shlex.quote(name)
    if number > 1:  # where files were joined
        without = without.replace("1s", f"{number}s")
    if name.endswith(".gz"):
        typed = f"zcat {file} | {without} | gzip > NEW.gz"
    elif mark == codecs.BOM_UTF8:
        typed = f"{without.replace('sed', 'sed -i')} {file}"
    else:
        typed = f"{without} {file} > NEW"
    return f"a byte order mark ({encoding})", f"UTF-8 text without one: type {typed}"


def _defects(
    tokens: list[bytes], features: int | None, overflow: str, missing: float | str
) -> Iterator[tuple[str, str]]:
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
        if value != b"NULL" or missing == "error":
            yield from _value_defects(feature, value, overflow)


def _value_defects(feature: int, value: bytes, overflow: str) -> Iterator[tuple[str, str]]:
    number = _number(value)
    if value == b"NULL":
        name = setting("missing")
        yield f"value 'NULL' of feature {feature}", f"a number: {name}=minimum or {name}=0 reads NULL as one"
    elif number is None:
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


def data_error(name: str, line: int, found: str, expected: str) -> DataError:
    """An error about the content of a file; `line` counts from 1."""
    return DataError(f"{name}:{line}: found {found}, expected {expected}")
