"""Figures of a metric over the numbers of a setting: a curve for groups that differ in nothing else."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ol2r_cli.plugins.figures.curves import FAINT
from ol2r_cli.plugins.figures.look import Bounds, Look, NothingToDraw, Shown
from ol2r_cli.plugins.figures.panels import legend_panels, margin, plot
from ol2r_cli.report.estimates import Estimate
from ol2r_cli.report.measures import axis_label
from ol2r_cli.report.names import Labels, Legend, symbol
from ol2r_cli.report.run_groups import Group
from ol2r_cli.report.styles import Style

_DECADES = 10  # from the first to the last x, from which on its axis is logarithmic


@dataclass
class SettingCurve:
    """The estimates of groups that differ in one setting alone, by its number; `level` is of one without it."""

    points: dict[float, Estimate] = field(default_factory=dict)
    level: Estimate | None = None

    def over(self, xs: Sequence[float]) -> dict[float, Estimate]:
        """Return the points from left to right; a level line from the first to the last of `xs`."""
        if self.level:
            return {xs[0]: self.level, xs[-1]: self.level}
        return dict(sorted(self.points.items()))


def by_setting(shown: Shown, setting: str = "", metric: str = "") -> Figure:
    """Draw a metric of summary.json over the numbers of a setting; groups without the setting are level lines."""
    setting = shown.groups[0].run_kind.as_shown(setting)
    metric = shown.metric(metric)
    curves, called = _curves(shown, setting, metric)
    xs = sorted(set().union(*(curve.points for curve in curves.values())))
    if len(xs) < 2:
        raise NothingToDraw
    legend = Legend(list(curves), Labels(list(curves), called))
    panels, rows = legend_panels(legend, shown.look)
    for row in rows:
        extents = []
        for panel, _, axes in row:
            for group in legend.panels[panel]:
                name = legend.names[group]
                extents.append(_draw_points(axes, curves[group].over(xs), legend.styles[name], name, shown.look))
            _set_axis(axes, xs)
        low, high = min(low for low, _ in extents), max(high for _, high in extents)
        room = margin(low, high, 0.06)
        row[0].axes.set_ylim(low - room, high + room)
    panels.label(symbol(setting), axis_label(metric))
    panels.legend(legend.styles)
    return panels.figure


def _curves(shown: Shown, setting: str, metric: str) -> tuple[dict[Group, SettingCurve], dict[Group, str]]:
    """Return the curves, by their first group without the setting, and the names that some of these groups have."""
    by_rest: dict[str, tuple[Group, SettingCurve]] = {}
    called: dict[Group, str] = {}
    for group in shown.groups:
        x, estimate = group.settings.get(setting, math.nan), group.estimate(metric)
        if not isinstance(x, int | float) or not estimate:
            continue
        rest = _rest(group, setting)
        key = json.dumps([group.choices, rest], sort_keys=True, default=str)
        first, curve = by_rest.setdefault(key, (replace(group, settings=rest), SettingCurve()))
        if group in shown.labels.called:
            called.setdefault(first, shown.labels.called[group])
        if math.isnan(x):
            curve.level = estimate
        else:
            curve.points[x] = estimate
    return dict(by_rest.values()), called


def _rest(group: Group, setting: str) -> dict[str, object]:
    """Return the other settings of a group, without those that may follow this one, as exploration.l2 ranker.l2."""
    last, x = setting.rpartition(".")[2], group.settings.get(setting, math.nan)
    return {name: value for name, value in group.settings.items() if (name.rpartition(".")[2], value) != (last, x)}


def _draw_points(axes: Axes, points: Mapping[float, Estimate], style: Style, name: str, look: Look) -> Bounds:
    """Draw a curve through estimates with its band; return the lowest and the highest value of these."""
    mean = np.array([estimate.mean for estimate in points.values()])
    half = np.array([look.band(estimate) or 0.0 for estimate in points.values()])
    axes.fill_between(list(points), mean - half, mean + half, color=style.colour, alpha=FAINT, lw=0)
    plot(axes, list(points), mean, style, 0, 1, name)
    return float((mean - half).min()), float((mean + half).max())


def _set_axis(axes: Axes, xs: Sequence[float]) -> None:
    """Mark the numbers of the setting, on a logarithmic axis where they are tenfold apart."""
    if xs[0] > 0 and xs[-1] >= _DECADES * xs[0]:
        axes.set_xscale("log")
    axes.set_xticks(xs, [f"{x:,g}" for x in xs])
    axes.minorticks_off()
