"""A final metric over two settings as a heat map: figures 7 and 8 of P2NeurRank (Jia and Wang, 2022), N x nu^2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ol2r_cli.report.figures import names
from ol2r_cli.report.figures.legend import Legend
from ol2r_cli.report.figures.look import FONT
from ol2r_cli.report.figures.options import NothingToDraw, Width, known_metric
from ol2r_cli.report.figures.sheet import Sheet
from ol2r_cli.report.figures.styles import INK
from ol2r_cli.report.figures.varying import chosen, put, values_of
from ol2r_cli.report.groups import Group
from ol2r_cli.report.labels import Labels
from ol2r_cli.report.statistics import Estimate

_CELL = 0.45  # inches: height


def grid(
    groups: Sequence[Group],
    labels: Labels,
    x: str | None = None,
    y: str | None = None,
    metric: str = "test_ndcg_10",
    width: Width = None,
) -> Figure:
    """A panel for groups that differ in nothing else; the numbers stand in the cells. All panels share the colours."""
    known_metric("metric", metric, groups)
    groups = [group for group in groups if group.estimate(metric)]
    x, y = chosen(groups, labels, [x, y], ["x", "y"])
    groups = [group for group in groups if x in group.settings and y in group.settings]
    if not groups:
        raise NothingToDraw(f"no group has both {x} and {y}")
    legend = Legend(groups, labels, without=(x, y))
    panels: dict[str, dict[tuple[int, int], Estimate]] = {}
    across, up = values_of(groups, x), values_of(groups, y)
    for panel, members in legend.panels.items():
        for group in members:
            title = f"{legend.title(panel)}, {legend.label(group)}"
            place = up.index(group.settings[y]), across.index(group.settings[x])
            put(panels.setdefault(title, {}), place, group, metric, title)
    each = 3 if len(panels) != 4 else 2
    titles = [[*panels][first : first + each] for first in range(0, len(panels), each)]
    sheet = Sheet(titles, width)
    sheet.proportion([max(_CELL * len(up), 1.0)] * len(titles))
    means = [estimate.mean for cells in panels.values() for estimate in cells.values()]
    for axes, cells in zip(sheet.axes, panels.values(), strict=True):
        image = _draw_cells(axes, cells, (len(up), len(across)), (min(means), max(means)))
        axes.set_xticks([place + 0.5 for place in range(len(across))], [names.value(value) for value in across])
        axes.set_yticks([place + 0.5 for place in range(len(up))], [names.value(value) for value in up])
        axes.tick_params(length=0)
    sheet.label(names.axis(x), names.axis(y))
    bar = sheet.figure.colorbar(image, ax=sheet.axes, shrink=0.9, aspect=14, pad=0.02)
    bar.set_label(names.metric(metric))
    bar.outline.set_linewidth(0)
    return sheet.figure


def _draw_cells(
    axes: Axes, cells: Mapping[tuple[int, int], Estimate], shape: tuple[int, int], extent: tuple[float, float]
) -> Any:
    means = np.full(shape, np.nan)
    for place, estimate in cells.items():
        means[place] = estimate.mean
    low, high = extent if extent[0] < extent[1] else (extent[0] - 0.5, extent[1] + 0.5)
    image = axes.pcolormesh(means, cmap="cividis", vmin=low, vmax=high, edgecolors="white", linewidth=1)
    axes.grid(visible=False)
    for (row, column), estimate in cells.items():
        dark = estimate.mean < low + 0.55 * (high - low)
        half = estimate.half_width
        digits = 3 if high < 10 else 1 if high < 1000 else 0
        said = f"{estimate.mean:,.{digits}f}" + ("" if half is None else f"\n± {half:,.{digits}f}")
        axes.text(
            column + 0.5, row + 0.5, said, ha="center", va="center", fontsize=FONT - 2, color="white" if dark else INK
        )
    return image
