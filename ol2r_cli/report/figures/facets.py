"""One metric against the settings in which groups differ: curves over one setting, a heat map over two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ol2r_cli.config.overrides import as_typed
from ol2r_cli.formatting import plus_minus
from ol2r_cli.report.estimates import Estimate
from ol2r_cli.report.figures import paper_names
from ol2r_cli.report.figures.kinds import PLAIN, Look, NothingToDraw
from ol2r_cli.report.figures.layout import Panels
from ol2r_cli.report.figures.legend import Legend, in_rows
from ol2r_cli.report.figures.style import FONT, INK, line_keywords
from ol2r_cli.report.labels import Labels
from ol2r_cli.report.measures import axis_label, check_metrics, ndcg_metrics
from ol2r_cli.report.run_groups import Group

MOST_CURVES = 16
_LOG = 10  # the axis of a setting is logarithmic where its values are further apart
_CELL = 0.45  # inches: height
Curves = Mapping[str, Mapping[str, Estimate]]  # label -> value of the setting, as text -> metric


def setting(
    groups: Sequence[Group], labels: Labels, x: str | None = None, metric: str = "", look: Look = PLAIN
) -> Figure:
    """A curve for groups that differ in the setting `x` only; without `x`, in the only setting that differs."""
    metric = metric or ndcg_metrics(groups)[0]
    check_metrics([metric], groups, "metric")
    groups = [group for group in groups if group.estimate(metric)]
    (x,) = _axis_settings(groups, labels, [x], ["x"])
    groups = [group for group in groups if x in group.settings]
    legend = Legend(groups, labels, without=(x,))
    if len(legend.entries()) > MOST_CURVES:
        raise ValueError(
            f"a figure must have at most {MOST_CURVES} curves, got {len(legend.entries())}: name fewer folders"
        )
    curves = {panel: _curves(members, legend, x, metric) for panel, members in legend.panels.items()}
    if all(len(points) < 2 for of_panel in curves.values() for points in of_panel.values()):
        raise NothingToDraw(f"no groups differ in {x} alone")
    values = _values(groups, x)
    rows = legend.rows(look.width)
    panels = Panels([[legend.title(panel) for panel in row] for row in rows], look.width, share=legend.shares_rows)
    for axes, panel in zip(panels.axes, [panel for row in rows for panel in row], strict=True):
        _draw_curves(axes, curves[panel], legend, values, look)
        _set_ticks(axes, values)
    panels.label(paper_names.axis(x), axis_label(metric))
    panels.legend(legend.entries())
    return panels.figure


def grid(
    groups: Sequence[Group],
    labels: Labels,
    x: str | None = None,
    y: str | None = None,
    metric: str = "",
    look: Look = PLAIN,
) -> Figure:
    """A panel for groups that differ in two settings only, with numbers in the cells. All panels share the colours."""
    metric = metric or ndcg_metrics(groups)[0]
    check_metrics([metric], groups, "metric")
    groups = [group for group in groups if group.estimate(metric)]
    x, y = _axis_settings(groups, labels, [x, y], ["x", "y"])
    groups = [group for group in groups if x in group.settings and y in group.settings]
    if not groups:
        raise NothingToDraw(f"no group has both {x} and {y}")
    legend = Legend(groups, labels, without=(x, y))
    cells: dict[str, dict[tuple[int, int], Estimate]] = {}
    columns, rows = _values(groups, x), _values(groups, y)
    for panel, members in legend.panels.items():
        for group in members:
            title = f"{legend.title(panel)}, {legend.label(group)}"
            place = rows.index(group.settings[y]), columns.index(group.settings[x])
            _add(cells.setdefault(title, {}), place, group, metric, title)
    titles = in_rows(list(cells), 3 if len(cells) != 4 else 2)
    panels = Panels(titles, look.width)
    panels.set_row_heights([max(_CELL * len(rows), 1.0)] * len(titles))
    means = [estimate.mean for of_panel in cells.values() for estimate in of_panel.values()]
    for axes, of_panel in zip(panels.axes, cells.values(), strict=True):
        image = _draw_cells(axes, of_panel, (len(rows), len(columns)), (min(means), max(means)), look)
        axes.set_xticks([place + 0.5 for place in range(len(columns))], list(map(paper_names.value, columns)))
        axes.set_yticks([place + 0.5 for place in range(len(rows))], list(map(paper_names.value, rows)))
        axes.tick_params(length=0)
    panels.label(paper_names.axis(x), paper_names.axis(y))
    colours = panels.figure.colorbar(image, ax=panels.axes, shrink=0.9, aspect=14, pad=0.02)
    colours.set_label(axis_label(metric))
    colours.outline.set_linewidth(0)
    return panels.figure


def _axis_settings(
    groups: Sequence[Group], labels: Labels, settings: Sequence[str | None], options: Sequence[str]
) -> list[str]:
    """The settings of the axes; for None, the only settings in which groups with the same ranker differ.

    options: the names of the axes on the command line. ValueError for a setting in which groups do not differ, and
    where several remain; NothingToDraw where there are too few.
    """
    if not groups:
        raise NothingToDraw
    varying = Legend(groups, labels).varying()
    for option, name in zip(options, settings, strict=True):
        if name is not None and name not in varying:
            listed = ", ".join(varying) or "nothing: all groups have the same"
            raise ValueError(f"{option} must be a setting that groups differ in ({listed}), got {name}")
    remaining = [name for name in varying if name not in settings]
    missing = sum(name is None for name in settings)
    if len(remaining) < missing:
        raise NothingToDraw(f"these differ in {', '.join(varying) or 'nothing'}")
    if missing and len(remaining) > missing:
        raise ValueError(
            f"{' and '.join(options)} must be chosen from {', '.join(varying)}: type {options[0]}={remaining[0]}"
        )
    unused = iter(remaining)
    return [name if name is not None else next(unused) for name in settings]


def _add(cells: dict[Any, Estimate], place: Any, group: Group, metric: str, name: str) -> None:
    """Put a group at its place; ValueError where the place is taken."""
    if place in cells:
        raise ValueError(f"there must be one group for every value, got several of {name}: name fewer folders")
    estimate = group.estimate(metric)
    if estimate is not None:
        cells[place] = estimate


def _values(groups: Sequence[Group], setting_name: str) -> list[Any]:
    """The values of a setting; numbers by size, others by their text."""
    unique = {as_typed(group.settings[setting_name]): group.settings[setting_name] for group in groups}
    numbers = all(isinstance(value, int | float) for value in unique.values())
    return sorted(unique.values(), key=None if numbers else as_typed)


def _curves(members: Sequence[Group], legend: Legend, x: str, metric: str) -> Curves:
    curves: dict[str, dict[str, Estimate]] = {}
    for group in members:
        label = legend.label(group)
        _add(curves.setdefault(label, {}), as_typed(group.settings[x]), group, metric, label)
    return curves


def _draw_curves(axes: Axes, curves: Curves, legend: Legend, values: Sequence[Any], look: Look) -> None:
    positions = dict(zip(map(as_typed, values), _positions(values), strict=True))
    for label, points in curves.items():
        shown = [value for value in positions if value in points]
        halves = [look.band(points[value]) or 0.0 for value in shown]
        axes.errorbar(
            [positions[value] for value in shown],
            [points[value].mean for value in shown],
            yerr=halves if any(halves) else None,
            label=label,
            capsize=2,
            elinewidth=0.8,
            **line_keywords(legend.entries()[label]),
        )


def _positions(values: Sequence[Any]) -> list[float]:
    """Numbers at their value, others at equal distances."""
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    return [float(value) for value in values] if numbers else [float(place) for place in range(len(values))]


def _set_ticks(axes: Axes, values: Sequence[Any]) -> None:
    positions = _positions(values)
    numbers = positions != list(range(len(positions)))
    if numbers and min(positions) > 0 and max(positions) >= _LOG * min(positions):
        axes.set_xscale("log")
        axes.minorticks_off()
    axes.set_xticks(positions, list(map(paper_names.value, values)))


def _draw_cells(
    axes: Axes,
    cells: Mapping[tuple[int, int], Estimate],
    shape: tuple[int, int],
    extent: tuple[float, float],
    look: Look,
) -> Any:
    """A heat map of the means; `extent` is the range of the colours."""
    means = np.full(shape, np.nan)
    for place, estimate in cells.items():
        means[place] = estimate.mean
    low, high = extent if extent[0] < extent[1] else (extent[0] - 0.5, extent[1] + 0.5)
    image = axes.pcolormesh(means, cmap="cividis", vmin=low, vmax=high, edgecolors="white", linewidth=1)
    axes.grid(visible=False)
    digits = 3 if high < 10 else 1 if high < 1000 else 0
    for (row, column), estimate in cells.items():
        dark = estimate.mean < low + 0.55 * (high - low)
        number = plus_minus(estimate.mean, look.band(estimate), digits, separator=",").replace(" ±", "\n±")
        colour = "white" if dark else INK
        axes.text(column + 0.5, row + 0.5, number, ha="center", va="center", fontsize=FONT - 2, color=colour)
    return image
