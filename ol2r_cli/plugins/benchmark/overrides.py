"""Overrides by the name of their setting, as recipes and users type them."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable
from itertools import chain

from ol2r_cli.config.grammar import expand

Overrides = dict[str, str]  # by the name of the setting: {"ranker.l2": "ranker.l2=0.1"}


def by_name(*overrides: str | Iterable[str]) -> Overrides:
    """Return overrides by setting, in the order of first mention; the last of several with one name counts.

    A text is split into overrides as a shell splits it.
    """
    named: Overrides = {}
    for part in overrides:
        for word in shlex.split(part) if isinstance(part, str) else part:
            named[name_of(word)] = word
    return named


def name_of(override: str) -> str:
    """Return the name of the setting or group: `ranker.l2` of `+ranker.l2=0.1`."""
    return override.partition("=")[0].lstrip("+~")


def value_of(overrides: Overrides, name: str) -> str:
    """Return the value of a setting as typed; empty where there is none."""
    return overrides.get(name, "").partition("=")[2]


def role(name: str) -> str:
    """Return the group of a setting: `ranker` of `ranker.l2` and `ranker/model`."""
    return re.split(r"[./@]", name, maxsplit=1)[0]


def expand_all(words: str) -> list[str]:
    """Return each override of a text for each of its values."""
    return list(chain(*map(expand, by_name(words).values())))


def brief(words: Iterable[str]) -> list[str]:
    """Return overrides with the last parts of their names, such as `l2=1` of `ranker.l2=1`, where these differ."""
    last_parts = {word: re.split("[./]", word.partition("=")[0])[-1] for word in words}
    count = Counter(last_parts.values())
    return [
        word if count[last_part] > 1 else f"{last_part}={word.partition('=')[2]}"
        for word, last_part in last_parts.items()
    ]
