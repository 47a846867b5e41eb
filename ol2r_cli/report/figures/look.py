"""How figures look and are written: fonts that print, lines that are thin, files that are the same at any time."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from ol2r_cli.report.figures.styles import INK

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
def look() -> Iterator[None]:
    """The settings of matplotlib under which figures are made and written; those of the caller come back."""
    with matplotlib.rc_context({**matplotlib.rcParamsDefault, **RC}):
        yield


def write(figure: Figure, form: str, transparent: bool = False) -> bytes:
    """The bytes of a png, svg or pdf, without dates."""
    dateless: dict[str, dict[str, str | None]] = {
        "png": {"Software": None},
        "svg": {"Date": None},
        "pdf": {"CreationDate": None, "ModDate": None},
    }
    content = io.BytesIO()
    with look():
        figure.savefig(content, format=form, metadata=dateless[form], transparent=transparent)
    return content.getvalue()
