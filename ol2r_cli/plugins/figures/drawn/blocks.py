"""Figures of explorations that form blocks: sizes and numbers of blocks, certain pairs, and those reversed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ol2r_cli.columns import BLOCK_RANKS
from ol2r_cli.plugins.figures.drawn.over_rounds import smoothed
from ol2r_cli.plugins.figures.look import Integer, NothingToDraw, Shown, YAxis
from ol2r_cli.plugins.figures.panels import Panels, in_rows, plot, shades
from ol2r_cli.plugins.figures.series import Series, block_sizes
from ol2r_cli.report.names import Legend
from ol2r_cli.report.run_groups import Group
from ol2r_cli.report.styles import BOTH, DASH_DOT, DASHED, DOTTED, LONG, SOLID, Style

MOST_ROUNDS = 6  # in a panel of block sizes by rank
_MOST_PANELS = 12  # of block sizes by rank
_DASHES = (SOLID, DASHED, DASH_DOT, LONG, BOTH, DOTTED)
_MARKERS = ("o", "s", "^", "D", "v", "P")


def block_size(shown: Shown, window: Integer | None = None) -> Figure:
    """Draw the size of the block at some ranks over rounds, a panel for each rank."""
    columns = {f"rank {rank}": f"block_size_{rank}" for rank in BLOCK_RANKS}
    return smoothed(columns, YAxis("block size", (0, np.inf)), shown, window)


def blocks(shown: Shown, window: Integer | None = None) -> Figure:
    """Draw the number of blocks over rounds."""
    return smoothed({"": "blocks"}, YAxis("number of blocks", (0, np.inf)), shown, window)


def certain_ratio(shown: Shown, window: Integer | None = None) -> Figure:
    """Draw the share of certain pairs in the top 10 over rounds."""
    return smoothed({"": "certain_top10"}, YAxis("certain pairs in the top 10", (0, 1)), shown, window)


def violations(shown: Shown, window: Integer | None = None) -> Figure:
    """Draw the number of certain pairs that the shown list reverses over rounds."""
    return smoothed({"": "violations"}, YAxis("reversed pairs per round", (0, np.inf)), shown, window)


def block_size_by_rank(shown: Shown, rounds: Sequence[int] | str | None = None) -> Figure:
    """Draw one panel for each group; a curve for each round, the mean over the seeds whose query has this rank.

    There are no intervals: in a round every seed serves another query, with another number of documents. Without
    `rounds` all recorded rounds, or six of them, evenly from first to last.
    """
    sizes = {group: block_sizes(group) for group in shown.groups}
    sizes = {group: by_round for group, by_round in sizes.items() if by_round}
    if not sizes:
        raise NothingToDraw
    recorded = sorted(set().union(*sizes.values()))
    chosen = _first_to_last(recorded) if rounds is None else _typed_rounds(rounds, recorded)
    titles = _titles(Legend(list(sizes), shown.labels))
    if len(titles) > _MOST_PANELS:
        raise ValueError(
            f"block_size_by_rank must have at most {_MOST_PANELS} groups, got {len(titles)}: name fewer folders"
        )
    panels = Panels(in_rows(list(titles.values()), shown.look.inches(len(titles))), shown.look)
    styles = _round_styles(chosen)
    drawn = [_draw_rounds(axes, sizes[group], styles) for axes, group in zip(panels.axes, titles, strict=True)]
    for axes in panels.axes:
        axes.set_ylim(0, 1.05 * max(1.0, *drawn))
    panels.label("rank", "documents in the block")
    panels.legend({f"round {number:,}": style for number, style in styles.items()})
    return panels.figure


def _first_to_last(recorded: Sequence[int]) -> list[int]:
    """Return all rounds, or six of them, evenly from first to last."""
    places = np.linspace(0, len(recorded) - 1, min(MOST_ROUNDS, len(recorded)))
    return [recorded[place] for place in places.round().astype(int)]


def _typed_rounds(rounds: Sequence[int] | str, recorded: Sequence[int]) -> list[int]:
    """Return the rounds that the option names; ValueError for one that was not recorded, and for more than six."""
    words = rounds.strip("[]").split(",") if isinstance(rounds, str) else rounds
    typed = {str(word).strip() for word in words}
    chosen = [number for number in recorded if str(number) in typed]
    if not len(typed) == len(chosen) <= MOST_ROUNDS:
        raise ValueError(f"rounds must be one to {MOST_ROUNDS} of {', '.join(map(str, recorded))}, got {rounds}")
    return chosen


def _titles(legend: Legend) -> dict[Group, str]:
    """Return the title of the panel of each group, in the order of the legend."""
    titles = {}
    for panel, groups in legend.panels.items():
        for group in groups:
            titles[group] = f"{panel.title}, {legend.names[group]}"
    return titles


def _round_styles(rounds: Sequence[int]) -> dict[int, Style]:
    """Return the style of each round: early rounds are dark."""
    colours = shades(len(rounds), 0.0, 0.85)
    looks = zip(rounds, colours, _DASHES, _MARKERS, strict=False)
    return {number: Style(colour, dash, marker) for number, colour, dash, marker in looks}


def _draw_rounds(axes: Axes, sizes: Mapping[int, Series], styles: Mapping[int, Style]) -> float:
    """Draw the curves of the rounds that a group has recorded; return their largest value, 0 without any."""
    largest = 0.0
    for number, (of_round, style) in enumerate(styles.items()):
        if of_round in sizes:
            series = sizes[of_round]
            plot(axes, series.x, series.mean, style, number, len(styles))
            largest = max(largest, float(series.mean.max()))
    axes.set_xlim(left=1)
    return largest
