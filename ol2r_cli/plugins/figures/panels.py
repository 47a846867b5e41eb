"""Panels of figures with titles, labels and one legend, in the width of a column (3.3 in) or of a page (7 in)."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from itertools import chain, product
from typing import Any, NamedTuple, TypeVar

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec
from matplotlib.lines import Line2D

from ol2r_cli.plugins.figures.look import FONT, Look
from ol2r_cli.report.names import Legend, Panel
from ol2r_cli.report.styles import Style

AS_TYPED: Mapping[str, Any] = {"parse_math": False}  # of text in which users may have typed a $
HEIGHT, HIGH = 0.66, 1.1  # of a panel, as shares of its width; high panels are those of many curves
_TITLE = 0.28  # inches: height of a title with the space around it
_LETTER = FONT * 0.56 / 72  # inches: a letter of this font, on average
_LINE = FONT * 1.2 / 72  # inches: a line of a title
_RULE = "#d5d5d6"  # lines behind the data
Item = TypeVar("Item")


def plot(axes: Axes, x: Any, y: Any, style: Style, number: int, curves: int, name: str | None = None) -> None:
    """Draw one of several curves, with about five markers, beside those of the other curves."""
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
    """Return colours of the scale viridis from one position in [0, 1] to another."""
    colours = matplotlib.colormaps["viridis"](np.linspace(first, last, count))
    return [to_hex(colour) for colour in colours]


class Panels:
    """Panels in rows.

    titles: those of the panels, row by row. share: whether the panels of a row share the y axis. height: that of a
    panel, as a share of its width. axes: of all panels, row by row. ticks: how many an axis of numbers has at most.
    """

    def __init__(self, titles: Sequence[Sequence[str]], look: Look, share: bool = True, height: float = HEIGHT):
        self.look = look
        self.width = look.inches(sum(map(len, titles)))
        columns = max(map(len, titles))
        self.panel_width = self.width / columns
        self.ticks = 4 if self.panel_width < 3 else 5
        self.panel_height = max(self.panel_width * height, 1.3)
        letters = int((self.panel_width - 0.35) / _LETTER)
        wrapped = [_of_equal_height([_wrapped(title, letters) for title in row]) for row in titles]
        further_lines = sum(row[0].count("\n") for row in wrapped)
        self.titles_height = len(titles) * _TITLE + further_lines * _LINE
        self.height = len(titles) * self.panel_height + self.titles_height
        self.figure = Figure(figsize=(self.width, self.height), layout="constrained")
        self.figure.get_layout_engine().set(w_pad=0.05, h_pad=0.04)  # type: ignore[union-attr, call-arg]
        FigureCanvasAgg(self.figure)
        grid = self.figure.add_gridspec(len(titles), columns)
        self.rows = [self._row(row_titles, grid, row, share) for row, row_titles in enumerate(wrapped)]
        self.axes = list(chain.from_iterable(self.rows))

    def _row(self, titles: Sequence[str], grid: GridSpec, row: int, share: bool) -> list[Axes]:
        """Return the panels of a row, with titles and lines behind the data."""
        panels: list[Axes] = []
        for column, title in enumerate(titles):
            first = panels[0] if share and panels else None
            axes = self.figure.add_subplot(grid[row, column], sharey=first)
            axes.set_title(title, pad=4, **AS_TYPED)
            axes.grid(color=_RULE, linewidth=0.5)
            if first is not None:
                axes.tick_params(labelleft=False)
            panels.append(axes)
        return panels

    def set_panel_height(self, inches: float) -> None:
        """Give the rows another height, with some space below the last."""
        self.height = inches * len(self.rows) + 0.3 + self.titles_height
        self.figure.set_size_inches(self.width, self.height)

    def label(self, x: str, y: str) -> None:
        """Label x below the last panel of every column, and y beside the first panel of every row.

        Labels of the `Look` come first.
        """
        x = x if self.look.xlabel is None else self.look.xlabel
        y = y if self.look.ylabel is None else self.look.ylabel
        x = _wrapped(x, int(0.7 * self.panel_width / _LETTER))
        y = "\n".join(textwrap.wrap(y, int(0.85 * self.panel_height / _LETTER)))
        for row, row_below in zip(self.rows, [*self.rows[1:], []], strict=True):
            for axes in row[len(row_below) :]:
                axes.set_xlabel(x, **AS_TYPED)
            row[0].set_ylabel(y, **AS_TYPED)

    def legend(self, entries: Mapping[str, Style], lines: bool = True) -> None:
        """Add one legend below the panels, in as many columns as fit, and increase the height of the figure by it."""
        without_line = {} if lines else {"linestyle": "none"}
        handles = [Line2D([], [], **(_line_keywords(style) | without_line)) for style in entries.values()]
        look = {"frameon": False, "handlelength": 2.6 if lines else 1, "columnspacing": 1.4}
        renderer = self.figure.canvas.get_renderer()  # type: ignore[attr-defined]
        for most_columns in range(min(len(entries), 6), 0, -1):
            rows = math.ceil(len(entries) / most_columns)
            columns = math.ceil(len(entries) / rows)  # equally long
            blank = [" "] * len(entries)  # matplotlib leaves out names that begin with _
            legend = self.figure.legend(handles, blank, loc="outside lower center", ncols=columns, **look)
            for text, name in zip(legend.get_texts(), entries, strict=True):
                text.set(text=name, **AS_TYPED)
            extent = legend.get_window_extent(renderer)
            if extent.width <= self.figure.bbox.width * 0.94 or columns == 1:
                self.figure.set_size_inches(self.width, self.height + extent.height / self.figure.dpi)
                return
            legend.remove()


class Place(NamedTuple):
    """One panel of a figure: the panel of the legend that it shows, the end of its title, and its axes."""

    panel: Panel
    subtitle: str
    axes: Axes


def legend_panels(
    legend: Legend, look: Look, subtitles: Sequence[str] = ("",), share: bool = False, height: float = HEIGHT
) -> tuple[Panels, list[list[Place]]]:
    """Return panels in which a figure shows those of a legend; and their places, those with a common y axis together.

    subtitles: the ends of titles, where a panel of the legend is a row of several. share: whether all panels of a row
    have a common y axis; otherwise only those of one dataset. height: that of `Panels`.
    """
    by_dataset: dict[tuple[str, ...], list[Panel]] = {}
    for panel in legend.panels:
        by_dataset.setdefault(panel.data, []).append(panel)
    rows = _rows(by_dataset, look.inches(len(legend.panels)))
    if len(subtitles) > 1:
        rows = [[panel] for panel in legend.panels]
    shown = [list(product(row, subtitles)) for row in rows]
    share = share or len(subtitles) > 1 or len(by_dataset) < len(legend.panels)
    titles = [[", ".join(filter(None, (panel.title, subtitle))) for panel, subtitle in row] for row in shown]
    panels = Panels(titles, look, share, height)
    places = [
        [Place(panel, subtitle, axes) for (panel, subtitle), axes in zip(row, row_axes, strict=True)]
        for row, row_axes in zip(shown, panels.rows, strict=True)
    ]
    return panels, places if share else [[place] for place in chain.from_iterable(places)]


def _rows(by_dataset: Mapping[tuple[str, ...], list[Panel]], width: float) -> list[list[Panel]]:
    """Return panels in rows; each dataset begins a row where one of them has several panels."""
    of_datasets = list(by_dataset.values())
    if all(len(panels) == 1 for panels in of_datasets):
        of_datasets = [list(chain.from_iterable(of_datasets))]
    return list(chain.from_iterable(in_rows(panels, width) for panels in of_datasets))


def in_rows(items: Sequence[Item], width: float) -> list[list[Item]]:
    """Return items in rows of one in the width of a column, otherwise of three; four items are two rows of two."""
    if width < 5:
        columns = 1
    elif len(items) == 4:
        columns = 2
    else:
        columns = 3
    return [list(items[first : first + columns]) for first in range(0, len(items), columns)]


def margin(low: float, high: float, share: float) -> float:
    """Return the room that an axis has beside values from `low` to `high`: a share of their extent, above 0."""
    return share * (high - low) or 0.05 * abs(high) or 0.05


def _of_equal_height(titles: Sequence[str]) -> list[str]:
    """Return the titles with as many lines as the longest, so that all begin at one height."""
    most = max(title.count("\n") for title in titles)
    return [title + "\n" * (most - title.count("\n")) for title in titles]


def _wrapped(text: str, letters: int) -> str:
    """Return a text in lines of at most so many letters, wrapped behind commas where possible."""
    lines: list[str] = []
    for words in text.split(", "):
        if lines and len(lines[-1]) + 2 + len(words) <= letters:
            lines[-1] += f", {words}"
        else:
            lines += textwrap.wrap(words, letters)
    return "\n".join(lines)
