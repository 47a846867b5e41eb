"""Curves over rounds with their bands, in panels of dataset and users: how the kinds of `over_rounds.py` are drawn."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import chain

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator

from ol2r_cli.plugins.figures.look import MOST_CURVES, Bounds, Look, NothingToDraw, Shown, YAxis
from ol2r_cli.plugins.figures.panels import HEIGHT, HIGH, legend_panels, margin, plot
from ol2r_cli.plugins.figures.series import Series
from ol2r_cli.report.names import Legend
from ol2r_cli.report.run_groups import Group

_MANY_CURVES = 8  # in a panel, which is higher from there on
FAINT = 0.1  # opacity of a band among many
Read = Callable[[Group], Series | None]
SeriesBySubtitle = dict[str, Series]  # by the end of the title of a panel


def curves(shown: Shown, y: YAxis, reads: Mapping[str, Read], evaluated: bool = False) -> Figure:
    """Return a figure over rounds; NothingToDraw where no group has a series.

    reads: the series of a group, by the end of the title of a panel; each panel is a row where there are several.
    evaluated: whether the rounds are those of evaluations.
    """
    series = _read_series(shown, reads)
    all_series = chain.from_iterable(by_subtitle.values() for by_subtitle in series.values())
    y = y.decided([float(curve.mean[-1]) for curve in all_series])
    legend = Legend(list(series), shown.labels)
    most = max(len(groups) for groups in legend.panels.values())
    height = HIGH if most > _MANY_CURVES else HEIGHT
    panels, rows = legend_panels(legend, shown.look, list(reads), height=height)
    log_rounds = evaluated and _are_spaced_by_log(shown.groups)
    for row in rows:
        row_series: list[Series] = []
        row_groups: list[Group] = []
        for panel, subtitle, axes in row:
            groups = legend.panels[panel]
            panel_series = {group: series[group][subtitle] for group in groups if subtitle in series[group]}
            _draw_series(axes, panel_series, legend, shown.look, y)
            row_series += panel_series.values()
            row_groups += groups
        for place in row:
            _set_round_axis(place.axes, last_round(row_groups), log_rounds, panels.ticks)
        row[0].axes.set_ylim(_extent(row_series, y, shown.look))
    panels.label("round", y.label)
    panels.legend(legend.styles)
    return panels.figure


def last_round(groups: Iterable[Group]) -> int:
    """Return the number of rounds of the longest runs."""
    return max(int(group.settings["rounds"]) for group in groups)


def _are_spaced_by_log(groups: Iterable[Group]) -> bool:
    """Return whether all runs were evaluated in rounds that are evenly spaced on a logarithmic axis."""
    runs = chain.from_iterable(group.runs for group in groups)
    return {run.settings.get("evaluate_rounds") for run in runs} == {"log"}


def _read_series(shown: Shown, reads: Mapping[str, Read]) -> dict[Group, SeriesBySubtitle]:
    """Return the series of all groups that have some; ValueError where a panel would have too many groups."""
    series: dict[Group, SeriesBySubtitle] = {}
    for panel, groups in Legend(shown.groups, shown.labels).panels.items():
        curves_in_panel = 0
        for group in groups:
            by_subtitle = {subtitle: found for subtitle, read in reads.items() if (found := read(group)) is not None}
            if by_subtitle:
                series[group] = by_subtitle
                curves_in_panel += 1
            if curves_in_panel > MOST_CURVES:
                raise ValueError(
                    f"a panel must have at most {MOST_CURVES} curves, got {len(groups)} groups ({panel.title}): "
                    "choose by --select validation, or name fewer folders"
                )
    if not series:
        raise NothingToDraw
    return series


def _draw_series(axes: Axes, series_by_group: Mapping[Group, Series], legend: Legend, look: Look, y: YAxis) -> None:
    """Draw the curves of a panel with their bands."""
    axes.set_yscale("log" if y.log else "linear")
    opacity = FAINT if len(series_by_group) > 3 else 2 * FAINT
    for number, (group, series) in enumerate(series_by_group.items()):
        name = legend.names[group]
        style = legend.styles[name]
        half = look.band(series)
        if np.isfinite(half).any():
            low, high = band_edges(series.mean, half, y.log)
            low, high = np.clip(low, *y.bounds), np.clip(high, *y.bounds)
            axes.fill_between(series.x, low, high, color=style.colour, alpha=opacity, lw=0)
        plot(axes, series.x, series.mean, style, number, len(series_by_group), name)


def band_edges(mean: np.ndarray, half: np.ndarray, log: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the edges of bands around means; on a logarithmic axis those of the logarithm, by the delta method.

    The logarithm of a mean m with a standard error s has the standard error s / m, so that its interval is log m ±
    half / m. NaN there where a mean is not above 0.
    """
    if not log:
        return mean - half, mean + half
    factor = np.exp(half / np.where(mean > 0, mean, np.nan))
    return mean / factor, mean * factor


def _set_round_axis(axes: Axes, last: int, log: bool, ticks: int) -> None:
    """Make the x axis one of rounds, from 0 or, if it is logarithmic, from 1."""
    axes.set_xscale("log" if log else "linear")
    axes.set_xlim(1 if log else 0, last)
    axes.xaxis.set_major_locator(LogLocator(numticks=ticks) if log else MaxNLocator(ticks, integer=True))
    axes.xaxis.set_major_formatter("{x:,.0f}")


def _extent(series: Collection[Series], y: YAxis, look: Look) -> Bounds:
    """Return the ends of a y axis with all means; ValueError for a logarithmic axis without a value above 0.

    Of intervals it has the part within 60 % of the extent of the means around them. So the wide interval of two seeds
    leaves the curves legible; it leaves the panel.
    """
    means = np.concatenate([curve.mean for curve in series])
    if y.log:
        return _log_extent(means)
    halves = np.nan_to_num(np.concatenate([look.band(curve) for curve in series]))
    lowest, highest = y.bounds
    low, high = float(means.min()), float(means.max())
    spare = 0.6 * (high - low) or 0.05 * abs(high)
    low = max(float((means - halves).min()), low - spare, lowest)
    high = min(float((means + halves).max()), high + spare)
    room = margin(low, high, 0.04)
    if high <= low:
        high += room
    return low - room, min(high, highest) + room


def _log_extent(means: np.ndarray) -> Bounds:
    """Return the ends of a logarithmic axis: half the lowest mean above 0, and twice the highest."""
    if not (means > 0).any():
        raise ValueError("scale must be linear where no value is above 0, got log")
    return float(means[means > 0].min()) / 2, float(means.max()) * 2
