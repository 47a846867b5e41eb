"""Final metrics with 95 % intervals: bars from zero, the time of a round, and points of two metrics."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from ol2r_cli.formatting import plus_minus
from ol2r_cli.report.estimates import Estimate, over_folds
from ol2r_cli.report.figures.kinds import PLAIN, Look, NothingToDraw, choice
from ol2r_cli.report.figures.layout import Panels
from ol2r_cli.report.figures.legend import Legend
from ol2r_cli.report.figures.style import FONT, INK, Style, line_keywords
from ol2r_cli.report.labels import Labels
from ol2r_cli.report.measures import axis_label, check_metrics, ndcg_metrics
from ol2r_cli.report.run_groups import Group
from ol2r_cli.run.run import Run

MOST_BARS = 40  # in a panel
_BAR = 0.17  # inches
_GAP = 8  # pixels around a number, at 100 dots per inch
_LOG = 100  # the x axis of points is logarithmic where means are further apart


def bar(groups: Sequence[Group], labels: Labels, metric: str = "", look: Look = PLAIN) -> Figure:
    """A metric of summary.json, with numbers beside the bars."""
    metric = metric or ndcg_metrics(groups)[0]
    check_metrics([metric], groups, "metric")
    estimates = {group: estimate for group in groups if (estimate := group.estimate(metric)) is not None}
    return _bars(estimates, labels, axis_label(metric), look)


def running_time(groups: Sequence[Group], labels: Labels, unit: str = "seconds", look: Look = PLAIN) -> Figure:
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


def scatter(
    groups: Sequence[Group],
    labels: Labels,
    x: str = "unfairness",
    y: str = "",
    look: Look = PLAIN,
) -> Figure:
    """A point for each group, with its 95 % intervals in both directions."""
    if x == "unfairness" and not any(x in group.metrics for group in groups):
        raise NothingToDraw("there is no unfairness without two groups: name another metric, such as x=online_ndcg")
    y = y or ndcg_metrics(groups)[0]
    check_metrics([x], groups, "x")
    check_metrics([y], groups, "y")
    points = {group: (across, up) for group in groups if (across := group.estimate(x)) and (up := group.estimate(y))}
    if not points:
        raise NothingToDraw
    legend = Legend(list(points), labels)
    rows = legend.rows(look.width)
    titles = [[legend.title(panel) for panel in row] for row in rows]
    panels = Panels(titles, look.width, share=legend.shares_rows, height=0.75)
    for axes, panel in zip(panels.axes, [panel for row in rows for panel in row], strict=True):
        for group in legend.panels[panel]:
            across, up = points[group]
            axes.errorbar(
                across.mean,
                up.mean,
                xerr=look.band(across),
                yerr=look.band(up),
                label=legend.label(group),
                elinewidth=0.7,
                **line_keywords(legend.style(group)) | {"markersize": 5, "linestyle": "none"},
            )
    means = [across.mean for across, _ in points.values()]
    for axes in panels.axes:
        if min(means) > 0 and max(means) > _LOG * min(means):
            axes.set_xscale("log")
            axes.set_xlim(min(means) / 3, max(means) * 3)
        elif min(means) >= 0:  # the metric is not negative, although intervals may be
            axes.set_xlim(left=max(axes.get_xlim()[0], -0.05 * max(means)))
    panels.label(axis_label(x), axis_label(y))
    panels.legend(legend.entries(), lines=False)
    return panels.figure


def _seconds_per_round(path: Path) -> float | None:
    run = Run.read_finished(path)
    return run.manifest["seconds"] / run.rounds if run.rounds and run.manifest["seconds"] else None


def _bars(estimates: Mapping[Group, Estimate], labels: Labels, label: str, look: Look) -> Figure:
    """All panels have the same rows, in the order of the legend; the row of a missing group stays empty."""
    if not estimates:
        raise NothingToDraw
    legend = Legend(list(estimates), labels)
    positions = {name: -number for number, name in enumerate(legend.entries())}
    if len(positions) > MOST_BARS:
        raise ValueError(f"a panel must have at most {MOST_BARS} bars, got {len(positions)}: name fewer folders")
    rows = legend.rows(look.width)
    panels = Panels([[legend.title(panel) for panel in row] for row in rows], look.width)
    panels.set_row_heights([0.3 + _BAR * len(positions)] * len(rows))
    for axes, panel in zip(panels.axes, [panel for row in rows for panel in row], strict=True):
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
    axes.annotate(
        _number(mean, half), (end, position), (3, 0), textcoords="offset points", va="center", fontsize=FONT - 2
    )


def _number(mean: float, half: float | None) -> str:
    """Three significant digits of the mean, and as many decimals for its interval."""
    size = abs(mean) or half
    digits = min(max(2 - math.floor(math.log10(size)), 0), 4) if size else 0
    return plus_minus(mean, half, digits, separator=",")
