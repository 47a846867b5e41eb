"""A value as it is typed on the command line."""

from __future__ import annotations

import re
from typing import Any

_PLAIN = re.compile(r"[A-Za-z0-9_./:@%+-]+")
_NOT_TEXT = re.compile(r"(?i)null|true|false|[+-]?(\d.*|\..*|inf|nan)")  # read as something else, or might be


def text(value: Any) -> str:
    """A value as Hydra reads it back, without blanks where possible: true, 1e-05, [1,2], 'two words'."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{text(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(text, value)) + "]"
    if value is None:
        return "null"
    if not isinstance(value, str):
        return str(value).lower()
    if _PLAIN.fullmatch(value) and not _NOT_TEXT.fullmatch(value):
        return value
    # A backslash stands for itself, but before a quote.
    return "'" + re.sub(r"(\\*)('|$)", lambda end: 2 * end[1] + (r"\'" if end[2] else ""), value) + "'"
