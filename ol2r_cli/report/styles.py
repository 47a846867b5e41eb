"""How groups look in figures: the colour, dash and marker of each name of `legend.py`, the same in every figure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

from ol2r_cli.plugins import other_kinds
from ol2r_cli.report.parts import NAMED_PARTS

Dash = str | tuple[int, tuple[float, ...]]
SOLID: Dash = "-"
DASHED: Dash = (0, (4, 1.5))
DOTTED: Dash = (0, (1, 1.2))
DASH_DOT: Dash = (0, (5, 1.3, 1, 1.3))
LONG: Dash = (0, (8, 1.5))
BOTH: Dash = (0, (3, 1.2, 1, 1.2, 1, 1.2))
INK = "#1a1a1b"  # text, axes and skylines


class Style(NamedTuple):
    """Colour, dash and marker of a curve; `hollow` markers are not filled."""

    colour: str
    dash: Dash
    marker: str
    hollow: bool = False


# Colours are those of Okabe and Ito (2008) and of Paul Tol's muted scheme, for colour-blind readers. There are more
# rankers than such colours: rankers of similar colours differ in dash and marker, and rankers that papers show together
# in colour.
RANKER_STYLES = {
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
    "batchrank": Style("#0f8554", DOTTED, "H"),
    "cascade_ucb1": Style("#2ecee9", DASHED, ">"),
    "cascade_kl_ucb": Style("#186ceb", LONG, "<"),
    "cascade_ducb": Style("#1f235b", DOTTED, "d"),
    "cascade_swucb": Style("#2226c1", SOLID, "p"),
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
_FAIRNESS_DASHES = {"fairexp": DASHED, "fairco": DASH_DOT, "mcfair": DOTTED}
_OTHER_COLOURS = ("#332288", "#44aa99", "#117733", "#999933", "#882255", "#aa4499", "#cc6677", "#6699cc")
_OTHER_DASHES = (SOLID, DASHED, DASH_DOT, LONG, BOTH)
_OTHER_MARKERS = ("o", "s", "^", "v", "D", "P", "X", "p", "h")
_SETTING_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p", "h")
_DARKEST, _LIGHTEST = -0.5, 0.55  # steps of `shade` for the values of a setting


@cache
def ranker_styles() -> dict[str, Style]:
    """Return `RANKER_STYLES`, and the styles of what other kinds of runs have in place of rankers."""
    return RANKER_STYLES | {choice: style for kind in other_kinds() for choice, style in kind.styles().items()}


def ranker_style(ranker: str, parts: Mapping[str, str]) -> Style:
    """Return the style of a ranker; `parts` are those that do not come with it.

    That of an extension follows from its name. Another model is darker, another exploration lighter; these and a
    fairness have a dash of their own and hollow markers.
    """
    model, exploration, fairness = (parts.get(part, "") for part in NAMED_PARTS)
    style = ranker_styles().get(ranker) or style_of_name(ranker)
    if model:
        style = style._replace(colour=shade(style.colour, -0.35), dash=BOTH, hollow=True)
    if exploration:
        look = style_of_name(exploration)
        style = Style(shade(style.colour, 0.35), look.dash, look.marker, hollow=True)
    if fairness:
        style = style._replace(dash=_FAIRNESS_DASHES.get(fairness, DOTTED), hollow=True)
    return style


def style_of_name(name: str) -> Style:
    """Return a style that follows from a name, for a choice that has none here."""
    colour, dash, marker = hashlib.sha256(name.encode()).digest()[:3]
    return Style(
        _OTHER_COLOURS[colour % len(_OTHER_COLOURS)],
        _OTHER_DASHES[dash % len(_OTHER_DASHES)],
        _OTHER_MARKERS[marker % len(_OTHER_MARKERS)],
    )


def setting_styles(own: Style, rows: Sequence[Sequence[str]]) -> list[Style]:
    """Return a style for each row, which has the values of the settings in which entries of one ranker differ.

    own: the style of the ranker, which a single row has. Where one setting varies, each value has another colour, from
    dark to light, another dash and another marker. Where several do, the one with most values is the colour, and the
    others together are dash and marker.
    """
    if len(rows) == 1:
        return [own]
    values_by_column = [list(dict.fromkeys(column)) for column in zip(*rows, strict=True)]
    value_counts = [len(values) for values in values_by_column]
    coloured = value_counts.index(max(value_counts))  # of equally many the first
    shades = values_by_column[coloured]
    rests = list(dict.fromkeys(_without(row, coloured) for row in rows))
    dashes = list(dict.fromkeys([own.dash, *_OTHER_DASHES]))
    markers = _markers_from(own.marker)
    styles = []
    for row in rows:
        shade_number = shades.index(row[coloured])
        look = rests.index(_without(row, coloured)) if len(rests) > 1 else shade_number
        step = _DARKEST + (_LIGHTEST - _DARKEST) * shade_number / max(len(shades) - 1, 1)
        styles.append(
            Style(shade(own.colour, step), dashes[look % len(dashes)], markers[look % len(markers)], own.hollow)
        )
    return styles


def _without(row: Sequence[str], column: int) -> tuple[str, ...]:
    return (*row[:column], *row[column + 1 :])


def _markers_from(first: str) -> tuple[str, ...]:
    """Return the markers of settings, beginning with this one if it is among them."""
    start = _SETTING_MARKERS.index(first) if first in _SETTING_MARKERS else 0
    return _SETTING_MARKERS[start:] + _SETTING_MARKERS[:start]


def shade(colour: str, step: float) -> str:
    """Return a colour mixed with black (step -1 is black) or with white (step 1 is white)."""
    channels = [int(colour[place : place + 2], 16) for place in (1, 3, 5)]
    mixed = [channel * (1 + step) if step < 0 else channel + (255 - channel) * step for channel in channels]
    return "#" + "".join(f"{round(channel):02x}" for channel in mixed)
