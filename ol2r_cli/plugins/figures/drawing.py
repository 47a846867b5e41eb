"""Drawing a figure of one of the kinds of `kinds.py`, and its file. matplotlib is imported with the first figure.

>>> from ol2r_cli.plugins.figures.drawing import draw, save          # doctest: +SKIP
>>> save(draw("learning_curve", groups, labels), "learning_curve.pdf")          # doctest: +SKIP
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ol2r_cli.files import write_output
from ol2r_cli.lazy import lazy
from ol2r_cli.plugins.figures import ENDINGS
from ol2r_cli.plugins.figures.kinds import KINDS
from ol2r_cli.plugins.figures.look import EVERY_KIND, Look, NothingToDraw, Shown
from ol2r_cli.report.names import Labels
from ol2r_cli.report.run_groups import Group

if TYPE_CHECKING:
    import matplotlib
    from matplotlib.figure import Figure
else:
    matplotlib = lazy("matplotlib")

_WITHOUT_DATES: dict[str, dict[str, str | None]] = {
    "png": {"Software": None},
    "svg": {"Date": None},
    "pdf": {"CreationDate": None, "ModDate": None},
}
_PATHS_AND_MARKERS = re.compile(rb"^(?:[LCQ] | *<path .*d=\"M | *<use ).*$", re.MULTILINE)  # lines of an svg, no text


def draw(kind: str, groups: Sequence[Group], labels: Labels, **options: Any) -> Figure:
    """Return a figure of one of the `KINDS`. Options may be text, as from a command line.

    ValueError, in one line that says what to type, for an unknown kind or option and a value that is not allowed;
    NothingToDraw, a ValueError, where no group has what the figure shows.
    """
    if kind not in KINDS:
        raise ValueError(f"a figure must be one of {', '.join(KINDS)}, got {kind}")
    check_installed()
    known = [*KINDS[kind].options, *EVERY_KIND]
    for name in options:
        if name not in known:
            raise ValueError(f"an option of figure {kind} must be one of {', '.join(known)}, got {name}")
    look = Look(**{name: options.pop(name) for name in EVERY_KIND if name in options})
    with figure_settings():
        try:
            figure = painter(kind)(Shown(groups, labels, look), **options)
        except NothingToDraw:
            raise NothingToDraw(f"figure {kind} needs {KINDS[kind].needs}") from None
        look.set_limits(figure)
    return figure


def check_installed() -> None:
    """Raise ValueError without matplotlib, which says how to install it."""
    if find_spec("matplotlib") is None:
        raise ValueError("figures need matplotlib: type pip install 'ol2r[plots]'")


def painter(kind: str) -> Callable[..., Figure]:
    """Return the function that draws a kind of figure, from what is shown and options."""
    module = import_module(f"ol2r_cli.plugins.figures.drawn.{KINDS[kind].module}")
    drawn: Callable[..., Figure] = getattr(module, kind)
    return drawn


def figure_settings() -> AbstractContextManager[None]:
    """Give matplotlib the settings of all figures; those of the caller are restored afterwards."""
    return matplotlib.rc_context(fname=Path(__file__).with_name("paper.mplstyle"))


def save(figure: Figure, path: str | Path) -> None:
    """Write a figure as png, svg or pdf, by the suffix; the same figure always gives the same bytes.

    ValueError for another suffix and a file that cannot be written.
    """
    path = Path(path)
    if path.suffix not in ENDINGS:
        raise ValueError(f"a figure's file must end in {', '.join(ENDINGS)}, got {path}")
    try:
        write_output(path, file_content(figure, path.suffix[1:]))
    except OSError as error:
        raise ValueError(f"a figure's file must be one that can be written, got {path} ({error.strerror})") from error


def file_content(figure: Figure, form: str, transparent: bool = False) -> bytes:
    """Return the bytes of a png, svg or pdf, without dates."""
    content = io.BytesIO()
    with figure_settings():
        figure.savefig(content, format=form, metadata=_WITHOUT_DATES[form], transparent=transparent)
    if form != "svg":
        return content.getvalue()
    # Two digits of a point are enough; matplotlib writes six, and files are an eighth larger.
    return _PATHS_AND_MARKERS.sub(lambda line: re.sub(rb"(\.\d\d)\d+", rb"\1", line[0]), content.getvalue())
