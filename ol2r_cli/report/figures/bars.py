"""Final metrics with intervals: bars from zero, the time of a round, and a metric against a setting."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from ol2r_cli.config.overrides import as_typed
from ol2r_cli.formatting import plus_minus
from ol2r_cli.report.estimates import Estimate, over_folds
from ol2r_cli.report.figures.drawing import FONT, Look, NothingToDraw, choice
from ol2r_cli.report.figures.panels import LegendPanels, Panels, line_keywords
from ol2r_cli.report.measures import axis_label, check_metrics, ndcg_metrics
from ol2r_cli.report.names import INK, Labels, Legend, Style, axis_name, value_name
from ol2r_cli.report.run_groups import Group
from ol2r_cli.run.run import Run

MOST_BARS = 40  # in a panel
MOST_CURVES = 16
_BAR = 0.17  # inches
_GAP = 8  # pixels around a number, at 100 dots per inch
_LOG = 10  # the axis of a setting is logarithmic where its values are further apart


def bar(groups: Sequence[Group], labels: Labels, look: Look, metric: str = "") -> Figure:
    """A metric of summary.json, with numbers beside the bars."""
    metric, estimates = _estimates(groups, metric)
    return _bars(estimates, labels, axis_label(metric), look)


def running_time(groups: Sequence[Group], labels: Labels, look: Look, unit: str = "seconds") -> Figure:
    """Wall-clock time of a run over its rounds, evaluation included, in milliseconds; or rounds per second.

    Each run is one value. All replicas of a run advance in one round, so runs with equally many are comparable.
    """
    unit = choice("unit", unit, ("seconds", "rounds"))
    estimates = {}
    for group in groups:
        values = [value for run in group.runs if (value := _seconds_per_round(run.path)) is not None]
        values = [1e3 * value if unit == "seconds" else 1 / value for value in values]
        if (estimate := over_folds({None: [Estimate(value, None, 1) for value in values]})) is not None:
            estimates[group] = estimate
    replicas = sorted({len(run.seeds) for group in estimates for run in group.runs})
    extent = "one replica" if replicas == [1] else f"{' or '.join(map(str, replicas))} replicas together"
    label = "milliseconds per round" if unit == "seconds" else "rounds per second"
    return _bars(estimates, labels, f"{label}, {extent}", look)


def setting(groups: Sequence[Group], labels: Labels, look: Look, x: str | None = None, metric: str = "") -> Figure:
    """A curve for groups that differ in the setting `x` only; without `x`, in the only setting that differs."""
    metric, estimates = _estimates(groups, metric)
    x = _varying_setting(list(estimates), labels, x)
    estimates = {group: estimate for group, estimate in estimates.items() if x in group.settings}
    legend = Legend(list(estimates), labels, without=(x,))
    if len(legend.styles) > MOST_CURVES:
        raise ValueError(
            f"a figure must have at most {MOST_CURVES} curves, got {len(legend.styles)}: name fewer folders"
        )
    values, positions = _values_and_positions([group.settings[x] for group in estimates])
    panels = LegendPanels(legend, look)
    longest = 0
    for panel, _, axes in (place for row in panels.sharing for place in row):
        for label in dict.fromkeys(map(legend.label, legend.panels[panel])):
            members = [group for group in legend.panels[panel] if legend.label(group) == label]
            points = {as_typed(group.settings[x]): estimates[group] for group in members}
            if len(points) < len(members):
                raise ValueError(f"there must be one group for every value, got several of {label}: name fewer folders")
            longest = max(longest, len(points))
            shown = [value for value in map(as_typed, values) if value in points]
            halves = [look.band(points[value]) or 0.0 for value in shown]
            axes.errorbar(
                [positions[value] for value in shown],
                [points[value].mean for value in shown],
                yerr=halves if any(halves) else None,
                label=label,
                capsize=2,
                elinewidth=0.8,
                **line_keywords(legend.styles[label]),
            )
        _set_ticks(axes, list(positions.values()), values)
    if longest < 2:
        raise NothingToDraw(f"no groups differ in {x} alone")
    panels.label(axis_name(x), axis_label(metric))
    panels.legend(legend.styles)
    return panels.figure


def _estimates(groups: Sequence[Group], metric: str) -> tuple[str, dict[Group, Estimate]]:
    """A metric, by default test NDCG, of the groups that have it; ValueError for one that no group knows."""
    metric = metric or ndcg_metrics(groups)[0]
    check_metrics([metric], groups, "metric")
    estimates = {group: estimate for group in groups if (estimate := group.estimate(metric)) is not None}
    if not estimates:
        raise NothingToDraw
    return metric, estimates


def _seconds_per_round(path: Path) -> float | None:
    run = Run.read_finished(path)
    return run.manifest["seconds"] / run.rounds if run.rounds and run.manifest["seconds"] else None


def _bars(estimates: Mapping[Group, Estimate], labels: Labels, label: str, look: Look) -> Figure:
    """All panels have the same rows, in the order of the legend; the row of a missing group stays empty."""
    if not estimates:
        raise NothingToDraw
    legend = Legend(list(estimates), labels)
    positions = {name: -number for number, name in enumerate(legend.styles)}
    if len(positions) > MOST_BARS:
        raise ValueError(f"a panel must have at most {MOST_BARS} bars, got {len(positions)}: name fewer folders")
    panels = LegendPanels(legend, look, share=True)
    panels.set_row_heights(0.3 + _BAR * len(positions))
    for panel, _, axes in (place for row in panels.sharing for place in row):
        for group in legend.panels[panel]:
            half = look.band(estimates[group])
            _draw_bar(axes, positions[legend.label(group)], estimates[group].mean, half, legend.style(group))
        axes.set_yticks(list(positions.values()), list(positions))
        axes.set_ylim(0.6 - len(positions), 0.6)
        axes.tick_params(axis="y", length=0)
        axes.grid(visible=False, axis="y")
        axes.set_xlim(min(0.0, *(1.1 * estimate.mean for estimate in estimates.values())))
        axes.xaxis.set_major_locator(MaxNLocator(3))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    panels.label(label, "")
    _make_room(panels)
    return panels.figure


def _make_room(panels: Panels) -> None:
    """Widen the common x axis until the numbers beside the bars fit into all panels."""
    panels.figure.draw_without_rendering()
    renderer = panels.figure.canvas.get_renderer()  # type: ignore[attr-defined]
    low = min(axes.get_xlim()[0] for axes in panels.axes)
    high = max(axes.get_xlim()[1] for axes in panels.axes)
    for axes in panels.axes:
        panel_width = axes.get_window_extent(renderer).width
        for text in axes.texts:
            taken = text.get_window_extent(renderer).width + _GAP
            high = max(high, low + (text.xy[0] - low) / max(1 - taken / panel_width, 0.2))  # type: ignore[attr-defined]
    for axes in panels.axes:
        axes.set_xlim(low, high)


def _draw_bar(axes: Axes, position: int, mean: float, half: float | None, style: Style) -> None:
    hatch = "////" if style.hollow else ""
    axes.barh(position, mean, 0.72, color=style.colour, hatch=hatch, edgecolor="white", lw=0)
    if half:
        axes.errorbar(mean, position, xerr=half, fmt="none", ecolor=INK, elinewidth=0.8, capsize=1.8)
    end = max(mean + (half or 0), 0)
    size = abs(mean) or half
    digits = min(max(2 - math.floor(math.log10(size)), 0), 4) if size else 0  # three significant ones of the mean
    number = plus_minus(mean, half, digits, separator=",")
    axes.annotate(number, (end, position), (3, 0), textcoords="offset points", va="center", fontsize=FONT - 2)


def _varying_setting(groups: Sequence[Group], labels: Labels, x: str | None) -> str:
    """The setting of the x axis; for None the only one in which groups with the same ranker differ."""
    varying = Legend(groups, labels).varying()
    if x is not None and x not in varying:
        listed = ", ".join(varying) or "nothing: all groups have the same"
        raise ValueError(f"x must be a setting that groups differ in ({listed}), got {x}")
    if x is None and not varying:
        raise NothingToDraw("these differ in nothing")
    if x is None and len(varying) > 1:
        raise ValueError(f"x must be chosen from {', '.join(varying)}: type x={varying[0]}")
    return varying[0] if x is None else x


def _values_and_positions(values: Sequence[Any]) -> tuple[list[Any], dict[str, float]]:
    """The values of a setting and their places: numbers at their value, others by their text, equally far apart."""
    unique = {as_typed(value): value for value in values}
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    ordered = sorted(unique.values(), key=None if numbers else as_typed)
    return ordered, {as_typed(v): float(v) if numbers else float(place) for place, v in enumerate(ordered)}


def _set_ticks(axes: Axes, positions: Sequence[float], values: Sequence[Any]) -> None:
    numbers = positions != list(range(len(positions)))
    if numbers and min(positions) > 0 and max(positions) >= _LOG * min(positions):
        axes.set_xscale("log")
        axes.minorticks_off()
    axes.set_xticks(positions, list(map(value_name, values)))
