"""Curves with bands in panels: one panel for each dataset and click model, one look for each ranker."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ol2r_cli.report.figures.legend import Legend
from ol2r_cli.report.figures.options import NothingToDraw, Width
from ol2r_cli.report.figures.series import Series, last_round
from ol2r_cli.report.figures.sheet import Sheet, drawn
from ol2r_cli.report.groups import Group
from ol2r_cli.report.labels import Labels

MOST = 16  # curves in a panel that anybody can still tell apart
_FAINT = 0.1  # opacity of a band among many
Read = Callable[[Group], Series | None]


def curves(
    groups: Sequence[Group],
    labels: Labels,
    reads: Mapping[str, Read],
    label: str,
    width: Width,
    bounds: tuple[float, float] = (-np.inf, np.inf),
    scale: str = "linear",
) -> Figure:
    """One panel for each dataset and users; where several things are read, a row of panels, with their names."""
    found = _read(groups, labels, reads)
    if not found:
        raise NothingToDraw
    legend = Legend(list(found), labels)
    parts = list(reads)
    rows = legend.rows(width) if len(parts) == 1 else [[panel] for panel in legend.panels]
    titles = [[", ".join(filter(None, [legend.title(panel), part])) for panel in row for part in parts] for row in rows]
    sheet = Sheet(titles, width, share=len(parts) > 1 or legend.in_rows)
    if scale == "log" or (
        scale == "auto" and _far_apart([series for own in found.values() for series in own.values()])
    ):
        for each in sheet.axes:
            each.set_yscale("log")
    axes = iter(sheet.axes)
    for row in rows:
        drawn_in_row = []
        for panel in row:
            for part in parts:
                own = {group: found[group][part] for group in legend.panels[panel] if part in found[group]}
                each = next(axes)
                _draw(each, own, legend, bounds)
                drawn_in_row.append((each, list(own.values())))
        for together in [drawn_in_row] if sheet.share else [[one] for one in drawn_in_row]:
            together[0][0].set_ylim(
                _extent([series for _, own in together for series in own], bounds, each.get_yscale())
            )
    sheet.rounds(max(map(last_round, found)))
    sheet.label("round", label)
    sheet.legend(legend.entries())
    return sheet.figure


def _read(groups: Sequence[Group], labels: Labels, reads: Mapping[str, Read]) -> dict[Group, dict[str, Series]]:
    """What there is of each group; ValueError as soon as a panel has more curves than anybody can tell apart."""
    legend = Legend(groups, labels)
    found: dict[Group, dict[str, Series]] = {}
    for panel, members in legend.panels.items():
        own: dict[Group, dict[str, Series]] = {}
        for group in members:
            if several := {name: series for name, read in reads.items() if (series := read(group)) is not None}:
                own[group] = several
            if len(own) > MOST:
                raise ValueError(
                    f"a panel must have at most {MOST} curves, got {len(members)} groups ({legend.title(panel)}): "
                    "choose by --select validation, or name fewer folders"
                )
        found |= own
    return found


def _draw(axes: Axes, found: Mapping[Group, Series], legend: Legend, bounds: tuple[float, float]) -> None:
    tiny = 1e-12 if axes.get_yscale() == "log" else -np.inf
    for number, (group, series) in enumerate(found.items()):
        look = legend.style(group)
        mean, half = series.mean, series.half_width
        if np.isfinite(half).any():
            low, high = np.clip(mean - half, max(bounds[0], tiny), bounds[1]), np.clip(mean + half, *bounds)
            axes.fill_between(
                series.x, low, high, color=look.colour, alpha=_FAINT if len(found) > 3 else 2 * _FAINT, lw=0
            )
        axes.plot(
            series.x, mean, label=legend.label(group), **drawn(look), markevery=_marks(series, number, len(found))
        )


def _extent(shown: Sequence[Series], bounds: tuple[float, float], scale: str) -> tuple[float, float]:
    """Of the y axis: all means, and of their intervals what lies within 60 % of the means' extent around them, so that
    the wide interval of two seeds leaves the curves legible; it then runs out of the panel."""
    means = np.concatenate([series.mean for series in shown])
    if scale == "log":
        return float(means[means > 0].min()) / 2, float(means.max()) * 2
    halves = np.nan_to_num(np.concatenate([series.half_width for series in shown]))
    low, high = float(means.min()), float(means.max())
    spare = 0.6 * (high - low) or 0.05 * abs(high)
    low, high = (
        max(float((means - halves).min()), low - spare, bounds[0]),
        min(float((means + halves).max()), high + spare),
    )
    margin = 0.04 * (high - low) or 0.05 * abs(high) or 0.05
    return low - margin, min(high if high > low else high + margin, bounds[1]) + margin


def _marks(series: Series, number: int, of: int) -> tuple[int, int]:
    """Which points carry a marker: about five, and those of several curves side by side."""
    step = max(len(series.x) // 5, 1)
    return (number * step // max(of, 1), step)


def _far_apart(found: Sequence[Series]) -> bool:
    ends = [float(series.mean[-1]) for series in found]
    return min(ends) > 0 and max(ends) > 100 * min(ends)
