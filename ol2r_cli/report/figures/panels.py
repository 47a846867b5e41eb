"""Panels of figures with titles, labels and one legend, in the width of a column (3.3 in) or of a page (7 in)."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ol2r_cli.report.figures.drawing import FONT, Look
from ol2r_cli.report.legend import Legend, Panel
from ol2r_cli.report.styles import Style

_TITLE = 0.28  # inches: height of a title with the space around it
_LETTER = FONT * 0.56 / 72  # inches: a letter of this font, on average
_LINE = FONT * 1.2 / 72  # inches: a line of a title
_RULE = "#d5d5d6"  # lines behind the data


def plot(axes: Axes, x: Any, y: Any, style: Style, number: int, curves: int, name: str | None = None) -> None:
    """One of several curves, with about five markers, beside those of the other curves."""
    step = max(len(x) // 5, 1)
    axes.plot(x, y, **_line_keywords(style), markevery=(number * step // max(curves, 1), step), label=name)


def _line_keywords(style: Style) -> dict[str, Any]:
    return {
        "color": style.colour,
        "linestyle": style.dash,
        "linewidth": 1.2,
        "marker": style.marker,
        "markersize": 3.6,
        "markerfacecolor": "white" if style.hollow else style.colour,
        "markeredgecolor": style.colour,
        "markeredgewidth": 0.8,
    }


def shades(count: int, first: float, last: float) -> list[str]:
    """Colours of the scale viridis from one position in [0, 1] to another."""
    colours = matplotlib.colormaps["viridis"](np.linspace(first, last, count))
    return ["#" + "".join(f"{round(255 * part):02x}" for part in colour[:3]) for colour in colours]


class Panels:
    """Panels in rows.

    titles: those of the panels, row by row. share: whether the panels of a row share the y axis. height: that of a
    panel, as a share of its width.
    """

    def __init__(self, titles: Sequence[Sequence[str]], look: Look, share: bool = True, height: float = 0.66):
        self.rows, self.look = titles, look
        self.width, columns = look.inches(sum(map(len, titles))), max(map(len, titles))
        self.panel_width = self.width / columns
        self.panel_height = max(self.panel_width * height, 1.3)
        letters = int((self.panel_width - 0.35) / _LETTER)
        wrapped = [_of_equal_height([_wrapped(title.split(", "), letters) for title in of_row]) for of_row in titles]
        further_lines = sum(of_row[0].count("\n") for of_row in wrapped)
        self.titles_height = len(titles) * _TITLE + further_lines * _LINE
        self.height = len(titles) * self.panel_height + self.titles_height
        self.figure = Figure(figsize=(self.width, self.height), layout="constrained")
        self.figure.get_layout_engine().set(w_pad=0.05, h_pad=0.04)  # type: ignore[union-attr, call-arg]
        FigureCanvasAgg(self.figure)
        grid = self.figure.add_gridspec(len(titles), columns)
        self.axes: list[Axes] = []
        for row, of_row in enumerate(wrapped):
            for column, title in enumerate(of_row):
                axes = self.figure.add_subplot(
                    grid[row, column], sharey=self.axes[-column] if share and column else None
                )
                axes.set_title(title, pad=4)
                axes.grid(color=_RULE, linewidth=0.5)
                if share and column:
                    axes.tick_params(labelleft=False)
                self.axes.append(axes)

    def label(self, x: str, y: str) -> None:
        """Label x below the last panel of every column, and y beside the first panel of every row.

        Labels of the `Look` come first.
        """
        x = x if self.look.xlabel is None else self.look.xlabel
        y = y if self.look.ylabel is None else self.look.ylabel
        axes = iter(self.axes)
        for titles, below in zip(self.rows, [*self.rows[1:], ()], strict=True):
            for column, panel in zip(range(len(titles)), axes, strict=False):
                if column >= len(below):
                    panel.set_xlabel(_wrapped(x.split(", "), int(0.7 * self.panel_width / _LETTER)))
                if not column:
                    panel.set_ylabel("\n".join(textwrap.wrap(y, int(0.85 * self.panel_height / _LETTER))))

    def legend(self, entries: Mapping[str, Style], lines: bool = True) -> None:
        """Add one legend below the panels, in as many columns as fit, and increase the height of the figure by it."""
        without_line = {} if lines else {"linestyle": "none"}
        handles = [Line2D([], [], **(_line_keywords(style) | without_line)) for style in entries.values()]
        renderer = self.figure.canvas.get_renderer()  # type: ignore[attr-defined]
        for columns in range(min(len(entries), 6), 0, -1):
            columns = math.ceil(len(entries) / math.ceil(len(entries) / columns))  # equally long for this many rows
            look = {"frameon": False, "handlelength": 2.6 if lines else 1, "columnspacing": 1.4}
            legend = self.figure.legend(handles, [*entries], loc="outside lower center", ncols=columns, **look)
            extent = legend.get_window_extent(renderer)
            if extent.width <= self.figure.bbox.width * 0.94 or columns == 1:
                self.figure.set_size_inches(self.width, self.height + extent.height / self.figure.dpi)
                return
            legend.remove()


def legend_panels(
    legend: Legend, look: Look, parts: Sequence[str] = ("",), share: bool = False
) -> tuple[Panels, list[list[tuple[Panel, str, Axes]]]]:
    """The panels of a legend, one for each of `parts`, which end their titles; and these with a common y axis.

    Each dataset begins a row where it has several panels. With several parts, a row has one panel.
    """
    by_data: dict[Any, list[Panel]] = {}
    for panel in legend.panels:
        by_data.setdefault(panel.data, []).append(panel)
    alike = len(by_data) < len(legend.panels) or len(legend.panels) == 1  # so that panels of a row can share the y axis
    columns = 3 if look.inches(len(legend.panels)) >= 5 else 1
    rows = [
        row
        for panels in (by_data.values() if alike else [[*legend.panels]])
        for row in in_rows(panels, 2 if columns > 2 and len(panels) == 4 else columns)
    ]
    if len(parts) > 1:
        rows = [[panel] for panel in legend.panels]
    places = [[(panel, part) for panel in row for part in parts] for row in rows]
    titles = [[f"{panel.title}, {part}".removesuffix(", ") for panel, part in row] for row in places]
    share = share or len(parts) > 1 or alike
    panels = Panels(titles, look, share)
    axes = iter(panels.axes)
    by_row = [[(*place, next(axes)) for place in row] for row in places]
    return panels, by_row if share else [[place] for row in by_row for place in row]


def in_rows(items: Sequence[Any], columns: int) -> list[list[Any]]:
    """Items in rows of so many columns."""
    return [list(items[first : first + columns]) for first in range(0, len(items), columns)]


def _of_equal_height(titles: Sequence[str]) -> list[str]:
    """The titles with as many lines as the longest, so that all begin at one height."""
    most = max(title.count("\n") for title in titles)
    return [title + "\n" * (most - title.count("\n")) for title in titles]


def _wrapped(parts: Iterable[str], letters: int) -> str:
    """Parts of a title in lines of at most so many letters, wrapped behind commas where possible."""
    lines: list[str] = []
    for part in parts:
        if lines and len(lines[-1]) + 2 + len(part) <= letters:
            lines[-1] += f", {part}"
        else:
            lines += textwrap.wrap(part, letters)
    return "\n".join(lines)
