"""How wide the columns of a table are on a terminal: text is wrapped between words, numbers never are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile

_WORD = re.compile(r"[^\W\d_]{4}|.{31}")  # what is not in a number with its signs and units: 3m 05s, 1.4 MB
_NARROW = 16  # columns of a terminal that a column of text with longer words keeps beside numbers


@dataclass(frozen=True)
class Widths:
    """The widths that a column may have on a terminal: no line, no word, or at least not everything is broken."""

    full: int
    unbroken: int
    least: int
    is_text: bool


def possible_widths(
    headings: Sequence[str], columns: Iterable[Sequence[str]], numbers: Sequence[bool], room: int
) -> list[Widths]:
    """Return the widths of columns with these texts below these headings."""
    widths = []
    for heading, texts, is_number in zip(headings, columns, numbers, strict=True):
        full = longest_line([heading, *texts])
        if is_number or not any(map(_WORD.search, texts)):
            widths.append(Widths(full, full, full, is_text=False))
            continue
        longest_word = min(_longest_word(texts), 2 * room // 5)  # an address may be broken, and leaves room for others
        unbroken = max(_longest_word([heading]), longest_word)
        widths.append(Widths(full, unbroken, min(unbroken, _NARROW), is_text=True))
    return widths


def split_columns(columns: Sequence[Widths], room: int, gap: int) -> list[list[int]]:
    """Return the places of the columns of each table: all that have room, behind those that say what a row is."""
    first = list(takewhile(lambda place: columns[place].is_text, range(len(columns)))) or [0]
    tables = [list(first)]
    for place in range(len(first), len(columns)):
        least = total_width([columns[inner].least for inner in [*tables[-1], place]], gap)
        if least > room and len(tables[-1]) > len(first):
            tables.append(list(first))
        tables[-1].append(place)
    return tables


def fitting_widths(columns: Sequence[Widths], room: int, gap: int) -> list[int]:
    """Return widths with which the columns fit, if there are any.

    The widest text becomes narrower first, down to its longest word, and then the last text, whose words are broken.
    """
    widths = [column.full for column in columns]
    while total_width(widths, gap) > room:
        narrowed = [place for place, column in enumerate(columns) if widths[place] > column.unbroken]
        if not narrowed:
            narrowed = [place for place, column in enumerate(columns) if widths[place] > column.least][-1:]
        if not narrowed:
            break
        widths[max(narrowed, key=lambda place: widths[place])] -= 1
    return widths


def total_width(widths: Iterable[int], gap: int) -> int:
    """Return the width of columns with a gap between two of them."""
    return sum(width + gap for width in widths) - gap


def longest_line(texts: Iterable[str]) -> int:
    """Return the length of the longest line of some texts."""
    return max((len(line) for text in texts for line in text.split("\n")), default=0)


def _longest_word(texts: Iterable[str]) -> int:
    return max((len(word) for text in texts for word in text.split()), default=0)
