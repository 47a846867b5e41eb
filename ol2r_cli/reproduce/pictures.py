"""The figures of a recipe, as png, svg and pdf, headed by what they were made with."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ol2r_cli.report.figures import draw, save
from ol2r_cli.reproduce.caveat import caveat, made_with
from ol2r_cli.reproduce.labels import Named
from ol2r_cli.reproduce.protocol import Protocol
from ol2r_cli.reproduce.runs import Played

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = ("png", "svg", "pdf")
_SIZE = 7  # points
_LETTERS = 16  # of this size in an inch
_LOUD = "#8a1c00"


def pictures(protocol: Protocol, played: Played, folder: Path) -> Iterator[Path]:
    """Draws what was played, and names the png files. ValueError where runs lack what a figure shows."""
    for picture in protocol.recipe.figures:
        shown = {
            place: group for place, group in played.groups.items() if place.click in (picture.click or [place.click])
        }
        if not shown:
            continue
        figure = draw(picture.kind, list(shown.values()), Named(shown), **picture.options)
        _head(figure, caveat(protocol) or made_with(protocol))
        for suffix in SUFFIXES:
            save(figure, folder / f"{picture.kind}.{suffix}")
        yield folder / f"{picture.kind}.png"


def _head(figure: Figure, said: str) -> None:
    """A line or more at the top; the figure grows by their height."""
    width, height = figure.get_size_inches()
    lines = textwrap.wrap(said, int(width * _LETTERS))
    figure.set_size_inches(width, height + (len(lines) + 0.5) * _SIZE * 1.3 / 72)
    figure.suptitle("\n".join(lines), fontsize=_SIZE, fontweight="bold", color=_LOUD)
