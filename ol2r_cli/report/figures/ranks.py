"""Block sizes along the ranks of a list, in some rounds: figure 7(a) of PairRank (Jia et al., 2021)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure

from ol2r_cli.report.figures.legend import Legend
from ol2r_cli.report.figures.options import NothingToDraw, Width, inches
from ol2r_cli.report.figures.series import block_sizes, kept_rounds
from ol2r_cli.report.figures.sheet import Sheet, drawn
from ol2r_cli.report.figures.styles import BOTH, DASH_DOT, DASHED, DOTTED, LONG, SOLID, Style
from ol2r_cli.report.groups import Group
from ol2r_cli.report.labels import Labels

MOST = 6  # rounds in a panel
_PANELS = 12
_MARKERS = ("o", "s", "^", "D", "v", "P")
_DASHES = (SOLID, DASHED, DASH_DOT, LONG, BOTH, DOTTED)


def block_size_by_rank(
    groups: Sequence[Group], labels: Labels, rounds: Sequence[int] | str | None = None, width: Width = None
) -> Figure:
    """One panel for each group; a curve for each round, the mean over the seeds whose query has this rank.

    There are no intervals: in a round every seed serves a query of its own, with as many documents as it has.
    """
    kept = {group: own for group in groups if (own := kept_rounds(group))}
    if not kept:
        raise NothingToDraw
    asked = _rounds(rounds, sorted({each for own in kept.values() for each in own}))
    legend = Legend(list(kept), labels)
    shown = [(panel, group) for panel, members in legend.panels.items() for group in members]
    if len(shown) > _PANELS:
        raise ValueError(f"block_size_by_rank must have at most {_PANELS} groups, got {len(shown)}: name fewer folders")
    titles = [f"{legend.title(panel)}, {legend.label(group)}" for panel, group in shown]
    narrow = inches(width, len(shown)) < 5
    each = 1 if narrow else 2 if len(shown) in (2, 4) else 3
    rows = [titles[first : first + each] for first in range(0, len(titles), each)]
    sheet = Sheet(rows, width)
    looks = _looks(asked)
    top = 1.0
    for axes, (_, group) in zip(sheet.axes, shown, strict=True):
        for number, (round, look) in enumerate(looks.items()):
            if (series := block_sizes(group, round)) is not None:
                step = max(len(series.x) // 5, 1)
                axes.plot(series.x, series.mean, **drawn(look), markevery=(number * step // len(looks), step))
                top = max(top, float(series.mean.max()))
        axes.set_xlim(left=1)
    for axes in sheet.axes:
        axes.set_ylim(0, 1.05 * top)
    sheet.label("rank", "documents in the block")
    sheet.legend({f"round {round:,}": look for round, look in looks.items()})
    return sheet.figure


def _looks(rounds: Sequence[int]) -> dict[int, Style]:
    """Early rounds dark, late ones light."""
    shades = colormaps["viridis"](np.linspace(0.0, 0.85, len(rounds)))
    colours = ["#" + "".join(f"{round(255 * part):02x}" for part in shade[:3]) for shade in shades]
    looks = zip(colours, _DASHES[: len(rounds)], _MARKERS[: len(rounds)], strict=True)
    return {each: Style(*look) for each, look in zip(rounds, looks, strict=True)}


def _rounds(given: Sequence[int] | str | None, kept: Sequence[int]) -> list[int]:
    """Those asked for; else all that were kept, or six of them evenly from first to last."""
    if given is None:
        places = np.linspace(0, len(kept) - 1, min(MOST, len(kept))).round().astype(int)
        return [kept[place] for place in places]
    words = given.strip("[]").split(",") if isinstance(given, str) else [str(each) for each in given]
    asked = [int(word) for word in words if word.strip().isdecimal()]
    if len(asked) < len(words) or not set(asked) <= set(kept) or not 1 <= len(asked) <= MOST:
        raise ValueError(f"rounds must be one to {MOST} of {', '.join(map(str, kept))}, got {given}")
    return sorted(set(asked))
