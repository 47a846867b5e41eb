"""Numbers, durations, names and messages as text. Imports only the standard library."""

from __future__ import annotations

import difflib
import math
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Collection, Sequence

_NO_BREAK = "\N{NO-BREAK SPACE}"  # no text of a user has it, once it is printable
_FEW = 8  # names that are a hint; more are a list


def nearest(name: str, names: Collection[str], prefix: str = "") -> str:
    """Return `: did you mean X?` for the name with the most similar spelling; empty when no name is similar."""
    similar = difflib.get_close_matches(name, names, n=1) or difflib.get_close_matches(name.lower(), names, n=1)
    return f": did you mean {prefix}{similar[0]}?" if similar else ""


def must_be_one_of(what: str, names: Collection[str], given: str, prefix: str = "", meant: str = "") -> str:
    """Return the message for a name that is none of `names`.

    It has those that begin with it or have this word among theirs, or else the one that is similar to it or to what is
    `meant` by it, or else all.
    """
    having = [f"{prefix}{name}" for name in names if name.startswith(given) or given.lower() in name.split("_")]
    near = nearest(meant or given, names, prefix)
    if len(having) <= _FEW and (len(having) > 1 or (having and not near)):
        near = f": did you mean {one_of(having)}?"
    if near:
        return f"{prefix or f'{what} '}{given}{near}"
    return f"{what} must be one of {', '.join(names)}, got '{given}'"


def one_of(words: Sequence[str]) -> str:
    """Return words as an enumeration: `a`, `a or b`, `a, b or c`."""
    *others, last = words
    return f"{', '.join(others)} or {last}" if others else last


def duration(seconds: float) -> str:
    """Return seconds in the two largest units: 8.2s, 3m 05s, 2h 07m, 3d 04h."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days}d {hour:02d}h"
    if hours:
        return f"{hours}h {minute:02d}m"
    return f"{minutes}m {second:02d}s" if minutes else f"{seconds:.1f}s"


def byte_size(count: float) -> str:
    """Return a number of bytes in decimal units: 812 B, 1.4 MB."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def plural(count: int, noun: str) -> str:
    """Return a count with its noun: 1 job, 2 jobs."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def listed(words: Sequence[object], most: int = 8) -> str:
    """Return the words, or the first `most` of them, separated by commas."""
    return ", ".join([*map(str, words[:most]), *([".."] if len(words) > most else [])])


def shown_path(path: str | os.PathLike[str]) -> str:
    """Return a path, from the working directory on if it is below it."""
    text, below = os.fspath(path), os.getcwd() + os.sep
    return text.removeprefix(below)


def printable(text: object) -> str:
    """Return text of others, in which characters are escaped that a terminal obeys, such as line breaks and colours."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in str(text))


def one_line(text: object) -> str:
    """Return text, such as the message of an error, without line breaks and repeated blanks."""
    return printable(" ".join(str(text).split()))


def error_line(error: BaseException) -> str:
    """Return the type and the message of an error in one line: `RuntimeError: a slip`."""
    return one_line(f"{type(error).__name__}: {error}")


def wrapped(line: str, indent: int = 2) -> str:
    """Return a line, on a terminal wrapped between words; `indent` is that of the lines below the first.

    It is not broken within `unbroken` text.
    """
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else len(line) + 1
    lines = textwrap.wrap(line, width, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines).replace(_NO_BREAK, " ")


def unbroken(text: str) -> str:
    """Return text, such as a command to type, that `wrapped` leaves in one line, however long."""
    return text.replace(" ", _NO_BREAK)


def shortened(labels: Sequence[str], width: int) -> list[str]:
    """Return labels, each of overrides, in at most `width` columns: where there is no room, without what they share.

    Words that all labels have go first, then groups (`l2=0.1` of `ranker.l2=0.1`), then names of settings. What is
    still too long loses its beginning, because the last setting of a sweep changes fastest.
    """
    words, texts = [label.split(" ") for label in labels], list(labels)
    for shorter in (_without_common_words, _without_groups, _values_only):
        if max(map(len, texts), default=0) <= width:
            return texts
        words = shorter(words)
        texts = [" ".join(label) for label in words]
    return [text if len(text) <= width else f"…{text[len(text) - max(0, width - 1) :]}" for text in texts]


def _without_common_words(labels: list[list[str]]) -> list[list[str]]:
    common = set(labels[0]).intersection(*labels) if len(labels) > 1 else set[str]()
    return [[word for word in label if word not in common] for label in labels]


def _without_groups(labels: list[list[str]]) -> list[list[str]]:
    return [[re.sub(r"^[\w/.]+[./](?=\w+=)", "", word) for word in label] for label in labels]


def _values_only(labels: list[list[str]]) -> list[list[str]]:
    return [[word.partition("=")[2] or word for word in label] for label in labels]


def say_start(what: str) -> None:
    """Say on a terminal that work begins, for the seconds in which modules are imported and data are read."""
    if sys.stderr.isatty():
        print(wrapped(f"starting: {what}"), file=sys.stderr, flush=True)


def number(value: float | None, digits: int = 4, sign: str = "") -> str:
    """Return a number with so many decimals; `-` where there is none, or NaN."""
    return "-" if value is None or math.isnan(value) else f"{value:{sign}.{digits}f}"


def plus_minus(mean: float, spread: float | None, digits: int, sign: str = "", separator: str = "") -> str:
    """Return `0.4123 ± 0.0021`, or `0.4123` where `spread` is None.

    sign "+" marks positive means; separator "," groups thousands.
    """
    text = f"{mean:{sign}{separator}.{digits}f}"
    return text if spread is None else f"{text} ± {spread:{separator}.{digits}f}"
