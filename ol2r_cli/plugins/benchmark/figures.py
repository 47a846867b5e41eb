"""Figures of recipes: groups have the names of competitors."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

from ol2r_cli.plugins.benchmark.trials import Condition
from ol2r_cli.plugins.figures.drawing import draw
from ol2r_cli.report.names import Labels
from ol2r_cli.report.run_groups import Group

_FONT_SIZE = 7  # of the line above a figure, in points
_CHARACTERS = 16  # in an inch of this line
_WARNING_COLOUR = "#8a1c00"


def drawn(kind: str, groups: Mapping[Condition, Group], **options: Any) -> Any:
    """Return a figure in which groups have the names of their competitors."""
    names = {group: condition.competitor for condition, group in groups.items()}
    return draw(kind, list(names), Labels(list(names), names), **options)


def write_above(figure: Any, line: str) -> None:
    """Write a wrapped line above a figure, which grows by the height of the text."""
    width, height = figure.get_size_inches()
    lines = textwrap.wrap(line, int(width * _CHARACTERS))
    figure.set_size_inches(width, height + (len(lines) + 0.5) * _FONT_SIZE * 1.3 / 72)
    text = "\n".join(lines)
    figure.suptitle(text, fontsize=_FONT_SIZE, fontweight="bold", color=_WARNING_COLOUR, parse_math=False)
