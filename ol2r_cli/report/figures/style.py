"""One style for each ranker in all figures: a colour that colour-blind readers can distinguish, a dash and a marker.

Colours are those of Okabe and Ito (2008) and of Paul Tol's muted scheme. There are more rankers than distinguishable
colours. So rankers of similar colours differ in dash and marker, and rankers that the papers show together differ in
colour. A fairness keeps the colour of its ranker and has another dash and a hollow marker.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

INK = "#1a1a1b"  # text, axes and skylines
RULE = "#d5d5d6"  # lines behind the data
Dash = str | tuple[int, tuple[float, ...]]

SOLID: Dash = "-"
DASHED: Dash = (0, (4, 1.5))
DOTTED: Dash = (0, (1, 1.2))
DASH_DOT: Dash = (0, (5, 1.3, 1, 1.3))
LONG: Dash = (0, (8, 1.5))
BOTH: Dash = (0, (3, 1.2, 1, 1.2, 1, 1.2))
_FAIR = {"fairexp": DASHED, "fairco": DASH_DOT, "mcfair": DOTTED}


@dataclass(frozen=True)
class Style:
    """Colour, dash and marker of a curve; `hollow` markers are not filled."""

    colour: str
    dash: Dash
    marker: str
    hollow: bool = False


RANKERS = {
    "pairrank": Style("#0072b2", SOLID, "o"),
    "pepairrank": Style("#44aa99", LONG, "d"),
    "olranknet": Style("#d55e00", SOLID, "s"),
    "ollambdarank": Style("#e69f00", LONG, "^"),
    "p2neurrank": Style("#009e73", SOLID, "D"),
    "pdgd": Style("#cc79a7", DASHED, "v"),
    "dbgd": Style("#7a7a7c", DOTTED, "X"),
    "mgd": Style("#882255", DASH_DOT, "P"),
    "nsgd": Style("#661100", DASHED, "8"),
    "coltr": Style("#6699cc", DASH_DOT, "<"),
    "intervention_aware": Style("#aa4499", DASHED, "X"),
    "epsilon_greedy": Style("#999933", BOTH, ">"),
    "sgd_ranknet": Style("#332288", DASHED, "<"),
    "toprank": Style("#117733", DASH_DOT, "h"),
    "cascade_ucb1": Style("#2ecee9", DASHED, ">"),
    "cascade_kl_ucb": Style("#186ceb", LONG, "<"),
    "cascade_linucb": Style("#7adf8c", DASH_DOT, "v"),
    "cascade_lints": Style("#0401ea", BOTH, "^"),
    "ips_regression": Style("#aa5500", LONG, "p"),
    "offline_ranknet": Style(INK, DASHED, "D"),
    "offline_network": Style(INK, DASH_DOT, "8"),
    "offline_lambdamart": Style(INK, DOTTED, "P"),
    "ollambdarank_gt": Style(INK, LONG, "*"),
    "oracle": Style(INK, SOLID, "H"),
    "random": Style("#a9a9ab", BOTH, "."),
}
_OTHER_COLOURS = ("#332288", "#44aa99", "#117733", "#999933", "#882255", "#aa4499", "#cc6677", "#6699cc")
_OTHER_DASHES = (SOLID, DASHED, DASH_DOT, LONG, BOTH)
_OTHER_MARKERS = ("o", "s", "^", "v", "D", "P", "X", "p", "h")
_VARIANT_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p", "h")


def style(ranker: str, fairness: str = "none", neural: bool = False) -> Style:
    """The style of a ranker; an extension has a style that follows from its name.

    neural: the ranker has a network, and the figure also shows it as a linear ranker: a darker colour.
    """
    own = RANKERS.get(ranker) or _from_name(ranker)
    if neural:
        own = replace(own, colour=shade(own.colour, -0.35), dash=BOTH, hollow=True)
    if fairness != "none":
        own = replace(own, dash=_FAIR.get(fairness, DOTTED), hollow=True)
    return own


def variants(base: Style, count: int) -> list[Style]:
    """Styles for several settings of one ranker: its colour from dark to light, and markers in a fixed order."""
    if count == 1:
        return [base]
    first = _VARIANT_MARKERS.index(base.marker) if base.marker in _VARIANT_MARKERS else 0
    markers = [_VARIANT_MARKERS[(first + number) % len(_VARIANT_MARKERS)] for number in range(count)]
    dashes = list(dict.fromkeys([base.dash, SOLID, DASHED, DASH_DOT, LONG, BOTH]))
    steps = [-0.5 + 1.05 * number / (count - 1) for number in range(count)]
    return [
        replace(base, colour=shade(base.colour, step), marker=marker, dash=dashes[number % len(dashes)])
        for number, (step, marker) in enumerate(zip(steps, markers, strict=True))
    ]


def shade(colour: str, step: float) -> str:
    """A colour mixed with black (step -1 is black) or with white (step 1 is white)."""
    parts = [int(colour[place : place + 2], 16) for place in (1, 3, 5)]
    mixed = [part * (1 + step) if step < 0 else part + (255 - part) * step for part in parts]
    return "#" + "".join(f"{round(part):02x}" for part in mixed)


def _from_name(ranker: str) -> Style:
    digest = hashlib.sha256(ranker.encode()).digest()
    colour, dash, marker = (
        options[byte % len(options)]
        for options, byte in zip((_OTHER_COLOURS, _OTHER_DASHES, _OTHER_MARKERS), digest, strict=False)
    )
    return Style(str(colour), dash, str(marker))


FONT = 8  # points
LETTER = FONT * 0.56 / 72  # inches: a letter of this font, on average
RC: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial", "sans-serif"],  # the first comes with matplotlib
    "font.size": FONT,
    "axes.titlesize": FONT,
    "axes.labelsize": FONT,
    "xtick.labelsize": FONT - 1,
    "ytick.labelsize": FONT - 1,
    "legend.fontsize": FONT - 0.5,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "xtick.minor.size": 1.5,
    "ytick.minor.size": 1.5,
    "hatch.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.unicode_minus": True,
    "figure.dpi": 100,
    "savefig.dpi": 200,
    "svg.fonttype": "none",  # text stays text: searchable, and in the reader's font
    "svg.hashsalt": "ol2r",
    "pdf.fonttype": 42,  # TrueType, as publishers ask for
    "path.simplify": False,
}


@contextmanager
def figure_settings() -> Iterator[None]:
    """matplotlib with the settings of all figures; the caller's settings are restored afterwards."""
    import matplotlib

    with matplotlib.rc_context({**matplotlib.rcParamsDefault, **RC}):
        yield


def line_keywords(style: Style) -> dict[str, Any]:
    """A style as keywords of `Axes.plot`."""
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
    import matplotlib

    colours = matplotlib.colormaps["viridis"](np.linspace(first, last, count))
    return ["#" + "".join(f"{round(255 * part):02x}" for part in colour[:3]) for colour in colours]
