"""Figures whose rows have names: bars of metrics, and paired differences to a baseline."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from ol2r_cli.formatting import plus_minus
from ol2r_cli.report.comparison import compare
from ol2r_cli.report.estimates import ALPHA, Estimate, of_values
from ol2r_cli.report.figures.drawing import FONT, Look, NothingToDraw, Shown, choice
from ol2r_cli.report.figures.panels import Panels, legend_panels
from ol2r_cli.report.legend import Legend
from ol2r_cli.report.measures import described
from ol2r_cli.report.run_groups import Group
from ol2r_cli.report.shown_metrics import check_metrics, ndcg_metrics
from ol2r_cli.report.styles import INK, SOLID, Style
from ol2r_cli.run.run import Run

MOST_BARS = 40  # in a panel
_BAR = 0.17  # inches
_LEAST_HEIGHT = 0.42  # inches, of a panel with named rows
_GAP = 8  # pixels around a number, at 100 dots per inch


def bar(shown: Shown, metric: str = "") -> Figure:
    """A metric of summary.json, by default test NDCG, with numbers beside the bars."""
    metric = metric or ndcg_metrics(shown.groups)[0]
    check_metrics([metric], shown.groups, "metric")
    return _bars(shown, described(metric).axis or described(metric).heading, lambda group: group.estimate(metric))


def running_time(shown: Shown, unit: str = "milliseconds") -> Figure:
    """Wall-clock time of a run over its rounds, evaluation included, in milliseconds or seconds; or rounds per second.

    Each run is one value. All replicas of a run advance in one round, so runs with equally many are comparable.
    """
    unit = choice("unit", unit, ("milliseconds", "seconds", "rounds"))
    of_second = {"milliseconds": 1e3, "seconds": 1.0}

    def estimate(group: Group) -> Estimate | None:
        runs = [Run.read_finished(run.path) for run in group.runs]
        spans = [run.manifest["seconds"] / run.rounds for run in runs if run.rounds and run.manifest["seconds"]]
        values = [1 / span if unit == "rounds" else of_second[unit] * span for span in spans]
        return of_values({(None, number): value for number, value in enumerate(values)})

    replicas = sorted({len(run.seeds) for group in shown.groups for run in group.runs})
    extent = "one replica" if replicas == [1] else f"{' or '.join(map(str, replicas))} replicas together"
    label = "rounds per second" if unit == "rounds" else f"{unit} per round"
    return _bars(shown, f"{label}, {extent}", estimate)


def _bars(shown: Shown, label: str, read: Callable[[Group], Estimate | None]) -> Figure:
    """All panels have the same rows, in the order of the legend; the row of a missing group stays empty."""
    estimates = {group: estimate for group in shown.groups if (estimate := read(group)) is not None}
    if not estimates:
        raise NothingToDraw
    legend = Legend(list(estimates), shown.labels)
    rows = NamedRows(legend, shown.look, list(legend.styles))
    for group, axes in rows.axes.items():
        name, mean, half = legend.names[group], estimates[group].mean, shown.look.band(estimates[group])
        place, style = rows.places[name], legend.styles[name]
        hatch = "////" if style.hollow else ""
        axes.barh(place, mean, 0.72, color=style.colour, hatch=hatch, edgecolor="white", lw=0)
        if half:
            axes.errorbar(mean, place, xerr=half, fmt="none", ecolor=INK, elinewidth=0.8, capsize=1.8)
        size = abs(mean) or half
        digits = min(max(2 - math.floor(math.log10(size)), 0), 4) if size else 0  # three significant ones
        axes.annotate(
            plus_minus(mean, half, digits, separator=","),
            (max(mean + (half or 0), 0), place),
            (3, 0),
            textcoords="offset points",
            va="center",
            fontsize=FONT - 2,
        )
    for axes in rows.panels.axes:
        axes.set_xlim(min(0.0, *(1.1 * estimate.mean for estimate in estimates.values())))
        axes.xaxis.set_major_locator(MaxNLocator(3))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    rows.panels.label(label, "")
    _make_room(rows.panels)
    return rows.panels.figure


class NamedRows:
    """Panels whose rows have names, in the same order in all of them.

    places: of the rows on the y axis, by name. axes: those of each group of the legend whose row is shown.
    """

    def __init__(self, legend: Legend, look: Look, names: Sequence[str]):
        if len(names) > MOST_BARS:
            raise ValueError(f"a panel must have at most {MOST_BARS} rows, got {len(names)}: name fewer folders")
        self.places = {name: -number for number, name in enumerate(names)}
        self.panels, rows = legend_panels(legend, look, share=True)
        of_row = 0.3 + max(_BAR * len(names), _LEAST_HEIGHT)
        self.panels.height = of_row * len(rows) + 0.3 + self.panels.titles_height
        self.panels.figure.set_size_inches(self.panels.width, self.panels.height)
        self.axes: dict[Group, Axes] = {}
        for panel, _, axes in (place for row in rows for place in row):
            self.axes |= {group: axes for group in legend.panels[panel] if legend.names[group] in self.places}
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
    """The differences of a metric of summary.json to the baseline of each task, with their intervals.

    A dot is filled where the difference is significant after Holm's correction for all of the figure. baseline: words
    that match one row of each task. test: t or permutation.
    """
    if not baseline:
        raise ValueError(
            "baseline must be a ranker, or choices and settings, of some row, got none: type --baseline pdgd"
        )
    metric = metric or ndcg_metrics(shown.groups)[0]
    check_metrics([metric], shown.groups, "metric")
    comparison = compare(shown.groups, shown.labels, [metric], baseline, test)
    found = {difference.group: difference for difference in comparison.differences}
    if not found:
        raise NothingToDraw
    rivals = {difference.rival for difference in found.values()}
    legend = Legend([*found, *rivals], shown.labels)
    names = {legend.names[group] for group in found}
    rows = NamedRows(legend, shown.look, [name for name in legend.styles if name in names])
    edges = [0.0]
    for group, axes in rows.axes.items():
        if group not in found:
            continue
        estimate, style = found[group].estimate, legend.styles[legend.names[group]]
        half = shown.look.band(estimate) or 0.0
        axes.errorbar(
            estimate.mean,
            rows.places[legend.names[group]],
            xerr=half,
            color=style.colour,
            marker="o",
            markersize=4,
            markerfacecolor=style.colour if found[group].significant else "white",
            elinewidth=1.2,
            capsize=2,
        )
        edges += [estimate.mean - half, estimate.mean + half]
    margin = 0.06 * (max(edges) - min(edges)) or 0.05
    for axes in rows.panels.axes:
        axes.axvline(0, color=INK, linewidth=0.8, zorder=0)
        axes.set_xlim(min(edges) - margin, max(edges) + margin)
        axes.xaxis.set_major_locator(MaxNLocator(4 if rows.panels.panel_width < 3 else 5))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:+,.6g}" if value else "0"))
    names_of_rivals = " or ".join(dict.fromkeys(legend.names[group] for group in legend.names if group in rivals))
    rows.panels.label(f"{described(metric).axis or described(metric).heading}, minus that of {names_of_rivals}", "")
    significant = Style(INK, SOLID, "o")
    told = {f"significant, p < {ALPHA} by Holm": significant, "not significant": significant._replace(hollow=True)}
    rows.panels.legend(told, lines=False)
    return rows.panels.figure
