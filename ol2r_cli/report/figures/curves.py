"""Curves over rounds, with bands, block sizes over ranks, and bars of final metrics, in panels of dataset and users."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from ol2r_cli.columns import CUTOFFS, SPLITS, main_cutoff
from ol2r_cli.formatting import plus_minus
from ol2r_cli.report.estimates import Estimate, of_values
from ol2r_cli.report.figures.drawing import FONT, Look, NothingToDraw, choice, integer
from ol2r_cli.report.figures.legend import BOTH, DASH_DOT, DASHED, DOTTED, INK, LONG, SOLID, Legend, Style, in_rows
from ol2r_cli.report.figures.panels import LegendPanels, Panels, plot, shades
from ol2r_cli.report.figures.series import Series, block_sizes, cumulative_series, evaluation_series, window_means
from ol2r_cli.report.measures import axis_label, check_metrics, heading, known_metrics, ndcg_metrics
from ol2r_cli.report.names import Labels
from ol2r_cli.report.run_groups import Group
from ol2r_cli.run.run import Run

MOST_CURVES = 16  # in a panel
MOST_BARS = 40  # in a panel
MOST_ROUNDS = 6  # in a panel of block sizes by rank
_MOST_PANELS = 12  # of block sizes by rank
_FAINT = 0.1  # opacity of a band among many
_POINTS = 50  # of a curve from a trace
_UNBOUNDED = (-np.inf, np.inf)
_ROUND_DASHES = (SOLID, DASHED, DASH_DOT, LONG, BOTH, DOTTED)
_ROUND_MARKERS = ("o", "s", "^", "D", "v", "P")
_BAR = 0.17  # inches
_GAP = 8  # pixels around a number, at 100 dots per inch
Integer = int | str  # as from Python, or from a command line


@dataclass(frozen=True)
class Curves:
    """A figure over rounds.

    reads: the series of a group, by the end of the title of a panel; each panel is a row where there are several.
    label: of the y axis. bounds: the lowest and highest possible value, at which bands are cut. scale: of the y axis.
    evaluated: whether the rounds are those of evaluations.
    """

    reads: Mapping[str, Callable[[Group], Series | None]]
    label: str
    bounds: tuple[float, float] = _UNBOUNDED
    scale: str = "linear"
    evaluated: bool = False

    def draw(self, groups: Sequence[Group], labels: Labels, look: Look) -> Figure:
        """The figure; NothingToDraw where no group has a series."""
        series = self._read(groups, labels)
        if not series:
            raise NothingToDraw
        legend = Legend(list(series), labels)
        panels = LegendPanels(legend, look, list(self.reads))
        ends = [float(each.mean[-1]) for of_group in series.values() for each in of_group.values()]
        if self.scale == "log" or (self.scale == "auto" and min(ends) > 0 and max(ends) > 100 * min(ends)):
            for axes in panels.axes:
                axes.set_yscale("log")
        spacings = {run.settings.get("evaluate_rounds") for group in groups for run in group.runs}
        rounds = "log" if self.evaluated and spacings == {"log"} else "linear"
        for sharing in panels.sharing:
            shown = [
                (axes, {group: series[group][part] for group in legend.panels[panel] if part in series[group]})
                for panel, part, axes in sharing
            ]
            last = max(int(group.settings["rounds"]) for _, of_panel in shown for group in of_panel)
            for axes, of_panel in shown:
                self._draw_panel(axes, of_panel, legend, look)
                panels.set_rounds(axes, last, rounds)
            shown[0][0].set_ylim(self._extent([each for _, of in shown for each in of.values()], shown[0][0], look))
        panels.label("round", self.label)
        panels.legend(legend.styles)
        return panels.figure

    def _read(self, groups: Sequence[Group], labels: Labels) -> dict[Group, dict[str, Series]]:
        """The series of each group that has any; ValueError as soon as a panel has more than `MOST_CURVES`."""
        legend = Legend(groups, labels)
        series: dict[Group, dict[str, Series]] = {}
        for panel, members in legend.panels.items():
            count = len(series)
            for group in members:
                if read := {part: each for part, read in self.reads.items() if (each := read(group)) is not None}:
                    series[group] = read
                if len(series) - count > MOST_CURVES:
                    raise ValueError(
                        f"a panel must have at most {MOST_CURVES} curves, got {len(members)} groups "
                        f"({legend.title(panel)}): choose by --select validation, or name fewer folders"
                    )
        return series

    def _draw_panel(self, axes: Axes, series: Mapping[Group, Series], legend: Legend, look: Look) -> None:
        lowest = max(self.bounds[0], 1e-12) if axes.get_yscale() == "log" else self.bounds[0]
        opacity = _FAINT if len(series) > 3 else 2 * _FAINT
        for number, (group, each) in enumerate(series.items()):
            style, mean, half = legend.style(group), each.mean, look.band(each)
            if np.isfinite(half).any():
                low, high = np.clip(mean - half, lowest, self.bounds[1]), np.clip(mean + half, *self.bounds)
                axes.fill_between(each.x, low, high, color=style.colour, alpha=opacity, lw=0)
            plot(axes, each.x, mean, style, number, len(series), legend.names[group])

    def _extent(self, shown: Sequence[Series], axes: Axes, look: Look) -> tuple[float, float]:
        """The y axis: all means, and the part of their intervals within 60 % of the extent of the means around them.

        So the wide interval of two seeds leaves the curves legible; it leaves the panel.
        """
        means = np.concatenate([series.mean for series in shown])
        if axes.get_yscale() == "log":
            return float(means[means > 0].min()) / 2, float(means.max()) * 2
        halves = np.nan_to_num(np.concatenate([*map(look.band, shown)]))
        low, high = float(means.min()), float(means.max())
        spare = 0.6 * (high - low) or 0.05 * abs(high)
        low, high = (
            max(float((means - halves).min()), low - spare, self.bounds[0]),
            min(float((means + halves).max()), high + spare),
        )
        margin = 0.04 * (high - low) or 0.05 * abs(high) or 0.05
        return low - margin, min(high if high > low else high + margin, self.bounds[1]) + margin


def learning_curve(
    groups: Sequence[Group], labels: Labels, look: Look, split: str = "test", cutoff: Integer | None = None
) -> Figure:
    """NDCG at a cutoff of the deployable ranker on held-out queries."""
    split, known = choice("split", split, SPLITS), known_metrics(groups)
    cutoffs = [int(name.rpartition("_")[2]) for name in known if re.fullmatch(rf"{split}_ndcg_\d+", name)]
    cutoff = choice("cutoff", main_cutoff(known) if cutoff is None else cutoff, cutoffs or CUTOFFS)
    read = partial(evaluation_series, column=f"ndcg_{cutoff}", split=split)
    return Curves({"": read}, f"{split} NDCG@{cutoff}", (0, 1), evaluated=True).draw(groups, labels, look)


def cosine(groups: Sequence[Group], labels: Labels, look: Look) -> Figure:
    """Cosine between the deployed weights and those of the offline RankNet."""

    def read(group: Group) -> Series | None:
        return evaluation_series(group, "cosine", "test") or evaluation_series(group, "cosine", "validation")

    return Curves({"": read}, "cosine to offline RankNet", (-1, 1), evaluated=True).draw(groups, labels, look)


def measure(
    groups: Sequence[Group],
    labels: Labels,
    look: Look,
    column: str = "",
    split: str = "test",
    window: Integer | None = None,
) -> Figure:
    """A column of evaluation.parquet, or one of trace.parquet, which is smoothed unless it is a running total."""
    runs = [run for group in groups for run in group.runs]
    evaluated = {name: each for run in runs for name, each in run.columns.evaluation.items()}
    traced = {name: each for run in runs for name, each in run.columns.trace.items() if name != "query"}
    known = [*traced, *evaluated]
    if not column:
        raise ValueError(f"column must be one of {', '.join(known)}, got none: type --option column={known[0]}")
    column = choice("column", column, known)
    if column in evaluated:
        label = f"{choice('split', split, SPLITS)} {evaluated[column].heading}"
        read = partial(evaluation_series, column=column, split=split)
        return Curves({"": read}, label, evaluated=True).draw(groups, labels, look)
    if traced[column].summary in ("last", "size"):
        read = partial(cumulative_series, column=column, every=_spacing(groups, "window", window))
        return Curves({"": read}, traced[column].heading).draw(groups, labels, look)
    return smoothed(({"": column}, traced[column].heading, _UNBOUNDED), groups, labels, look, window)


def smoothed(
    shown: tuple[Mapping[str, str], str, tuple[float, float]],
    groups: Sequence[Group],
    labels: Labels,
    look: Look,
    window: Integer | None = None,
) -> Figure:
    """Columns of trace.parquet, by the titles of their panels, with label and bounds, as means over windows."""
    columns, label, bounds = shown
    rounds = _spacing(groups, "window", window)
    reads = {part: partial(window_means, column=column, window=rounds) for part, column in columns.items()}
    smoothing = "" if rounds == 1 else f"mean of the last {rounds} rounds"
    return Curves(reads, f"{label}, {smoothing}", bounds).draw(groups, labels, look)


def online_ndcg(groups: Sequence[Group], labels: Labels, look: Look, window: Integer | None = None) -> Figure:
    """NDCG of the shown lists."""
    label = f"online NDCG@{main_cutoff(known_metrics(groups))}"
    return smoothed(({"": ndcg_metrics(groups)[3]}, label, (0, 1)), groups, labels, look, window)


def cumulative_ndcg(groups: Sequence[Group], labels: Labels, look: Look, every: Integer | None = None) -> Figure:
    """Discounted sum of online NDCG up to a round."""
    column = ndcg_metrics(groups)[2]
    read = partial(cumulative_series, column=column, every=_spacing(groups, "every", every))
    return Curves({"": read}, heading(column), (0, np.inf)).draw(groups, labels, look)


def unfairness(
    groups: Sequence[Group],
    labels: Labels,
    look: Look,
    signed: bool | str = False,
    scale: str = "auto",
    every: Integer | None = None,
) -> Figure:
    """Cumulative unfairness of exposure up to a round: its size, or with its sign (positive favours group 0).

    scale: linear, log, or auto, which is log where the groups end more than a hundredfold apart.
    """
    with_sign = choice("signed", str(signed).lower(), ("true", "false")) == "true"
    scale, rounds = choice("scale", scale, ("auto", "linear", "log")), _spacing(groups, "every", every)
    if with_sign and scale == "log":
        raise ValueError("scale must be linear where signed=true, got log")
    read = partial(cumulative_series, column="unfairness", every=rounds)
    if with_sign:
        return Curves({"": read}, "cumulative unfairness UF").draw(groups, labels, look)

    def size(group: Group) -> Series | None:
        series = read(group)
        return series and Series(
            series.x, np.abs(series.values), None if series.seeds is None else np.abs(series.seeds)
        )

    return Curves({"": size}, "cumulative unfairness |UF|", (0, np.inf), scale).draw(groups, labels, look)


def _spacing(groups: Sequence[Group], name: str, rounds: Integer | None) -> int:
    """Rounds between two points: those of the option, or one fiftieth of all."""
    last = max(int(group.settings["rounds"]) for group in groups)
    return max(last // _POINTS, 1) if rounds is None else integer(name, rounds, last)


def block_size_by_rank(
    groups: Sequence[Group], labels: Labels, look: Look, rounds: Sequence[int] | str | None = None
) -> Figure:
    """One panel for each group; a curve for each round, the mean over the seeds whose query has this rank.

    There are no intervals: in a round every seed serves another query, with another number of documents. Without
    `rounds` all recorded rounds, or six of them, evenly from first to last.
    """
    sizes = {group: of_group for group in groups if (of_group := block_sizes(group))}
    if not sizes:
        raise NothingToDraw
    recorded = sorted({round for of_group in sizes.values() for round in of_group})
    if rounds is None:
        places = np.linspace(0, len(recorded) - 1, min(MOST_ROUNDS, len(recorded))).round().astype(int)
        chosen = [recorded[place] for place in places]
    else:
        words = rounds.strip("[]").split(",") if isinstance(rounds, str) else map(str, rounds)
        typed = {word.strip() for word in words}
        chosen = [round for round in recorded if str(round) in typed]
        if not len(typed) == len(chosen) <= MOST_ROUNDS:
            raise ValueError(f"rounds must be one to {MOST_ROUNDS} of {', '.join(map(str, recorded))}, got {rounds}")
    legend = Legend(list(sizes), labels)
    shown = [(panel, group) for panel, members in legend.panels.items() for group in members]
    if len(shown) > _MOST_PANELS:
        raise ValueError(
            f"block_size_by_rank must have at most {_MOST_PANELS} groups, got {len(shown)}: name fewer folders"
        )
    titles = [f"{legend.title(panel)}, {legend.names[group]}" for panel, group in shown]
    columns = 1 if look.inches(len(shown)) < 5 else 2 if len(shown) in (2, 4) else 3
    panels = Panels(in_rows(titles, columns), look)
    looks = zip(shades(len(chosen), 0.0, 0.85), _ROUND_DASHES, _ROUND_MARKERS, strict=False)  # early rounds are dark
    styles = {round: Style(*parts) for round, parts in zip(chosen, looks, strict=True)}
    top = 1.0
    for axes, (_, group) in zip(panels.axes, shown, strict=True):
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


def bar(groups: Sequence[Group], labels: Labels, look: Look, metric: str = "") -> Figure:
    """A metric of summary.json, by default test NDCG, with numbers beside the bars."""
    metric = metric or ndcg_metrics(groups)[0]
    check_metrics([metric], groups, "metric")
    estimates = {group: estimate for group in groups if (estimate := group.estimate(metric)) is not None}
    return _bars(estimates, labels, axis_label(metric), look)


def running_time(groups: Sequence[Group], labels: Labels, look: Look, unit: str = "seconds") -> Figure:
    """Wall-clock time of a run over its rounds, evaluation included, in milliseconds; or rounds per second.

    Each run is one value. All replicas of a run advance in one round, so runs with equally many are comparable.
    """
    unit = choice("unit", unit, ("seconds", "rounds"))
    estimates = {}
    for group in groups:
        values = {}
        for number, stored in enumerate(Run.read_finished(run.path) for run in group.runs):
            if stored.rounds and stored.manifest["seconds"]:
                seconds = stored.manifest["seconds"] / stored.rounds
                values[None, number] = 1e3 * seconds if unit == "seconds" else 1 / seconds
        if (estimate := of_values(values)) is not None:
            estimates[group] = estimate
    replicas = sorted({len(run.seeds) for group in estimates for run in group.runs})
    extent = "one replica" if replicas == [1] else f"{' or '.join(map(str, replicas))} replicas together"
    label = "milliseconds per round" if unit == "seconds" else "rounds per second"
    return _bars(estimates, labels, f"{label}, {extent}", look)


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
            _draw_bar(axes, positions[legend.names[group]], estimates[group].mean, half, legend.style(group))
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
