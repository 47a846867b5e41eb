"""A figure of panels with one legend below: sizes, fonts and axes, as they fit a column (3.3 in) or a page (7 in)."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from ol2r_cli.report.figures.look import LETTER
from ol2r_cli.report.figures.options import Width, inches
from ol2r_cli.report.figures.styles import RULE, Style


class Sheet:
    """Panels in rows. Panels of one row share the y axis where `share` says so.

    `rows` are the titles of the panels, row by row; `height` is that of a panel in terms of its width.
    """

    def __init__(self, rows: Sequence[Sequence[str]], width: Width, share: bool = True, height: float = 0.66):
        self.rows, self.share = rows, share
        self.width = inches(width, sum(map(len, rows)))
        self.columns = max(map(len, rows))
        each = self.width / self.columns
        self.panel_height = max(each * height, 1.3)
        self.height = len(rows) * (self.panel_height + 0.28)
        self.figure = Figure(figsize=(self.width, self.height), layout="constrained")
        self.figure.get_layout_engine().set(w_pad=0.05, h_pad=0.04)  # type: ignore[union-attr, call-arg]
        FigureCanvasAgg(self.figure)
        grid = self.figure.add_gridspec(len(rows), self.columns)
        self.axes: list[Axes] = []
        for row, titles in enumerate(rows):
            first = None
            for column, title in enumerate(titles):
                axes = self.figure.add_subplot(grid[row, column], sharey=first if share else None)
                first = first or axes
                axes.set_title(_folded(title, int((each - 0.35) / LETTER)), pad=4)
                axes.grid(color=RULE, linewidth=0.5)
                if share and column:
                    axes.tick_params(labelleft=False)
                self.axes.append(axes)

    def proportion(self, heights: Sequence[float]) -> None:
        """Rows of these heights, in inches, instead of equally high ones."""
        self.axes[0].get_gridspec().set_height_ratios(list(heights))  # type: ignore[union-attr]
        self.height = sum(heights) + 0.28 * len(heights) + 0.3
        self.figure.set_size_inches(self.width, self.height)

    def label(self, x: str, y: str) -> None:
        """The label of x below the last panel of every column, that of y beside the first of every row."""
        place = 0
        for row, titles in enumerate(self.rows):
            below = len(self.rows[row + 1]) if row + 1 < len(self.rows) else 0
            for column in range(len(titles)):
                if column >= below:
                    self.axes[place].set_xlabel(_folded(x, int(0.7 * self.width / self.columns / LETTER)))
                if not column:
                    self.axes[place].set_ylabel("\n".join(textwrap.wrap(y, int(0.85 * self.panel_height / LETTER))))
                place += 1

    def rounds(self, last: int) -> None:
        """All x axes are rounds up to the last one."""
        for axes in self.axes:
            axes.set_xlim(0, last)
            axes.xaxis.set_major_locator(MaxNLocator(4 if self.width / self.columns < 3 else 5, integer=True))
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))

    def legend(self, entries: Mapping[str, Style], lines: bool = True) -> None:
        """One legend below the panels, in as many columns as fit, with room of its own."""
        if not entries:
            return
        handles = [handle(style, lines) for style in entries.values()]
        renderer = self.figure.canvas.get_renderer()  # type: ignore[attr-defined]
        for columns in range(min(len(entries), 6), 0, -1):
            columns = math.ceil(len(entries) / math.ceil(len(entries) / columns))  # as even as so many rows allow
            legend = self.figure.legend(
                handles,
                list(entries),
                loc="outside lower center",
                ncols=columns,
                frameon=False,
                handlelength=2.6 if lines else 1,
                columnspacing=1.4,
            )
            extent = legend.get_window_extent(renderer)
            if extent.width <= self.figure.bbox.width * 0.94 or columns == 1:
                self.height += extent.height / self.figure.dpi
                self.figure.set_size_inches(self.width, self.height)
                return
            legend.remove()


def _folded(title: str, letters: int) -> str:
    """A title in lines of so many letters, broken behind commas where that is enough."""
    lines: list[str] = []
    for part in title.split(", "):
        if lines and len(lines[-1]) + 2 + len(part) <= letters:
            lines[-1] += f", {part}"
        else:
            lines += textwrap.wrap(part, letters)
    return "\n".join(lines)


def handle(style: Style, line: bool = True) -> Line2D:
    """What stands for a style in a legend."""
    return Line2D([], [], **(drawn(style) | ({} if line else {"linestyle": "none"})))


def drawn(style: Style) -> dict[str, Any]:
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
