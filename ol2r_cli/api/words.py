"""Settings from Python as one would type them behind `ol2r run`: rounds=500 is `rounds=500`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from os import PathLike, fspath
from typing import Any

_PLAIN = re.compile(r"[A-Za-z_/.][\w/.\-]*")  # text that nobody takes for anything but text
_MEANING = re.compile(r"true|false|null|none|nan|inf", re.IGNORECASE)  # words that need quotes to be text


def words(*settings: Any, **more: Any) -> list[str]:
    """What to type: text stays as it is, {"ranker.l2": 0.1} and rounds=500 are written out, lists may hold both.

    Names with a dot have no form as keywords but stand in a mapping, so that a setting has one name everywhere.
    ValueError for text that is no setting, and for a value that has no form on the command line.
    """
    found = []
    for given in (*settings, more):
        if isinstance(given, str):
            found.append(_checked(given))
        elif isinstance(given, Mapping):
            found += [f"{name}={_written(value, str(name))}" for name, value in given.items()]
        elif isinstance(given, Iterable):
            found += words(*given)
        else:
            raise ValueError(f"a setting must be 'NAME=VALUE' or {{'NAME': value}}, got {given!r}")
    return found


def _checked(word: str) -> str:
    if word.startswith("-") and not word.startswith("--config-dir="):
        raise ValueError(f"a setting must be 'NAME=VALUE', got {word!r}: of the options only --config-dir=DIR is here")
    if "=" not in word and not word.startswith("~"):
        raise ValueError(f"a setting must be 'NAME=VALUE', got {word!r}")
    return word


def _written(value: Any, name: str) -> str:
    """A value in the grammar of Hydra's command line."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str | PathLike):
        return _quoted(fspath(value))
    if isinstance(value, Integral):
        return str(int(value))
    if isinstance(value, Real):
        return repr(float(value))
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{_written(item, name)}" for key, item in value.items()) + "}"
    if hasattr(value, "tolist"):  # of numpy and torch
        return _written(value.tolist(), name)
    if isinstance(value, Iterable) and not isinstance(value, bytes):
        return "[" + ",".join(_written(item, name) for item in value) + "]"
    raise ValueError(f"{name} must be a number, text, true, false, null, a list or a mapping, got {value!r}")


def _quoted(text: Any) -> str:
    """Quotes, where text could be taken for something else; a backslash before one has to be doubled."""
    text = str(text)
    if _PLAIN.fullmatch(text) and not _MEANING.fullmatch(text):
        return text
    escaped = re.sub(r"(\\*)'", r"\1\1\\'", text)
    return "'" + re.sub(r"(\\+)$", r"\1\1", escaped) + "'"
