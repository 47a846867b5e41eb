"""Panels of a figure with one legend below: sizes and axes that fit a column (3.3 in) or a page (7 in)."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator

from ol2r_cli.report.figures.kinds import Width, inches
from ol2r_cli.report.figures.style import LETTER, RULE, Style, line_keywords

_TITLE = 0.28  # inches: height of a title with the space around it


class Panels:
    """Panels in rows.

    rows: the titles of the panels, row by row. share: whether the panels of a row share the y axis. height: that of a
    panel, as a share of its width.
    """

    def __init__(self, rows: Sequence[Sequence[str]], width: Width, share: bool = True, height: float = 0.66):
        self.rows, self.share = rows, share
        self.width = inches(width, sum(map(len, rows)))
        self.columns = max(map(len, rows))
        self.panel_width = self.width / self.columns
        self.panel_height = max(self.panel_width * height, 1.3)
        self.height = len(rows) * (self.panel_height + _TITLE)
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
                axes.set_title(_wrapped(title, int((self.panel_width - 0.35) / LETTER)), pad=4)
                axes.grid(color=RULE, linewidth=0.5)
                if share and column:
                    axes.tick_params(labelleft=False)
                self.axes.append(axes)

    def set_row_heights(self, heights: Sequence[float]) -> None:
        """Rows of these heights, in inches, instead of equally high ones."""
        self.axes[0].get_gridspec().set_height_ratios(list(heights))  # type: ignore[union-attr]
        self.height = sum(heights) + _TITLE * len(heights) + 0.3
        self.figure.set_size_inches(self.width, self.height)

    def label(self, x: str, y: str) -> None:
        """Label x below the last panel of every column, and y beside the first panel of every row."""
        axes = iter(self.axes)
        for row, titles in enumerate(self.rows):
            columns_below = len(self.rows[row + 1]) if row + 1 < len(self.rows) else 0
            for column in range(len(titles)):
                panel = next(axes)
                if column >= columns_below:
                    panel.set_xlabel(_wrapped(x, int(0.7 * self.panel_width / LETTER)))
                if not column:
                    panel.set_ylabel("\n".join(textwrap.wrap(y, int(0.85 * self.panel_height / LETTER))))

    def set_rounds(self, panels: Sequence[Axes], last: int, scale: str = "linear") -> None:
        """Let the x axes of some panels show rounds from 0 to `last`, or with `scale` log from 1."""
        ticks = 4 if self.panel_width < 3 else 5
        for axes in panels:
            axes.set_xscale(scale)
            axes.set_xlim(0 if scale == "linear" else 1, last)
            locator = MaxNLocator(ticks, integer=True) if scale == "linear" else LogLocator(numticks=ticks)
            axes.xaxis.set_major_locator(locator)
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))

    def legend(self, entries: Mapping[str, Style], lines: bool = True) -> None:
        """Add one legend below the panels, in as many columns as fit, and increase the height of the figure by it."""
        if not entries:
            return
        without_line = {} if lines else {"linestyle": "none"}
        handles = [Line2D([], [], **(line_keywords(style) | without_line)) for style in entries.values()]
        renderer = self.figure.canvas.get_renderer()  # type: ignore[attr-defined]
        for columns in range(min(len(entries), 6), 0, -1):
            columns = math.ceil(len(entries) / math.ceil(len(entries) / columns))  # equally long for this many rows
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


def marked_points(points: int, number: int, curves: int) -> tuple[int, int]:
    """`markevery` for one of several curves: about five markers, beside those of the other curves."""
    step = max(points // 5, 1)
    return (number * step // max(curves, 1), step)


def _wrapped(title: str, letters: int) -> str:
    """A title in lines of at most so many letters, wrapped behind commas where possible."""
    lines: list[str] = []
    for part in title.split(", "):
        if lines and len(lines[-1]) + 2 + len(part) <= letters:
            lines[-1] += f", {part}"
        else:
            lines += textwrap.wrap(part, letters)
    return "\n".join(lines)
