"""A final metric against one setting, with intervals: how much unfairness is tolerated, how many rankers there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ol2r_cli.report.figures import names
from ol2r_cli.report.figures.legend import Legend
from ol2r_cli.report.figures.options import NothingToDraw, Width, known_metric
from ol2r_cli.report.figures.sheet import Sheet, drawn
from ol2r_cli.report.figures.varying import chosen, put, values_of
from ol2r_cli.report.groups import Group
from ol2r_cli.report.labels import Labels
from ol2r_cli.report.override import text
from ol2r_cli.report.statistics import Estimate

MOST = 16  # curves
_LOG = 10  # a setting whose values are further apart is drawn on a logarithmic axis
Curves = Mapping[str, Mapping[str, Estimate]]  # label -> value of the setting, as text -> metric


def setting(
    groups: Sequence[Group], labels: Labels, x: str | None = None, metric: str = "test_ndcg_10", width: Width = None
) -> Figure:
    """A curve for groups that differ in nothing but the setting `x`; without it, the one setting they differ in."""
    known_metric("metric", metric, groups)
    groups = [group for group in groups if group.estimate(metric)]
    (x,) = chosen(groups, labels, [x], ["x"])
    groups = [group for group in groups if x in group.settings]
    legend = Legend(groups, labels, without=(x,))
    if len(legend.entries()) > MOST:
        raise ValueError(f"a figure must have at most {MOST} curves, got {len(legend.entries())}: name fewer folders")
    curves = {panel: _curves(members, legend, x, metric) for panel, members in legend.panels.items()}
    if all(len(points) < 2 for own in curves.values() for points in own.values()):
        raise NothingToDraw(f"no groups differ in {x} alone")
    values = values_of(groups, x)
    rows = legend.rows(width)
    sheet = Sheet([[legend.title(panel) for panel in row] for row in rows], width, share=legend.in_rows)
    for axes, panel in zip(sheet.axes, [panel for row in rows for panel in row], strict=True):
        _draw_curves(axes, curves[panel], legend, values)
        _ticks(axes, values)
    sheet.label(names.axis(x), names.metric(metric))
    sheet.legend(legend.entries())
    return sheet.figure


def _curves(members: Sequence[Group], legend: Legend, x: str, metric: str) -> Curves:
    curves: dict[str, dict[str, Estimate]] = {}
    for group in members:
        put(curves.setdefault(legend.label(group), {}), text(group.settings[x]), group, metric, legend.label(group))
    return curves


def _draw_curves(axes: Axes, curves: Curves, legend: Legend, values: Sequence[Any]) -> None:
    places = dict(zip(map(text, values), _places(values), strict=True))
    for label, points in curves.items():
        order = [value for value in places if value in points]
        means = [points[value].mean for value in order]
        halves = [points[value].half_width or 0.0 for value in order]
        at = [places[value] for value in order]
        look = drawn(legend.entries()[label])
        axes.errorbar(at, means, yerr=halves if any(halves) else None, label=label, capsize=2, elinewidth=0.8, **look)


def _places(values: Sequence[Any]) -> list[float]:
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    return [float(value) for value in values] if numbers else [float(place) for place in range(len(values))]


def _ticks(axes: Axes, values: Sequence[Any]) -> None:
    places = _places(values)
    if min(places) > 0 and max(places) >= _LOG * min(places) and places != list(range(len(places))):
        axes.set_xscale("log")
        axes.minorticks_off()
    axes.set_xticks(places, [names.value(value) for value in values])
