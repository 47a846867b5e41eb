"""Figures whose rows have names: bars of metrics, and paired differences to a baseline."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ol2r_cli.plugins.figures.look import FONT, PLAIN, Bounds, Look, NothingToDraw, Shown, choice
from ol2r_cli.plugins.figures.panels import AS_TYPED, Panels, legend_panels, margin
from ol2r_cli.report.comparison import compare
from ol2r_cli.report.estimates import ALPHA, Estimate, of_values
from ol2r_cli.report.measures import axis_label
from ol2r_cli.report.names import Legend
from ol2r_cli.report.run_groups import Group
from ol2r_cli.report.styles import INK, SOLID, Style
from ol2r_cli.run.run import Run
from ol2r_cli.text.formatting import plus_minus

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
        self.places = _places(names)
        self.panels, rows = legend_panels(legend, look, share=True)
        _set_height(self.panels, len(names))
        self.axes: dict[Group, Axes] = {}
        for panel, _, axes in chain.from_iterable(rows):
            self.axes |= dict.fromkeys(legend.panels[panel], axes)
            _name_rows(axes, self.places)


def _places(names: Sequence[str]) -> dict[str, int]:
    """Return the place of each row on the y axis; ValueError for more rows than a panel has room for."""
    if len(names) > MOST_BARS:
        raise ValueError(f"a panel must have at most {MOST_BARS} rows, got {len(names)}: name fewer folders")
    return {name: -number for number, name in enumerate(names)}


def _name_rows(axes: Axes, places: Mapping[str, int]) -> None:
    """Write the names of rows beside a panel."""
    axes.set_yticks(list(places.values()), list(places), **AS_TYPED)
    axes.set_ylim(0.6 - len(places), 0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")


def _set_height(panels: Panels, rows: int) -> None:
    panels.set_panel_height(0.3 + max(_BAR * rows, _LEAST_HEIGHT))


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
        estimate = difference.estimate
        dot = Dot(estimate.mean, shown.look.band(estimate) or 0.0, difference.significant, legend.styles[name].colour)
        edges += _draw_dot(rows.axes[group], rows.places[name], dot)
    _set_difference_axes(rows.panels.axes, edges, rows.panels.ticks)
    rival_names = dict.fromkeys(name for group, name in legend.names.items() if group in rivals)
    rows.panels.label(f"{axis_label(metric)}, minus that of {' or '.join(rival_names)}", "")
    _explain_dots(rows.panels)
    return rows.panels.figure


class Dot(NamedTuple):
    """A difference with half of its interval; whether it is significant; and the colour it is drawn in."""

    mean: float
    half_width: float
    significant: bool
    colour: str = INK


class DotPanel(NamedTuple):
    """A panel of differences by the names of rows. axis: what panels with the same x axis have in common."""

    title: str
    axis: tuple[str, ...]
    dots: Mapping[str, Dot]


def dots(rows: Sequence[Sequence[DotPanel]], names: Sequence[str], label: str) -> Figure:
    """Draw differences that were computed elsewhere as `differences` draws its own.

    rows: of panels. names: of the rows of all panels, the first at the top. label: of the x axis.
    """
    places = _places(names)
    panels = Panels([[panel.title for panel in row] for row in rows], PLAIN)
    _set_height(panels, len(names))
    axes_of: dict[tuple[str, ...], list[Axes]] = {}
    edges_of: dict[tuple[str, ...], list[float]] = {}
    for panel, axes in zip(chain(*rows), panels.axes, strict=True):
        _name_rows(axes, places)
        edges = edges_of.setdefault(panel.axis, [0.0])
        for name, dot in panel.dots.items():
            edges += _draw_dot(axes, places[name], dot)
        axes_of.setdefault(panel.axis, []).append(axes)
    for axis, of_axis in axes_of.items():
        _set_difference_axes(of_axis, edges_of[axis], panels.ticks)
    panels.label(label, "")
    _explain_dots(panels)
    return panels.figure


def _draw_dot(axes: Axes, place: int, dot: Dot) -> Bounds:
    """Draw a dot with its interval, filled where it is significant; return the ends of the interval."""
    axes.errorbar(
        dot.mean,
        place,
        xerr=dot.half_width,
        color=dot.colour,
        marker="o",
        markersize=4,
        markerfacecolor=dot.colour if dot.significant else "white",
        elinewidth=1.2,
        capsize=2,
    )
    return dot.mean - dot.half_width, dot.mean + dot.half_width


def _set_difference_axes(panels: Sequence[Axes], edges: Sequence[float], ticks: int) -> None:
    """Give panels one x axis of signed numbers, with a line at 0."""
    low, high = min(edges), max(edges)
    room = margin(low, high, 0.06)
    for axes in panels:
        axes.axvline(0, color=INK, linewidth=0.8, zorder=0)
        axes.set_xlim(low - room, high + room)
        axes.xaxis.set_major_locator(MaxNLocator(ticks))
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:+,.6g}" if value else "0")


def _explain_dots(panels: Panels) -> None:
    """Write below the panels what filled and hollow dots are."""
    dot = Style(INK, SOLID, "o")
    entries = {f"significant, p < {ALPHA} by Holm": dot, "not significant": dot._replace(hollow=True)}
    panels.legend(entries, lines=False)
