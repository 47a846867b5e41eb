"""One look per ranker, the same in every figure: a colour that the colour-blind can tell, a dash and a marker.

Colours are of Okabe and Ito (2008) and of Paul Tol's muted scheme. There are more rankers than colours that anybody can
tell, so rankers that are close in colour differ in dash and marker, and those that the papers show together differ in
colour. Fairness keeps a ranker's colour and takes a dash and a hollow marker of its own.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

INK = "#1a1a1b"  # text, axes and skylines; `page` writes it in the colour of the page's text
RULE = "#d5d5d6"  # lines behind the data
Dash = str | tuple[int, tuple[float, ...]]

SOLID: Dash = "-"
DASHED: Dash = (0, (4, 1.5))
DOTTED: Dash = (0, (1, 1.2))
DASH_DOT: Dash = (0, (5, 1.3, 1, 1.3))
LONG: Dash = (0, (8, 1.5))
BOTH: Dash = (0, (3, 1.2, 1, 1.2, 1, 1.2))
_FAIR = {"fairexp": DASHED, "fairco": DASH_DOT}


@dataclass(frozen=True)
class Style:
    """How the curve of a ranker looks; `hollow` markers are not filled."""

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
    "epsilon_greedy": Style("#999933", BOTH, ">"),
    "sgd_ranknet": Style("#332288", DASHED, "<"),
    "toprank": Style("#117733", DASH_DOT, "h"),
    "ips_regression": Style("#aa5500", LONG, "p"),
    "offline_ranknet": Style(INK, DASHED, "D"),
    "offline_network": Style(INK, DASH_DOT, "8"),
    "ollambdarank_gt": Style(INK, LONG, "*"),
    "oracle": Style(INK, SOLID, "H"),
    "random": Style("#a9a9ab", BOTH, "."),
}
_OTHER_COLOURS = ("#332288", "#44aa99", "#117733", "#999933", "#882255", "#aa4499", "#cc6677", "#6699cc")
_OTHER_DASHES = (SOLID, DASHED, DASH_DOT, LONG, BOTH)
_OTHER_MARKERS = ("o", "s", "^", "v", "D", "P", "X", "p", "h")
_VARIANT_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p", "h")


def style(ranker: str, fairness: str = "none", neural: bool = False) -> Style:
    """Of a ranker by its choice. One that is not of this project gets what follows from its name alone.

    `neural`: it occurs here with a network as well as linear, and is the one with a network: a darker colour.
    """
    look = RANKERS.get(ranker) or _from_name(ranker)
    if neural:
        look = replace(look, colour=shade(look.colour, -0.35), dash=BOTH, hollow=True)
    if fairness != "none":
        look = replace(look, dash=_FAIR.get(fairness, DOTTED), hollow=True)
    return look


def variants(look: Style, count: int) -> list[Style]:
    """Looks for several settings of one ranker: its colour from dark to light, and markers in a fixed order."""
    if count == 1:
        return [look]
    first = _VARIANT_MARKERS.index(look.marker) if look.marker in _VARIANT_MARKERS else 0
    markers = [_VARIANT_MARKERS[(first + number) % len(_VARIANT_MARKERS)] for number in range(count)]
    dashes = [look.dash, SOLID, DASHED, DASH_DOT, LONG, BOTH]
    dashes = [dash for place, dash in enumerate(dashes) if dash not in dashes[:place]]
    steps = [-0.5 + 1.05 * number / (count - 1) for number in range(count)]
    return [
        replace(look, colour=shade(look.colour, step), marker=marker, dash=dashes[number % len(dashes)])
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
