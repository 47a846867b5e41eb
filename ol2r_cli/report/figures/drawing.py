"""Draws a figure of one kind and writes it to a file. matplotlib is imported with the first figure.

>>> from ol2r_cli.report.figures.drawing import draw, save          # doctest: +SKIP
>>> save(draw("learning_curve", groups, labels), "learning_curve.pdf")          # doctest: +SKIP
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ol2r_cli.atomic_file import write_bytes
from ol2r_cli.report.estimates import LEAST_UNITS
from ol2r_cli.report.figures.kinds import EVERY_KIND, KINDS, Look, NothingToDraw
from ol2r_cli.report.labels import Labels
from ol2r_cli.report.run_groups import Group

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg", ".pdf")
_WITHOUT_DATES: dict[str, dict[str, str | None]] = {
    "png": {"Software": None},
    "svg": {"Date": None},
    "pdf": {"CreationDate": None, "ModDate": None},
}


def draw(kind: str, groups: Sequence[Group], labels: Labels, **options: Any) -> Figure:
    """A figure of one of the `KINDS`. Options may be text, as from a command line.

    ValueError, in one line that says what to type, for an unknown kind or option and a value that is not allowed;
    NothingToDraw, a ValueError, where no group has what the figure shows.
    """
    if kind not in KINDS:
        raise ValueError(f"a figure must be one of {', '.join(KINDS)}, got {kind}")
    if find_spec("matplotlib") is None:
        raise ValueError("figures need matplotlib: type pip install 'ol2r[plots]'")
    function = painter(kind)
    known = [*list(signature(function).parameters)[2:-1], *EVERY_KIND]
    for name in options:
        if name not in known:
            raise ValueError(f"an option of figure {kind} must be one of {', '.join(known)}, got {name}")
    from ol2r_cli.report.figures.style import figure_settings

    with figure_settings():
        try:
            look = Look(**{name: options.pop(name) for name in EVERY_KIND if name in options})
            return function(groups, labels, **options, look=look)
        except NothingToDraw as lacking:
            detail = f" ({lacking})" if str(lacking) else ""
            raise NothingToDraw(f"figure {kind} needs {KINDS[kind].needs}{detail}") from None


def reading(kind: str, groups: Sequence[Group], look: Look) -> tuple[str, str]:
    """What the intervals of a figure are, and how many groups have none by default because they have too few units."""
    text = "Means without intervals." if look.bands == "none" else KINDS[kind].reading
    if "{}" not in text:
        return text, ""
    sizes = [len(group.runs) if kind == "running_time" else group.units(look.units) for group in groups]
    few = sum(size < LEAST_UNITS for size in sizes) if look.bands is None else 0
    some = f"No intervals for {few} of {len(groups)} groups: they have fewer than {LEAST_UNITS} seeds or folds."
    return text.format(look.reading), some if few else ""


def painter(kind: str) -> Any:
    """The function that draws a kind of figure, from groups, labels and options."""
    return getattr(import_module(f"ol2r_cli.report.figures.{KINDS[kind].module}"), kind)


def save(figure: Figure, path: str | Path) -> None:
    """Write a figure as png, svg or pdf, by the suffix; the same figure always gives the same bytes.

    ValueError for another suffix and a file that cannot be written.
    """
    path = Path(path)
    if path.suffix not in SUFFIXES:
        raise ValueError(f"a figure's file must end in {', '.join(SUFFIXES)}, got {path}")
    try:
        write_bytes(path, file_content(figure, path.suffix[1:]))
    except OSError as error:
        raise ValueError(f"a figure's file must be one that can be written, got {path} ({error.strerror})") from error


def file_content(figure: Figure, form: str, transparent: bool = False) -> bytes:
    """The bytes of a png, svg or pdf, without dates."""
    from ol2r_cli.report.figures.style import figure_settings

    content = io.BytesIO()
    with figure_settings():
        figure.savefig(content, format=form, metadata=_WITHOUT_DATES[form], transparent=transparent)
    return content.getvalue()
