"""Colour, dash and marker of curves; those of rankers stand beside their names in `names.py`."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

Dash = str | tuple[int, tuple[float, ...]]
SOLID: Dash = "-"
DASHED: Dash = (0, (4, 1.5))
DOTTED: Dash = (0, (1, 1.2))
DASH_DOT: Dash = (0, (5, 1.3, 1, 1.3))
LONG: Dash = (0, (8, 1.5))
BOTH: Dash = (0, (3, 1.2, 1, 1.2, 1, 1.2))
INK = "#1a1a1b"  # text, axes and skylines


class Style(NamedTuple):
    """Colour, dash and marker of a curve; `hollow` markers are not filled."""

    colour: str
    dash: Dash
    marker: str
    hollow: bool = False


_OTHER_COLOURS = ("#332288", "#44aa99", "#117733", "#999933", "#882255", "#aa4499", "#cc6677", "#6699cc")
_OTHER_DASHES = (SOLID, DASHED, DASH_DOT, LONG, BOTH)
_OTHER_MARKERS = ("o", "s", "^", "v", "D", "P", "X", "p", "h")
_SETTING_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p", "h")
_DARKEST, _LIGHTEST = -0.5, 0.55  # steps of `shade` for the values of a setting


def style_of_name(name: str) -> Style:
    """Return a style that follows from a name, for a choice that has none here."""
    colour, dash, marker = hashlib.sha256(name.encode()).digest()[:3]
    return Style(
        _OTHER_COLOURS[colour % len(_OTHER_COLOURS)],
        _OTHER_DASHES[dash % len(_OTHER_DASHES)],
        _OTHER_MARKERS[marker % len(_OTHER_MARKERS)],
    )


def setting_styles(own: Style, rows: Sequence[Sequence[str]]) -> list[Style]:
    """Return a style for each row, which has the values of the settings in which entries of one ranker differ.

    own: the style of the ranker, which a single row has. Where one setting varies, each value has another colour, from
    dark to light, another dash and another marker. Where several do, the one with most values is the colour, and the
    others together are dash and marker.
    """
    if len(rows) == 1:
        return [own]
    values_by_column = [list(dict.fromkeys(column)) for column in zip(*rows, strict=True)]
    value_counts = [len(values) for values in values_by_column]
    coloured = value_counts.index(max(value_counts))  # of equally many the first
    shades = values_by_column[coloured]
    rests = list(dict.fromkeys(_without(row, coloured) for row in rows))
    dashes = list(dict.fromkeys([own.dash, *_OTHER_DASHES]))
    markers = _markers_from(own.marker)
    styles = []
    for row in rows:
        shade_number = shades.index(row[coloured])
        look = rests.index(_without(row, coloured)) if len(rests) > 1 else shade_number
        step = _DARKEST + (_LIGHTEST - _DARKEST) * shade_number / max(len(shades) - 1, 1)
        styles.append(
            Style(shade(own.colour, step), dashes[look % len(dashes)], markers[look % len(markers)], own.hollow)
        )
    return styles


def _without(row: Sequence[str], column: int) -> tuple[str, ...]:
    return (*row[:column], *row[column + 1 :])


def _markers_from(first: str) -> tuple[str, ...]:
    """Return the markers of settings, beginning with this one if it is among them."""
    start = _SETTING_MARKERS.index(first) if first in _SETTING_MARKERS else 0
    return _SETTING_MARKERS[start:] + _SETTING_MARKERS[:start]


def shade(colour: str, step: float) -> str:
    """Return a colour mixed with black (step -1 is black) or with white (step 1 is white)."""
    channels = [int(colour[place : place + 2], 16) for place in (1, 3, 5)]
    mixed = [channel * (1 + step) if step < 0 else channel + (255 - channel) * step for channel in channels]
    return "#" + "".join(f"{round(channel):02x}" for channel in mixed)
