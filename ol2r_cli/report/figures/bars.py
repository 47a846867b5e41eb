"""Bars from zero, one for each group, with 95 % intervals: a final metric, and the time of a round."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from ol2r_cli.report.figures import names
from ol2r_cli.report.figures.legend import Legend
from ol2r_cli.report.figures.look import FONT
from ol2r_cli.report.figures.options import NothingToDraw, Width, choice, known_metric
from ol2r_cli.report.figures.sheet import Sheet
from ol2r_cli.report.figures.styles import INK, Style
from ol2r_cli.report.groups import Group
from ol2r_cli.report.labels import Labels
from ol2r_cli.report.statistics import Estimate, over_folds
from ol2r_cli.results.directory import RunDirectory

MOST = 40  # bars in a panel
_BAR = 0.17  # inches
_GAP = 8  # pixels around a number, at 100 dots per inch


def bar(groups: Sequence[Group], labels: Labels, metric: str = "test_ndcg_10", width: Width = None) -> Figure:
    """A metric of summary.json; the numbers stand beside the bars."""
    known_metric("metric", metric, groups)
    estimates = {group: estimate for group in groups if (estimate := group.estimate(metric)) is not None}
    return _bars(estimates, labels, names.metric(metric), width)


def running_time(groups: Sequence[Group], labels: Labels, unit: str = "seconds", width: Width = None) -> Figure:
    """Wall-clock time of a run over its rounds, evaluation included, in milliseconds; or rounds per second.

    All replicas of a run advance in one round, so runs with equally many compare; a value is of a run.
    """
    unit = choice("unit", unit, ("seconds", "rounds"))
    estimates = {}
    for group in groups:
        values = [value for run in group.runs if (value := _seconds(RunDirectory(run.path))) is not None]
        values = [1e3 * value if unit == "seconds" else 1 / value for value in values]
        if (estimate := over_folds({None: [Estimate(value, None, 1) for value in values]})) is not None:
            estimates[group] = estimate
    replicas = sorted({len(run.seeds) for group in estimates for run in group.runs})
    of = "one replica" if replicas == [1] else f"{' or '.join(map(str, replicas))} replicas together"
    return _bars(
        estimates, labels, f"milliseconds per round, {of}" if unit == "seconds" else f"rounds per second, {of}", width
    )


def _seconds(directory: RunDirectory) -> float | None:
    """Per round."""
    manifest = directory.read_json("run.json")
    rounds = manifest["progress"]["rounds"]
    return manifest["seconds"] / rounds if rounds and manifest["seconds"] else None


def _bars(estimates: Mapping[Group, Estimate], labels: Labels, label: str, width: Width) -> Figure:
    """All panels have the same rows, in the order of the legend; a group that a panel lacks leaves its row empty."""
    if not estimates:
        raise NothingToDraw
    legend = Legend(list(estimates), labels)
    place = {name: -number for number, name in enumerate(legend.entries())}
    if len(place) > MOST:
        raise ValueError(f"a panel must have at most {MOST} bars, got {len(place)}: name fewer folders")
    rows = legend.rows(width)
    sheet = Sheet([[legend.title(panel) for panel in row] for row in rows], width)
    sheet.proportion([0.3 + _BAR * len(place)] * len(rows))
    for axes, panel in zip(sheet.axes, [panel for row in rows for panel in row], strict=True):
        for group in legend.panels[panel]:
            _draw(axes, place[legend.label(group)], estimates[group], legend.style(group))
        axes.set_yticks(list(place.values()), list(place))
        axes.set_ylim(0.6 - len(place), 0.6)
        axes.tick_params(axis="y", length=0)
        axes.grid(visible=False, axis="y")
        axes.set_xlim(min(0.0, *(1.1 * estimate.mean for estimate in estimates.values())))
        axes.xaxis.set_major_locator(MaxNLocator(3))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    sheet.label(label, "")
    _make_room(sheet)
    return sheet.figure


def _make_room(sheet: Sheet) -> None:
    """Widen the panels' common extent until the numbers beside the bars fit into all of them."""
    sheet.figure.draw_without_rendering()
    renderer = sheet.figure.canvas.get_renderer()  # type: ignore[attr-defined]
    low = min(axes.get_xlim()[0] for axes in sheet.axes)
    high = max(axes.get_xlim()[1] for axes in sheet.axes)
    for axes in sheet.axes:
        panel = axes.get_window_extent(renderer).width
        for text in axes.texts:
            taken = text.get_window_extent(renderer).width + _GAP
            high = max(high, low + (text.xy[0] - low) / max(1 - taken / panel, 0.2))  # type: ignore[attr-defined]
    for axes in sheet.axes:
        axes.set_xlim(low, high)


def _draw(axes: Axes, place: int, estimate: Estimate, look: Style) -> None:
    half = estimate.half_width
    axes.barh(
        place, estimate.mean, 0.72, color=look.colour, hatch="////" if look.hollow else "", edgecolor="white", lw=0
    )
    if half:
        axes.errorbar(estimate.mean, place, xerr=half, fmt="none", ecolor=INK, elinewidth=0.8, capsize=1.8)
    end = max(estimate.mean + (half or 0), 0)
    axes.annotate(_said(estimate), (end, place), (3, 0), textcoords="offset points", va="center", fontsize=FONT - 2)


def _said(estimate: Estimate) -> str:
    """With three digits of the mean, and as many behind the point for its interval."""
    half = estimate.half_width
    size = abs(estimate.mean) or half
    digits = min(max(2 - math.floor(math.log10(size)), 0), 4) if size else 0
    return f"{estimate.mean:,.{digits}f}" + ("" if half is None else f" ± {half:,.{digits}f}")
