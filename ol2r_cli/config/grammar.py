"""Overrides as Hydra's grammar reads them, through `hydra.core.override_parser`, and the values that they list."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from functools import cache
from typing import Any

from hydra.core.override_parser import overrides_parser, overrides_visitor
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Glob, Override
from hydra.errors import HydraException

from ol2r_cli.config.mistyped import unreadable

if not __debug__:  # Hydra's parser takes steps in assert statements, which PYTHONOPTIMIZE leaves out
    source = inspect.getsource(overrides_visitor)
    exec(compile(source, str(overrides_visitor.__file__), "exec", optimize=0), vars(overrides_visitor))
    vars(overrides_parser)["HydraOverrideVisitor"] = overrides_visitor.HydraOverrideVisitor


@cache
def parse(word: str) -> Override:
    """Return what Hydra reads in an override; ValueError for one that cannot be read."""
    if word.splitlines() not in ([word], []):
        raise ValueError(f"{word!r} must be one line: leave out the line break")
    if not word.lstrip("+~").partition("=")[0]:
        raise ValueError(unreadable(word))
    try:
        return OverridesParser.create().parse_override(word)
    except HydraException:
        raise ValueError(unreadable(word)) from None


def with_one_value(override: Override, choices: Sequence[str] = ()) -> list[str]:
    """Return one override for each value of an override; `choices` are the names among which `glob(..)` selects.

    ValueError for an interval, which lists no values.
    """
    key = override.get_key_element()
    value: Any = override.value()
    if not override.is_sweep_override():
        return [str(override.input_line)]
    if isinstance(value, Glob):
        return [f"{key}={name}" for name in value.filter(list(choices))]
    if override.is_discrete_sweep():
        return [f"{key}={text}" for text in override.sweep_string_iterator()]
    raise ValueError(f"{override.input_line} must list its values, as in {key}=1,2,3: `ol2r search` tries ranges")


def expand(word: str) -> list[str]:
    """Return the overrides with one value each that an override with several values (`seed=1,2`) stands for.

    ValueError for an override that cannot be read.
    """
    return with_one_value(parse(word))
