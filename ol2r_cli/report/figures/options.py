"""Options of figures as they come from Python or from a command line, where everything is text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeVar

from ol2r_cli.report.groups import Group

WIDTHS = {"column": 3.3, "page": 7.0}  # inches
Width = str | float | None
Whole = int | str  # a whole number, perhaps as text
Switch = bool | str
Choice = TypeVar("Choice", str, int)


class NothingToDraw(ValueError):
    """No group has what the figure shows."""


def choice(name: str, given: Any, allowed: Sequence[Choice]) -> Choice:
    """The one of the allowed values that reads the same; ValueError when there is none."""
    for one in allowed:
        if str(given) == str(one):
            return one
    raise ValueError(f"{name} must be one of {', '.join(map(str, allowed))}, got {given}")


def switch(name: str, given: Any) -> bool:
    """true or false."""
    return choice(name, str(given).lower(), ("true", "false")) == "true"


def whole(name: str, given: Any, most: int, least: int = 1) -> int:
    """A whole number from `least` to `most`."""
    if not str(given).isdecimal() or not least <= int(given) <= most:
        raise ValueError(f"{name} must be a whole number from {least} to {most}, got {given}")
    return int(given)


def known_metric(name: str, given: str, groups: Sequence[Group]) -> str:
    """A metric that some group has; ValueError with what there is."""
    there = list(dict.fromkeys(metric for group in groups for run in group.runs for metric in run.metrics))
    if given not in there:
        raise ValueError(f"{name} must be one of {', '.join(there)}, got {given}")
    return given


def inches(width: Width, panels: int) -> float:
    """A width in inches: of a column, a page or as given; None: a column for one panel, else a page."""
    if width is None:
        return WIDTHS["column" if panels == 1 else "page"]
    if width in WIDTHS:
        return WIDTHS[str(width)]
    try:
        given = float(width)
    except ValueError:
        given = math.nan
    if not 2 <= given <= 30:
        raise ValueError(f"width must be column, page or inches from 2 to 30, got {width}")
    return given
