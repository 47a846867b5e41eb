"""Panels of a figure with one legend below, which fit a column (3.3 in) or a page (7 in), and how lines are drawn."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator

from ol2r_cli.report.figures.drawing import FONT, Look
from ol2r_cli.report.figures.legend import Legend, Panel, Style

_LETTER = FONT * 0.56 / 72  # inches: a letter of this font, on average
_TITLE = 0.28  # inches: height of a title with the space around it
_RULE = "#d5d5d6"  # lines behind the data


def plot(axes: Axes, x: Any, y: Any, style: Style, number: int, curves: int, name: str | None = None) -> None:
    """One of several curves, with about five markers, beside those of the other curves."""
    step = max(len(x) // 5, 1)
    axes.plot(x, y, **line_keywords(style), markevery=(number * step // max(curves, 1), step), label=name)


def line_keywords(style: Style) -> dict[str, Any]:
    """A style as keywords of `Axes.plot`."""
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
        self.rows, self.share = titles, share
        self.width = look.inches(sum(map(len, titles)))
        columns = max(map(len, titles))
        self.panel_width = self.width / columns
        self.panel_height = max(self.panel_width * height, 1.3)
        self.height = len(titles) * (self.panel_height + _TITLE)
        self.figure = Figure(figsize=(self.width, self.height), layout="constrained")
        self.figure.get_layout_engine().set(w_pad=0.05, h_pad=0.04)  # type: ignore[union-attr, call-arg]
        FigureCanvasAgg(self.figure)
        grid = self.figure.add_gridspec(len(titles), columns)
        self.axes: list[Axes] = []
        for row, of_row in enumerate(titles):
            first = None
            for column, title in enumerate(of_row):
                axes = self.figure.add_subplot(grid[row, column], sharey=first if share else None)
                first = first or axes
                axes.set_title(_wrapped(title, int((self.panel_width - 0.35) / _LETTER)), pad=4)
                axes.grid(color=_RULE, linewidth=0.5)
                if share and column:
                    axes.tick_params(labelleft=False)
                self.axes.append(axes)

    def set_row_heights(self, height: float) -> None:
        """Rows of this height, in inches."""
        self.height = (height + _TITLE) * len(self.rows) + 0.3
        self.figure.set_size_inches(self.width, self.height)

    def label(self, x: str, y: str) -> None:
        """Label x below the last panel of every column, and y beside the first panel of every row."""
        axes = iter(self.axes)
        for row, titles in enumerate(self.rows):
            columns_below = len(self.rows[row + 1]) if row + 1 < len(self.rows) else 0
            for column in range(len(titles)):
                panel = next(axes)
                if column >= columns_below:
                    panel.set_xlabel(_wrapped(x, int(0.7 * self.panel_width / _LETTER)))
                if not column:
                    panel.set_ylabel("\n".join(textwrap.wrap(y, int(0.85 * self.panel_height / _LETTER))))

    def set_rounds(self, axes: Axes, last: int, scale: str) -> None:
        """Let the x axis of a panel show rounds from 0 to `last`, or with `scale` log from 1."""
        ticks = 4 if self.panel_width < 3 else 5
        axes.set_xscale(scale)
        axes.set_xlim(0 if scale == "linear" else 1, last)
        locator = MaxNLocator(ticks, integer=True) if scale == "linear" else LogLocator(numticks=ticks)
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))

    def legend(self, entries: Mapping[str, Style], lines: bool = True) -> None:
        """Add one legend below the panels, in as many columns as fit, and increase the height of the figure by it."""
        without_line = {} if lines else {"linestyle": "none"}
        handles = [Line2D([], [], **(line_keywords(style) | without_line)) for style in entries.values()]
        renderer = self.figure.canvas.get_renderer()  # type: ignore[attr-defined]
        for columns in range(min(len(entries), 6), 0, -1):
            columns = math.ceil(len(entries) / math.ceil(len(entries) / columns))  # equally long for this many rows
            look = {"frameon": False, "handlelength": 2.6 if lines else 1, "columnspacing": 1.4}
            legend = self.figure.legend(handles, [*entries], loc="outside lower center", ncols=columns, **look)
            extent = legend.get_window_extent(renderer)
            if extent.width <= self.figure.bbox.width * 0.94 or columns == 1:
                self.height += extent.height / self.figure.dpi
                self.figure.set_size_inches(self.width, self.height)
                return
            legend.remove()


class LegendPanels(Panels):
    """The panels of a legend, one for each of `parts`, which end their titles. With several parts, a row has one panel.

    sharing: panels, their parts and axes, with a common y axis.
    """

    def __init__(self, legend: Legend, look: Look, parts: Sequence[str] = ("",), share: bool = False):
        columns = 3 if look.inches(len(legend.panels)) >= 5 else 1
        rows: list[list[Panel]] = legend.rows(columns) if len(parts) == 1 else [[panel] for panel in legend.panels]
        places = [[(panel, part) for panel in row for part in parts] for row in rows]
        titles = [[f"{legend.title(panel)}, {part}".removesuffix(", ") for panel, part in row] for row in places]
        super().__init__(titles, look, share or len(parts) > 1 or legend.shares_rows)
        axes = iter(self.axes)
        by_row = [[(*place, next(axes)) for place in row] for row in places]
        self.sharing = by_row if self.share else [[place] for row in by_row for place in row]


def _wrapped(title: str, letters: int) -> str:
    """A title in lines of at most so many letters, wrapped behind commas where possible."""
    lines: list[str] = []
    for part in title.split(", "):
        if lines and len(lines[-1]) + 2 + len(part) <= letters:
            lines[-1] += f", {part}"
        else:
            lines += textwrap.wrap(part, letters)
    return "\n".join(lines)
