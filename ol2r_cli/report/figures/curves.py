"""Figures in panels of dataset and users: curves over rounds, with bands, block sizes over ranks, bars of metrics.

A figure has one legend below its panels, and fits a column (3.3 in) or a page (7 in).
"""

from __future__ import annotations

import json
import math
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator

from ol2r_cli.columns import CUTOFFS, SPLITS, main_cutoff
from ol2r_cli.formatting import plus_minus
from ol2r_cli.report.estimates import Estimate, of_values
from ol2r_cli.report.figures.drawing import FONT, MOST_CURVES, Look, NothingToDraw, Shown, choice, integer
from ol2r_cli.report.figures.series import Series, block_sizes, cumulative_series, evaluation_series, window_means
from ol2r_cli.report.finished_run import as_experiment
from ol2r_cli.report.legend import BOTH, DASH_DOT, DASHED, DOTTED, INK, LONG, SOLID, Legend, Panel, Style, symbol
from ol2r_cli.report.measures import check_metrics, described, known_metrics, ndcg_metrics
from ol2r_cli.report.names import Labels
from ol2r_cli.report.run_groups import Group
from ol2r_cli.run.run import Run

MOST_BARS = 40  # in a panel
MOST_ROUNDS = 6  # in a panel of block sizes by rank
_MOST_PANELS = 12  # of block sizes by rank
_DECADES = 10  # from the first to the last x, from which on its axis is logarithmic
_FAINT = 0.1  # opacity of a band among many
_POINTS = 50  # of a curve from a trace
_UNBOUNDED = (-np.inf, np.inf)
_ROUND_DASHES = (SOLID, DASHED, DASH_DOT, LONG, BOTH, DOTTED)
_ROUND_MARKERS = ("o", "s", "^", "D", "v", "P")
_BAR = 0.17  # inches
_LEAST_HEIGHT = 0.42  # inches, of a panel with named rows
_TITLE = 0.28  # inches: height of a title with the space around it
_LETTER = FONT * 0.56 / 72  # inches: a letter of this font, on average
_LINE = FONT * 1.2 / 72  # inches: a line of a title
_RULE = "#d5d5d6"  # lines behind the data
_GAP = 8  # pixels around a number, at 100 dots per inch
Integer = int | str  # as from Python, or from a command line
Bounds = tuple[float, float]  # the lowest and the highest possible value, at which bands are cut
Read = Callable[[Group], Series | None]


def plot(axes: Axes, x: Any, y: Any, style: Style, number: int, curves: int, name: str | None = None) -> None:
    """One of several curves, with about five markers, beside those of the other curves."""
    step = max(len(x) // 5, 1)
    axes.plot(x, y, **_line_keywords(style), markevery=(number * step // max(curves, 1), step), label=name)


def _line_keywords(style: Style) -> dict[str, Any]:
    return {
        "color": style.colour,
        "linestyle": style.dash,
        "linewidth": 1.2,
        "marker": style.marker,
        "markersize": 3.6,
        "markerfacecolor": "white" if style.hollow else style.colour,
        "markeredgecolor": style.colour,
        "markeredgewidth": 0.8,
    }


def shades(count: int, first: float, last: float) -> list[str]:
    """Colours of the scale viridis from one position in [0, 1] to another."""
    colours = matplotlib.colormaps["viridis"](np.linspace(first, last, count))
    return ["#" + "".join(f"{round(255 * part):02x}" for part in colour[:3]) for colour in colours]


class Panels:
    """Panels in rows.

    titles: those of the panels, row by row. share: whether the panels of a row share the y axis. height: that of a
    panel, as a share of its width.
    """

    def __init__(self, titles: Sequence[Sequence[str]], look: Look, share: bool = True, height: float = 0.66):
        self.rows, self.look = titles, look
        self.width, columns = look.inches(sum(map(len, titles))), max(map(len, titles))
        self.panel_width = self.width / columns
        self.panel_height = max(self.panel_width * height, 1.3)
        letters = int((self.panel_width - 0.35) / _LETTER)
        wrapped = [_of_equal_height([_wrapped(title.split(", "), letters) for title in of_row]) for of_row in titles]
        further_lines = sum(of_row[0].count("\n") for of_row in wrapped)
        self.titles_height = len(titles) * _TITLE + further_lines * _LINE
        self.height = len(titles) * self.panel_height + self.titles_height
        self.figure = Figure(figsize=(self.width, self.height), layout="constrained")
        self.figure.get_layout_engine().set(w_pad=0.05, h_pad=0.04)  # type: ignore[union-attr, call-arg]
        FigureCanvasAgg(self.figure)
        grid = self.figure.add_gridspec(len(titles), columns)
        self.axes: list[Axes] = []
        for row, of_row in enumerate(wrapped):
            for column, title in enumerate(of_row):
                axes = self.figure.add_subplot(
                    grid[row, column], sharey=self.axes[-column] if share and column else None
                )
                axes.set_title(title, pad=4)
                axes.grid(color=_RULE, linewidth=0.5)
                if share and column:
                    axes.tick_params(labelleft=False)
                self.axes.append(axes)

    def label(self, x: str, y: str) -> None:
        """Label x below the last panel of every column, and y beside the first panel of every row.

        Labels of the `Look` come first.
        """
        x = x if self.look.xlabel is None else self.look.xlabel
        y = y if self.look.ylabel is None else self.look.ylabel
        axes = iter(self.axes)
        for titles, below in zip(self.rows, [*self.rows[1:], ()], strict=True):
            for column, panel in zip(range(len(titles)), axes, strict=False):
                if column >= len(below):
                    panel.set_xlabel(_wrapped(x.split(", "), int(0.7 * self.panel_width / _LETTER)))
                if not column:
                    panel.set_ylabel("\n".join(textwrap.wrap(y, int(0.85 * self.panel_height / _LETTER))))

    def legend(self, entries: Mapping[str, Style], lines: bool = True) -> None:
        """Add one legend below the panels, in as many columns as fit, and increase the height of the figure by it."""
        without_line = {} if lines else {"linestyle": "none"}
        handles = [Line2D([], [], **(_line_keywords(style) | without_line)) for style in entries.values()]
        renderer = self.figure.canvas.get_renderer()  # type: ignore[attr-defined]
        for columns in range(min(len(entries), 6), 0, -1):
            columns = math.ceil(len(entries) / math.ceil(len(entries) / columns))  # equally long for this many rows
            look = {"frameon": False, "handlelength": 2.6 if lines else 1, "columnspacing": 1.4}
            legend = self.figure.legend(handles, [*entries], loc="outside lower center", ncols=columns, **look)
            extent = legend.get_window_extent(renderer)
            if extent.width <= self.figure.bbox.width * 0.94 or columns == 1:
                self.figure.set_size_inches(self.width, self.height + extent.height / self.figure.dpi)
                return
            legend.remove()


def legend_panels(
    legend: Legend, look: Look, parts: Sequence[str] = ("",), share: bool = False
) -> tuple[Panels, list[list[tuple[Panel, str, Axes]]]]:
    """The panels of a legend, one for each of `parts`, which end their titles; and these with a common y axis.

    Each dataset begins a row where it has several panels. With several parts, a row has one panel.
    """
    by_data: dict[Any, list[Panel]] = {}
    for panel in legend.panels:
        by_data.setdefault(panel.data, []).append(panel)
    alike = len(by_data) < len(legend.panels) or len(legend.panels) == 1  # so that panels of a row can share the y axis
    columns = 3 if look.inches(len(legend.panels)) >= 5 else 1
    rows = [
        row
        for panels in (by_data.values() if alike else [[*legend.panels]])
        for row in in_rows(panels, 2 if columns > 2 and len(panels) == 4 else columns)
    ]
    if len(parts) > 1:
        rows = [[panel] for panel in legend.panels]
    places = [[(panel, part) for panel in row for part in parts] for row in rows]
    titles = [[f"{panel.title}, {part}".removesuffix(", ") for panel, part in row] for row in places]
    share = share or len(parts) > 1 or alike
    panels = Panels(titles, look, share)
    axes = iter(panels.axes)
    by_row = [[(*place, next(axes)) for place in row] for row in places]
    return panels, by_row if share else [[place] for row in by_row for place in row]


def in_rows(items: Sequence[Any], columns: int) -> list[list[Any]]:
    """Items in rows of so many columns."""
    return [list(items[first : first + columns]) for first in range(0, len(items), columns)]


def _of_equal_height(titles: Sequence[str]) -> list[str]:
    """The titles with as many lines as the longest, so that all begin at one height."""
    most = max(title.count("\n") for title in titles)
    return [title + "\n" * (most - title.count("\n")) for title in titles]


def _wrapped(parts: Iterable[str], letters: int) -> str:
    """Parts of a title in lines of at most so many letters, wrapped behind commas where possible."""
    lines: list[str] = []
    for part in parts:
        if lines and len(lines[-1]) + 2 + len(part) <= letters:
            lines[-1] += f", {part}"
        else:
            lines += textwrap.wrap(part, letters)
    return "\n".join(lines)


def curves(
    shown: Shown,
    label: str,
    reads: Mapping[str, Read],
    bounds: Bounds = _UNBOUNDED,
    scale: str = "linear",
    evaluated: bool = False,
) -> Figure:
    """A figure over rounds; NothingToDraw where no group has a series.

    label, bounds, scale: of the y axis. reads: the series of a group, by the end of the title of a panel; each panel is
    a row where there are several. evaluated: whether the rounds are those of evaluations.
    """
    series = _read_series(shown, reads)
    legend = Legend(list(series), shown.labels)
    panels, rows = legend_panels(legend, shown.look, list(reads))
    ends = [float(part.mean[-1]) for of_group in series.values() for part in of_group.values()]
    log = scale == "log" or (scale == "auto" and min(ends) > 0 and max(ends) > 100 * min(ends))
    spacings = {run.settings.get("evaluate_rounds") for group in shown.groups for run in group.runs}
    log_rounds = evaluated and spacings == {"log"}
    for places in rows:
        of_row: list[Series] = []
        for panel, part, axes in places:
            of_panel = {group: series[group][part] for group in legend.panels[panel] if part in series[group]}
            axes.set_yscale("log" if log else "linear")
            _draw_series(axes, of_panel, legend, shown.look, log, bounds)
            of_row += of_panel.values()
        groups = [group for panel, _, _ in places for group in legend.panels[panel]]
        last = max(int(group.settings["rounds"]) for group in groups)
        log_rounds = evaluated and {run.settings.get("evaluate_rounds") for g in shown.groups for run in g.runs} == {
            "log"
        }
        for _, _, axes in places:
            _round_axis(axes, last, log_rounds, 4 if panels.panel_width < 3 else 5)
        places[0][-1].set_ylim(_extent(of_row, log, bounds, shown.look))
    panels.label("round", label)
    panels.legend(legend.styles)
    return panels.figure


def _read_series(shown: Shown, reads: Mapping[str, Read]) -> dict[Group, dict[str, Series]]:
    """The series of all groups that have some, by part; ValueError where a panel would have too many groups."""
    series: dict[Group, dict[str, Series]] = {}
    for panel, members in Legend(shown.groups, shown.labels).panels.items():
        count = len(series)
        for group in members:
            of_group = {part: found for part, read in reads.items() if (found := read(group)) is not None}
            if of_group:
                series[group] = of_group
            if len(series) - count > MOST_CURVES:
                raise ValueError(
                    f"a panel must have at most {MOST_CURVES} curves, got {len(members)} groups ({panel.title}): "
                    "choose by --select validation, or name fewer folders"
                )
    if not series:
        raise NothingToDraw
    return series


def _draw_series(
    axes: Axes, series: Mapping[Group, Series], legend: Legend, look: Look, log: bool, bounds: Bounds
) -> None:
    """The curves of a panel with their bands."""
    opacity = _FAINT if len(series) > 3 else 2 * _FAINT
    for number, (group, of_group) in enumerate(series.items()):
        name, half = legend.names[group], look.band(of_group)
        style = legend.styles[name]
        if np.isfinite(half).any():
            low, high = band_edges(of_group.mean, half, log)
            axes.fill_between(
                of_group.x, np.clip(low, *bounds), np.clip(high, *bounds), color=style.colour, alpha=opacity, lw=0
            )
        plot(axes, of_group.x, of_group.mean, style, number, len(series), name)


def band_edges(mean: np.ndarray, half: np.ndarray, log: bool) -> tuple[np.ndarray, np.ndarray]:
    """The edges of bands around means; on a logarithmic axis those of the logarithm of a mean, by the delta method.

    The logarithm of a mean m with a standard error s has the standard error s / m, so that its interval is log m ±
    half / m. NaN there where a mean is not above 0.
    """
    if not log:
        return mean - half, mean + half
    factor = np.exp(half / np.where(mean > 0, mean, np.nan))
    return mean / factor, mean * factor


def _round_axis(axes: Axes, last: int, log: bool, ticks: int) -> None:
    """The x axis of rounds, from 0 or, if it is logarithmic, from 1."""
    axes.set_xscale("log" if log else "linear")
    axes.set_xlim(1 if log else 0, last)
    axes.xaxis.set_major_locator(LogLocator(numticks=ticks) if log else MaxNLocator(ticks, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def _extent(series: Sequence[Series], log: bool, bounds: Bounds, look: Look) -> Bounds:
    """The y axis: all means, and the part of their intervals within 60 % of the extent of the means around them.

    So the wide interval of two seeds leaves the curves legible; it leaves the panel.
    """
    means = np.concatenate([each.mean for each in series])
    if log:
        return float(means[means > 0].min()) / 2, float(means.max()) * 2
    halves = np.nan_to_num(np.concatenate([*map(look.band, series)]))
    low, high = float(means.min()), float(means.max())
    spare = 0.6 * (high - low) or 0.05 * abs(high)
    low = max(float((means - halves).min()), low - spare, bounds[0])
    high = min(float((means + halves).max()), high + spare)
    margin = 0.04 * (high - low) or 0.05 * abs(high) or 0.05
    return low - margin, min(high if high > low else high + margin, bounds[1]) + margin


def learning_curve(shown: Shown, split: str = "test", cutoff: Integer | None = None) -> Figure:
    """NDCG at a cutoff of the deployable ranker on held-out queries."""
    split, known = choice("split", split, SPLITS), known_metrics(shown.groups)
    cutoffs = [int(name.rpartition("_")[2]) for name in known if re.fullmatch(rf"{split}_ndcg_\d+", name)]
    cutoff = choice("cutoff", main_cutoff(known) if cutoff is None else cutoff, cutoffs or CUTOFFS)
    read = partial(evaluation_series, column=f"ndcg_{cutoff}", split=split)
    return curves(shown, f"{split} NDCG@{cutoff}", {"": read}, (0, 1), evaluated=True)


def cosine(shown: Shown) -> Figure:
    """Cosine between the deployed weights and those of the offline RankNet."""

    def read(group: Group) -> Series | None:
        return evaluation_series(group, "cosine", "test") or evaluation_series(group, "cosine", "validation")

    return curves(shown, "cosine to offline RankNet", {"": read}, (-1, 1), evaluated=True)


def measure(shown: Shown, column: str = "", split: str = "test", window: Integer | None = None) -> Figure:
    """A column of evaluation.parquet, or one of trace.parquet, which is smoothed unless it is a running total."""
    runs = [run for group in shown.groups for run in group.runs]
    evaluated = {name: each for run in runs for name, each in run.columns.evaluation.items()}
    traced = {name: each for run in runs for name, each in run.columns.trace.items() if name != "query"}
    known = [*traced, *evaluated]
    if not column:
        raise ValueError(f"column must be one of {', '.join(known)}, got none: type --option column={known[0]}")
    column = choice("column", column, known)
    if column in evaluated:
        label = f"{choice('split', split, SPLITS)} {evaluated[column].heading}"
        return curves(shown, label, {"": partial(evaluation_series, column=column, split=split)}, evaluated=True)
    if traced[column].summary in ("last", "size"):
        every = _spacing(shown, "window", window)
        return curves(shown, traced[column].heading, {"": partial(cumulative_series, column=column, every=every)})
    return smoothed({"": column}, traced[column].heading, _UNBOUNDED, shown, window)


def smoothed(
    columns: Mapping[str, str], label: str, bounds: Bounds, shown: Shown, window: Integer | None = None
) -> Figure:
    """Columns of trace.parquet, by the titles of their panels, as means over windows."""
    rounds = _spacing(shown, "window", window)
    reads = {part: partial(window_means, column=column, window=rounds) for part, column in columns.items()}
    return curves(shown, f"{label}, {'' if rounds == 1 else f'mean of the last {rounds} rounds'}", reads, bounds)


def online_ndcg(shown: Shown, window: Integer | None = None) -> Figure:
    """NDCG of the shown lists."""
    label = f"online NDCG@{main_cutoff(known_metrics(shown.groups))}"
    return smoothed({"": ndcg_metrics(shown.groups)[3]}, label, (0, 1), shown, window)


def cumulative_ndcg(shown: Shown, every: Integer | None = None) -> Figure:
    """Discounted sum of online NDCG up to a round."""
    column = ndcg_metrics(shown.groups)[2]
    read = partial(cumulative_series, column=column, every=_spacing(shown, "every", every))
    return curves(shown, described(column).heading, {"": read}, (0, np.inf))


def unfairness(shown: Shown, signed: bool | str = False, scale: str = "auto", every: Integer | None = None) -> Figure:
    """Cumulative unfairness of exposure up to a round: its size, or with its sign (positive favours group 0).

    scale: linear, log, or auto, which is log where the groups end more than a hundredfold apart.
    """
    with_sign = choice("signed", str(signed).lower(), ("true", "false")) == "true"
    scale, rounds = choice("scale", scale, ("auto", "linear", "log")), _spacing(shown, "every", every)
    if with_sign and scale == "log":
        raise ValueError("scale must be linear where signed=true, got log")

    def read(group: Group) -> Series | None:
        series = cumulative_series(group, "unfairness", rounds)
        return series if with_sign or series is None else series.size()

    if with_sign:
        return curves(shown, "cumulative unfairness UF", {"": read})
    return curves(shown, "cumulative unfairness |UF|", {"": read}, (0, np.inf), scale)


def _spacing(shown: Shown, name: str, rounds: Integer | None) -> int:
    """Rounds between two points: those of the option, or one fiftieth of all."""
    last = max(int(group.settings["rounds"]) for group in shown.groups)
    return max(last // _POINTS, 1) if rounds is None else integer(name, rounds, last)


def block_size_by_rank(shown: Shown, rounds: Sequence[int] | str | None = None) -> Figure:
    """One panel for each group; a curve for each round, the mean over the seeds whose query has this rank.

    There are no intervals: in a round every seed serves another query, with another number of documents. Without
    `rounds` all recorded rounds, or six of them, evenly from first to last.
    """
    sizes = {group: of_group for group in shown.groups if (of_group := block_sizes(group))}
    if not sizes:
        raise NothingToDraw
    recorded = sorted({round for of_group in sizes.values() for round in of_group})
    if rounds is None:
        places = np.linspace(0, len(recorded) - 1, min(MOST_ROUNDS, len(recorded))).round().astype(int)
        chosen = [recorded[place] for place in places]
    else:
        words = rounds.strip("[]").split(",") if isinstance(rounds, str) else rounds
        typed = {str(word).strip() for word in words}
        chosen = [round for round in recorded if str(round) in typed]
        if not len(typed) == len(chosen) <= MOST_ROUNDS:
            raise ValueError(f"rounds must be one to {MOST_ROUNDS} of {', '.join(map(str, recorded))}, got {rounds}")
    legend = Legend(list(sizes), shown.labels)
    titles = {
        group: f"{panel.title}, {legend.names[group]}" for panel in legend.panels for group in legend.panels[panel]
    }
    if len(titles) > _MOST_PANELS:
        raise ValueError(
            f"block_size_by_rank must have at most {_MOST_PANELS} groups, got {len(titles)}: name fewer folders"
        )
    columns = 1 if shown.look.inches(len(titles)) < 5 else 2 if len(titles) in (2, 4) else 3
    panels = Panels(in_rows([*titles.values()], columns), shown.look)
    looks = zip(shades(len(chosen), 0.0, 0.85), _ROUND_DASHES, _ROUND_MARKERS, strict=False)  # early rounds are dark
    styles = {round: Style(*parts) for round, parts in zip(chosen, looks, strict=True)}
    top = 1.0
    for axes, group in zip(panels.axes, titles, strict=True):
        for number, (round, style) in enumerate(styles.items()):
            if (series := sizes[group].get(round)) is not None:
                plot(axes, series.x, series.mean, style, number, len(styles))
                top = max(top, float(series.mean.max()))
        axes.set_xlim(left=1)
    for axes in panels.axes:
        axes.set_ylim(0, 1.05 * top)
    panels.label("rank", "documents in the block")
    panels.legend({f"round {round:,}": style for round, style in styles.items()})
    return panels.figure


def bar(shown: Shown, metric: str = "") -> Figure:
    """A metric of summary.json, by default test NDCG, with numbers beside the bars."""
    metric = metric or ndcg_metrics(shown.groups)[0]
    check_metrics([metric], shown.groups, "metric")
    return _bars(shown, described(metric).axis or described(metric).heading, lambda group: group.estimate(metric))


def by_setting(shown: Shown, setting: str = "", metric: str = "") -> Figure:
    """A metric of summary.json over the numbers of a setting; groups without the setting are level lines."""
    name = as_experiment(setting)
    metric = metric or ndcg_metrics(shown.groups)[0]
    check_metrics([metric], shown.groups, "metric")
    points_of = _points_by_setting(shown.groups, name, metric)
    xs = sorted({x for points in points_of.values() for x in points if not math.isnan(x)})
    if len(xs) < 2:
        raise NothingToDraw
    called = {group: text for group, text in shown.labels.called.items() if group in points_of}
    legend = Legend(list(points_of), Labels(list(points_of), called))
    panels, rows = legend_panels(legend, shown.look)
    for places in rows:
        low, high = np.inf, -np.inf
        for panel, _, axes in places:
            for group in legend.panels[panel]:
                level = points_of[group].get(math.nan)
                points = dict.fromkeys((xs[0], xs[-1]), level) if level else dict(sorted(points_of[group].items()))
                edges = _draw_points(axes, points, legend.styles[legend.names[group]], legend.names[group], shown.look)
                low, high = min(low, edges[0]), max(high, edges[1])
            if xs[0] > 0 and xs[-1] >= _DECADES * xs[0]:
                axes.set_xscale("log")
            axes.set_xticks(xs, [f"{x:,g}" for x in xs])
            axes.minorticks_off()
        margin = 0.06 * (high - low) or 0.05 * abs(high) or 0.05
        places[0][-1].set_ylim(low - margin, high + margin)
    panels.label(symbol(name), described(metric).axis or described(metric).heading)
    panels.legend(legend.styles)
    return panels.figure


def _points_by_setting(groups: Sequence[Group], name: str, metric: str) -> dict[Group, dict[float, Estimate]]:
    """The estimates of each curve by the number of the setting, under its first group.

    A curve has the groups that differ in nothing else; exploration.l2 may follow ranker.l2. NaN stands for a group
    without the setting.
    """
    curves_by_rest: dict[str, tuple[Group, dict[float, Estimate]]] = {}
    last = name.rpartition(".")[2]
    for group in groups:
        x, estimate = group.settings.get(name, math.nan), group.estimate(metric)
        if isinstance(x, int | float) and estimate:
            rest = {
                other: value
                for other, value in group.settings.items()
                if (other.rpartition(".")[2], value) != (last, x)
            }
            key = json.dumps([group.choices, rest], sort_keys=True, default=str)
            curves_by_rest.setdefault(key, (group, {}))[1][math.nan if math.isnan(x) else x] = estimate
    return dict(curves_by_rest.values())


def _draw_points(
    axes: Axes, points: Mapping[float, Estimate], style: Style, name: str, look: Look
) -> tuple[float, float]:
    """A curve through estimates, with its band; returns the lowest and the highest value of these."""
    mean = np.array([estimate.mean for estimate in points.values()])
    half = np.array([look.band(estimate) or 0.0 for estimate in points.values()])
    axes.fill_between(list(points), mean - half, mean + half, color=style.colour, alpha=_FAINT, lw=0)
    plot(axes, list(points), mean, style, 0, 1, name)
    return float((mean - half).min()), float((mean + half).max())


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
