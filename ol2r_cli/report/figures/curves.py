"""Curves over rounds, with bands, and block sizes over ranks: one panel for each dataset and click model."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ol2r_cli.columns import CUTOFFS, SPLITS, main_cutoff
from ol2r_cli.report.figures.kinds import PLAIN, Integer, Look, NothingToDraw, Switch, choice, inches, integer, switch
from ol2r_cli.report.figures.layout import Panels, marked_points
from ol2r_cli.report.figures.legend import Legend, Panel, in_rows
from ol2r_cli.report.figures.series import (
    Series,
    block_rounds,
    block_size_series,
    cumulative_series,
    evaluation_series,
    last_round,
    window_means,
)
from ol2r_cli.report.figures.style import BOTH, DASH_DOT, DASHED, DOTTED, LONG, SOLID, Style, line_keywords, shades
from ol2r_cli.report.labels import Labels
from ol2r_cli.report.measures import heading, known_metrics, ndcg_metrics
from ol2r_cli.report.run_groups import Group

MOST_CURVES = 16  # in a panel
MOST_ROUNDS = 6  # in a panel of block sizes by rank
_MOST_PANELS = 12  # of block sizes by rank
_FAINT = 0.1  # opacity of a band among many
_POINTS = 50  # of a curve from a trace
_RANKS = (1, 5, 10)  # whose blocks are traced
_NON_NEGATIVE = (0.0, np.inf)
_UNBOUNDED = (-np.inf, np.inf)
_ROUND_DASHES = (SOLID, DASHED, DASH_DOT, LONG, BOTH, DOTTED)
_ROUND_MARKERS = ("o", "s", "^", "D", "v", "P")
Read = Callable[[Group], Series | None]
Bounds = tuple[float, float]


def learning_curve(
    groups: Sequence[Group], labels: Labels, split: str = "test", cutoff: Integer | None = None, look: Look = PLAIN
) -> Figure:
    """NDCG at a cutoff of the deployable ranker on held-out queries."""
    split, known = choice("split", split, SPLITS), known_metrics(groups)
    cutoffs = [int(name.rpartition("_")[2]) for name in known if re.fullmatch(rf"{split}_ndcg_\d+", name)]
    cutoff = choice("cutoff", main_cutoff(known) if cutoff is None else cutoff, cutoffs or CUTOFFS)
    read = partial(evaluation_series, column=f"ndcg_{cutoff}", split=split)
    return _curves(groups, labels, {"": read}, f"{split} NDCG@{cutoff}", look, bounds=(0, 1), rounds=_spaced(groups))


def cosine(groups: Sequence[Group], labels: Labels, look: Look = PLAIN) -> Figure:
    """Cosine between the deployed weights and those of the offline RankNet."""

    def read(group: Group) -> Series | None:
        return evaluation_series(group, "cosine", "test") or evaluation_series(group, "cosine", "validation")

    label = "cosine to offline RankNet"
    return _curves(groups, labels, {"": read}, label, look, bounds=(-1, 1), rounds=_spaced(groups))


def measure(
    groups: Sequence[Group],
    labels: Labels,
    column: str = "",
    split: str = "test",
    window: Integer | None = None,
    look: Look = PLAIN,
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
        split = choice("split", split, SPLITS)
        read: Read = partial(evaluation_series, column=column, split=split)
        label = f"{split} {evaluated[column].heading}"
        return _curves(groups, labels, {"": read}, label, look, _UNBOUNDED, rounds=_spaced(groups))
    if traced[column].summary in ("last", "size"):
        read = partial(cumulative_series, column=column, every=_spacing(groups, "window", window))
        return _curves(groups, labels, {"": read}, traced[column].heading, look, _UNBOUNDED)
    return _smoothed(column, traced[column].heading, _UNBOUNDED)(groups, labels, window, look)


def _smoothed(column: str, label: str, bounds: Bounds = _NON_NEGATIVE) -> Callable[..., Figure]:
    """The function of a figure of a column of trace.parquet, as means over windows of rounds."""

    def draw(groups: Sequence[Group], labels: Labels, window: Integer | None = None, look: Look = PLAIN) -> Figure:
        rounds = _spacing(groups, "window", window)
        read = partial(window_means, column=column, window=rounds)
        return _curves(groups, labels, {"": read}, f"{label}, {_smoothing(rounds)}", look, bounds)

    return draw


def online_ndcg(groups: Sequence[Group], labels: Labels, window: Integer | None = None, look: Look = PLAIN) -> Figure:
    """NDCG of the shown lists."""
    label = f"online NDCG@{main_cutoff(known_metrics(groups))}"
    return _smoothed(ndcg_metrics(groups)[3], label, bounds=(0, 1))(groups, labels, window, look)


blocks = _smoothed("blocks", "number of blocks")
certain_ratio = _smoothed("certain_top10", "certain pairs in the top 10", bounds=(0, 1))
violations = _smoothed("violations", "reversed pairs per round")


def block_size(groups: Sequence[Group], labels: Labels, window: Integer | None = None, look: Look = PLAIN) -> Figure:
    """Size of the block at ranks 1, 5 and 10, with a column of panels for each."""
    rounds = _spacing(groups, "window", window)
    reads = {f"rank {rank}": partial(window_means, column=f"block_size_{rank}", window=rounds) for rank in _RANKS}
    return _curves(groups, labels, reads, f"block size, {_smoothing(rounds)}", look, bounds=_NON_NEGATIVE)


def cumulative_ndcg(
    groups: Sequence[Group], labels: Labels, every: Integer | None = None, look: Look = PLAIN
) -> Figure:
    """Discounted sum of online NDCG up to a round."""
    column = ndcg_metrics(groups)[2]
    read = partial(cumulative_series, column=column, every=_spacing(groups, "every", every))
    return _curves(groups, labels, {"": read}, heading(column), look, bounds=_NON_NEGATIVE)


def unfairness(
    groups: Sequence[Group],
    labels: Labels,
    signed: Switch = False,
    scale: str = "auto",
    every: Integer | None = None,
    look: Look = PLAIN,
) -> Figure:
    """Cumulative unfairness of exposure up to a round: its size, or with its sign (positive favours group 0).

    scale: linear, log, or auto, which is log where the groups end more than a hundredfold apart.
    """
    signed, scale = switch("signed", signed), choice("scale", scale, ("auto", "linear", "log"))
    rounds = _spacing(groups, "every", every)
    if signed and scale == "log":
        raise ValueError("scale must be linear where signed=true, got log")

    def read(group: Group) -> Series | None:
        series = cumulative_series(group, "unfairness", rounds)
        if series is None or signed:
            return series
        return Series(series.x, np.abs(series.values), None if series.seeds is None else np.abs(series.seeds))

    label = "cumulative unfairness UF" if signed else "cumulative unfairness |UF|"
    bounds = _UNBOUNDED if signed else _NON_NEGATIVE
    return _curves(groups, labels, {"": read}, label, look, bounds, "linear" if signed else scale)


def block_size_by_rank(
    groups: Sequence[Group], labels: Labels, rounds: Sequence[int] | str | None = None, look: Look = PLAIN
) -> Figure:
    """One panel for each group; a curve for each round, the mean over the seeds whose query has this rank.

    There are no intervals: in a round every seed serves another query, with another number of documents.
    """
    recorded = {group: own_rounds for group in groups if (own_rounds := block_rounds(group))}
    if not recorded:
        raise NothingToDraw
    chosen = _chosen_rounds(rounds, sorted({number for numbers in recorded.values() for number in numbers}))
    legend = Legend(list(recorded), labels)
    shown = [(panel, group) for panel, members in legend.panels.items() for group in members]
    if len(shown) > _MOST_PANELS:
        raise ValueError(
            f"block_size_by_rank must have at most {_MOST_PANELS} groups, got {len(shown)}: name fewer folders"
        )
    titles = [f"{legend.title(panel)}, {legend.label(group)}" for panel, group in shown]
    narrow = inches(look.width, len(shown)) < 5
    panels = Panels(in_rows(titles, 1 if narrow else 2 if len(shown) in (2, 4) else 3), look.width)
    styles = _round_styles(chosen)
    top = 1.0
    for axes, (_, group) in zip(panels.axes, shown, strict=True):
        for number, (round, style) in enumerate(styles.items()):
            if (series := block_size_series(group, round)) is not None:
                marked = marked_points(len(series.x), number, len(styles))
                axes.plot(series.x, series.mean, **line_keywords(style), markevery=marked)
                top = max(top, float(series.mean.max()))
        axes.set_xlim(left=1)
    for axes in panels.axes:
        axes.set_ylim(0, 1.05 * top)
    panels.label("rank", "documents in the block")
    panels.legend({f"round {round:,}": style for round, style in styles.items()})
    return panels.figure


def _round_styles(rounds: Sequence[int]) -> dict[int, Style]:
    """Early rounds dark, late rounds light."""
    styles = zip(shades(len(rounds), 0.0, 0.85), _ROUND_DASHES, _ROUND_MARKERS, strict=False)
    return {round: Style(*style) for round, style in zip(rounds, styles, strict=False)}


def _chosen_rounds(rounds: Sequence[int] | str | None, recorded: Sequence[int]) -> list[int]:
    """The rounds of the option; without it all recorded rounds, or six of them, evenly from first to last."""
    if rounds is None:
        places = np.linspace(0, len(recorded) - 1, min(MOST_ROUNDS, len(recorded))).round().astype(int)
        return [recorded[place] for place in places]
    words = rounds.strip("[]").split(",") if isinstance(rounds, str) else [str(round) for round in rounds]
    numbers = [int(word) for word in words if word.strip().isdecimal()]
    if len(numbers) < len(words) or not set(numbers) <= set(recorded) or not 1 <= len(numbers) <= MOST_ROUNDS:
        raise ValueError(f"rounds must be one to {MOST_ROUNDS} of {', '.join(map(str, recorded))}, got {rounds}")
    return sorted(set(numbers))


def _spacing(groups: Sequence[Group], name: str, rounds: Integer | None) -> int:
    """Rounds between two points: those of the option, or one fiftieth of all."""
    last = max(map(last_round, groups))
    return max(last // _POINTS, 1) if rounds is None else integer(name, rounds, last)


def _smoothing(window: int) -> str:
    return "" if window == 1 else f"mean of the last {window} rounds"


def _curves(
    groups: Sequence[Group],
    labels: Labels,
    reads: Mapping[str, Read],
    label: str,
    look: Look,
    bounds: Bounds,
    scale: str = "linear",
    rounds: str = "linear",
) -> Figure:
    """A panel for each dataset and click model, or a row of panels, titled by the keys of `reads`, if it has several.

    bounds: the lowest and highest possible value, at which bands are cut. scale, rounds: those of the y and x axis.
    """
    series = _read(groups, labels, reads)
    if not series:
        raise NothingToDraw
    legend = Legend(list(series), labels)
    parts = list(reads)
    rows: list[list[Panel]] = legend.rows(look.width) if len(parts) == 1 else [[panel] for panel in legend.panels]
    titles = [[", ".join(filter(None, [legend.title(panel), part])) for panel in row for part in parts] for row in rows]
    panels = Panels(titles, look.width, share=len(parts) > 1 or legend.shares_rows)
    all_series = [each for of_group in series.values() for each in of_group.values()]
    if scale == "log" or (scale == "auto" and _far_apart(all_series)):
        for axes in panels.axes:
            axes.set_yscale("log")
    remaining = iter(panels.axes)
    for row in rows:
        drawn: list[tuple[Axes, dict[Group, Series]]] = []
        for panel in row:
            for part in parts:
                of_panel = {group: series[group][part] for group in legend.panels[panel] if part in series[group]}
                axes = next(remaining)
                _draw(axes, of_panel, legend, bounds, look)
                drawn.append((axes, of_panel))
        for sharing in [drawn] if panels.share else [[one] for one in drawn]:
            every = [each for _, of_panel in sharing for each in of_panel.values()]
            sharing[0][0].set_ylim(_extent(every, bounds, axes.get_yscale(), look))
            last = max(last_round(group) for _, of_panel in sharing for group in of_panel)
            panels.set_rounds([axes for axes, _ in sharing], last, rounds)
    panels.label("round", label)
    panels.legend(legend.entries())
    return panels.figure


def _spaced(groups: Sequence[Group]) -> str:
    """The scale of rounds for evaluations: log where all runs are evaluated at such rounds."""
    spacings = {run.settings.get("evaluate_rounds") for group in groups for run in group.runs}
    return "log" if spacings == {"log"} else "linear"


def _read(groups: Sequence[Group], labels: Labels, reads: Mapping[str, Read]) -> dict[Group, dict[str, Series]]:
    """The series of each group that has any; ValueError as soon as a panel has more than `MOST_CURVES`."""
    legend = Legend(groups, labels)
    series: dict[Group, dict[str, Series]] = {}
    for panel, members in legend.panels.items():
        of_panel: dict[Group, dict[str, Series]] = {}
        for group in members:
            if of_group := {name: each for name, read in reads.items() if (each := read(group)) is not None}:
                of_panel[group] = of_group
            if len(of_panel) > MOST_CURVES:
                raise ValueError(
                    f"a panel must have at most {MOST_CURVES} curves, got {len(members)} groups "
                    f"({legend.title(panel)}): choose by --select validation, or name fewer folders"
                )
        series |= of_panel
    return series


def _draw(axes: Axes, series: Mapping[Group, Series], legend: Legend, bounds: Bounds, look: Look) -> None:
    lowest = max(bounds[0], 1e-12) if axes.get_yscale() == "log" else bounds[0]
    opacity = _FAINT if len(series) > 3 else 2 * _FAINT
    for number, (group, each) in enumerate(series.items()):
        style = legend.style(group)
        mean, half = each.mean, look.band(each)
        if np.isfinite(half).any():
            low, high = np.clip(mean - half, lowest, bounds[1]), np.clip(mean + half, *bounds)
            axes.fill_between(each.x, low, high, color=style.colour, alpha=opacity, lw=0)
        marked = marked_points(len(each.x), number, len(series))
        axes.plot(each.x, mean, label=legend.label(group), **line_keywords(style), markevery=marked)


def _extent(shown: Sequence[Series], bounds: Bounds, scale: str, look: Look) -> tuple[float, float]:
    """The y axis: all means, and the part of their intervals within 60 % of the extent of the means around them.

    So the wide interval of two seeds leaves the curves legible; it leaves the panel.
    """
    means = np.concatenate([series.mean for series in shown])
    if scale == "log":
        return float(means[means > 0].min()) / 2, float(means.max()) * 2
    halves = np.nan_to_num(np.concatenate([*map(look.band, shown)]))
    low, high = float(means.min()), float(means.max())
    spare = 0.6 * (high - low) or 0.05 * abs(high)
    low, high = (
        max(float((means - halves).min()), low - spare, bounds[0]),
        min(float((means + halves).max()), high + spare),
    )
    margin = 0.04 * (high - low) or 0.05 * abs(high) or 0.05
    return low - margin, min(high if high > low else high + margin, bounds[1]) + margin


def _far_apart(shown: Sequence[Series]) -> bool:
    ends = [float(series.mean[-1]) for series in shown]
    return min(ends) > 0 and max(ends) > 100 * min(ends)
