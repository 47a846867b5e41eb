"""Figures whose rows have names: bars of metrics, and paired differences to a baseline."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import chain

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ol2r_cli.formatting import plus_minus
from ol2r_cli.report.comparison import compare
from ol2r_cli.report.estimates import ALPHA, Estimate, of_values
from ol2r_cli.report.figures.look import FONT, Bounds, Look, NothingToDraw, Shown, choice
from ol2r_cli.report.figures.panels import Panels, legend_panels, margin
from ol2r_cli.report.legend import Legend
from ol2r_cli.report.measures import axis_label
from ol2r_cli.report.run_groups import Group
from ol2r_cli.report.styles import INK, SOLID, Style
from ol2r_cli.run.run import Run

MOST_BARS = 40  # in a panel
_BAR = 0.17  # inches
_LEAST_HEIGHT = 0.42  # inches, of a panel with named rows
_GAP = 8  # pixels around a number, at 100 dots per inch
_SPEEDS: dict[str, tuple[str, Callable[[float], float]]] = {  # the label, and the number for the seconds of a round
    "milliseconds": ("milliseconds per round", lambda seconds: 1e3 * seconds),
    "seconds": ("seconds per round", lambda seconds: seconds),
    "rounds": ("rounds per second", lambda seconds: 1 / seconds),
}


def bar(shown: Shown, metric: str = "") -> Figure:
    """Draw a metric of summary.json, by default test NDCG, with numbers beside the bars."""
    metric = shown.metric(metric)
    return _bars(shown, axis_label(metric), lambda group: group.estimate(metric))


def running_time(shown: Shown, unit: str = "milliseconds") -> Figure:
    """Draw wall-clock time of a run over its rounds, evaluation included: milliseconds, seconds, or rounds per second.

    Each run is one value. All replicas of a run advance in one round, so runs with equally many are comparable.
    """
    label, speed = _SPEEDS[choice("unit", unit, list(_SPEEDS))]
    replicas = sorted({len(run.seeds) for group in shown.groups for run in group.runs})
    extent = "one replica" if replicas == [1] else f"{' or '.join(map(str, replicas))} replicas together"

    def read(group: Group) -> Estimate | None:
        runs = [Run.read_finished(run.path) for run in group.runs]
        seconds = [run.manifest["seconds"] / run.rounds for run in runs if run.rounds and run.manifest["seconds"]]
        return of_values({(None, number): speed(of_round) for number, of_round in enumerate(seconds)})

    return _bars(shown, f"{label}, {extent}", read)


def _bars(shown: Shown, label: str, read: Callable[[Group], Estimate | None]) -> Figure:
    """Draw an estimate of each group as a bar.

    All panels have the same rows, in the order of the legend; the row of a missing group stays empty.
    """
    read_estimates = {group: read(group) for group in shown.groups}
    estimates = {group: estimate for group, estimate in read_estimates.items() if estimate is not None}
    if not estimates:
        raise NothingToDraw
    legend = Legend(list(estimates), shown.labels)
    rows = NamedRows(legend, shown.look, list(legend.styles))
    for group, axes in rows.axes.items():
        name = legend.names[group]
        _draw_bar(axes, rows.places[name], estimates[group], legend.styles[name], shown.look)
    left = min(0.0, *(1.1 * estimate.mean for estimate in estimates.values()))
    for axes in rows.panels.axes:
        axes.set_xlim(left)
        axes.xaxis.set_major_locator(MaxNLocator(3))
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.6g}")
    rows.panels.label(label, "")
    _make_room(rows.panels)
    return rows.panels.figure


def _draw_bar(axes: Axes, place: int, estimate: Estimate, style: Style, look: Look) -> None:
    """Draw a bar with its interval and its number in three significant digits."""
    mean, half = estimate.mean, look.band(estimate)
    hatch = "////" if style.hollow else ""
    axes.barh(place, mean, 0.72, color=style.colour, hatch=hatch, edgecolor="white", lw=0)
    if half:
        axes.errorbar(mean, place, xerr=half, fmt="none", ecolor=INK, elinewidth=0.8, capsize=1.8)
    size = abs(mean) or half
    digits = min(max(2 - math.floor(math.log10(size)), 0), 4) if size else 0
    axes.annotate(
        plus_minus(mean, half, digits, separator=","),
        (max(mean + (half or 0), 0), place),
        (3, 0),
        textcoords="offset points",
        va="center",
        fontsize=FONT - 2,
    )


class NamedRows:
    """Panels whose rows have names, in the same order in all of them.

    places: of the rows on the y axis, by name. axes: those of each group of the legend.
    """

    def __init__(self, legend: Legend, look: Look, names: Sequence[str]):
        if len(names) > MOST_BARS:
            raise ValueError(f"a panel must have at most {MOST_BARS} rows, got {len(names)}: name fewer folders")
        self.places = {name: -number for number, name in enumerate(names)}
        self.panels, rows = legend_panels(legend, look, share=True)
        self.panels.set_panel_height(0.3 + max(_BAR * len(names), _LEAST_HEIGHT))
        self.axes: dict[Group, Axes] = {}
        for panel, _, axes in chain.from_iterable(rows):
            self.axes |= dict.fromkeys(legend.panels[panel], axes)
            axes.set_yticks(list(self.places.values()), list(self.places))
            axes.set_ylim(0.6 - len(names), 0.6)
            axes.tick_params(axis="y", length=0)
            axes.grid(visible=False, axis="y")


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


def differences(shown: Shown, baseline: str = "", metric: str = "", test: str = "t") -> Figure:
    """Draw the differences of a metric of summary.json to the baseline of each task, with their intervals.

    A dot is filled where the difference is significant after Holm's correction for all of the figure. baseline: words
    that match one row of each task. test: t or permutation.
    """
    if not baseline:
        raise ValueError(
            "baseline must be a ranker, or choices and settings, of some row, got none: type --baseline pdgd"
        )
    metric = shown.metric(metric)
    comparison = compare(shown.groups, shown.labels, [metric], baseline, test)
    differences = {difference.group: difference for difference in comparison.differences}
    if not differences:
        raise NothingToDraw
    rivals = {difference.rival for difference in differences.values()}
    legend = Legend([*differences, *rivals], shown.labels)
    compared = {legend.names[group] for group in differences}
    rows = NamedRows(legend, shown.look, [name for name in legend.styles if name in compared])
    edges = [0.0]
    for group, difference in differences.items():
        name = legend.names[group]
        colour = legend.styles[name].colour
        fill = colour if difference.significant else "white"
        edges += _draw_dot(rows.axes[group], rows.places[name], difference.estimate, (colour, fill), shown.look)
    _set_difference_axis(rows.panels, min(edges), max(edges))
    rival_names = dict.fromkeys(name for group, name in legend.names.items() if group in rivals)
    rows.panels.label(f"{axis_label(metric)}, minus that of {' or '.join(rival_names)}", "")
    dot = Style(INK, SOLID, "o")
    entries = {f"significant, p < {ALPHA} by Holm": dot, "not significant": dot._replace(hollow=True)}
    rows.panels.legend(entries, lines=False)
    return rows.panels.figure


def _draw_dot(axes: Axes, place: int, estimate: Estimate, colours: tuple[str, str], look: Look) -> Bounds:
    """Draw a dot with its interval, in the colours of its line and its face; return the ends of the interval."""
    line, face = colours
    half = look.band(estimate) or 0.0
    axes.errorbar(
        estimate.mean,
        place,
        xerr=half,
        color=line,
        marker="o",
        markersize=4,
        markerfacecolor=face,
        elinewidth=1.2,
        capsize=2,
    )
    return estimate.mean - half, estimate.mean + half


def _set_difference_axis(panels: Panels, low: float, high: float) -> None:
    """Give all panels an x axis of signed numbers with a line at 0."""
    room = margin(low, high, 0.06)
    for axes in panels.axes:
        axes.axvline(0, color=INK, linewidth=0.8, zorder=0)
        axes.set_xlim(low - room, high + room)
        axes.xaxis.set_major_locator(MaxNLocator(panels.ticks))
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:+,.6g}" if value else "0")
