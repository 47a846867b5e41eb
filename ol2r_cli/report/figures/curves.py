"""Figures in panels of dataset and users: curves over rounds and settings, with bands, and block sizes over ranks."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator

from ol2r_cli.columns import CUTOFFS, SPLITS, main_cutoff
from ol2r_cli.report.estimates import Estimate
from ol2r_cli.report.figures.drawing import MOST_CURVES, Look, NothingToDraw, Shown, choice, integer
from ol2r_cli.report.figures.panels import Panels, in_rows, legend_panels, plot, shades
from ol2r_cli.report.figures.series import Series, block_sizes, cumulative_series, evaluation_series, window_means
from ol2r_cli.report.legend import Legend, symbol
from ol2r_cli.report.measures import described
from ol2r_cli.report.names import Labels
from ol2r_cli.report.run_groups import Group
from ol2r_cli.report.shown_metrics import check_metrics, known_metrics, ndcg_metrics
from ol2r_cli.report.styles import BOTH, DASH_DOT, DASHED, DOTTED, LONG, SOLID, Style

MOST_ROUNDS = 6  # in a panel of block sizes by rank
_MOST_PANELS = 12  # of block sizes by rank
_DECADES = 10  # from the first to the last x, from which on its axis is logarithmic
_FAINT = 0.1  # opacity of a band among many
_POINTS = 50  # of a curve from a trace
_UNBOUNDED = (-np.inf, np.inf)
_ROUND_DASHES = (SOLID, DASHED, DASH_DOT, LONG, BOTH, DOTTED)
_ROUND_MARKERS = ("o", "s", "^", "D", "v", "P")
Integer = int | str  # as from Python, or from a command line
Bounds = tuple[float, float]  # the lowest and the highest possible value, at which bands are cut
Read = Callable[[Group], Series | None]


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
        if not (means > 0).any():
            raise ValueError("scale must be linear where no value is above 0, got log")
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


def by_setting(shown: Shown, setting: str = "", metric: str = "") -> Figure:
    """A metric of summary.json over the numbers of a setting; groups without the setting are level lines."""
    name = shown.groups[0].kind.as_shown(setting)
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
