"""The kinds of figures, their options, and their files. matplotlib is imported with the first figure.

>>> from ol2r_cli.report.figures.drawing import draw, save          # doctest: +SKIP
>>> save(draw("learning_curve", groups, labels), "learning_curve.pdf")          # doctest: +SKIP
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ol2r_cli.columns import BLOCK_RANKS
from ol2r_cli.files import write_output
from ol2r_cli.lazy import lazy
from ol2r_cli.metrics.intervals import LEAST_UNITS
from ol2r_cli.report.estimates import BANDS, UNITS
from ol2r_cli.report.names import Labels
from ol2r_cli.report.run_groups import Group

if TYPE_CHECKING:
    import matplotlib
    from matplotlib.figure import Figure
else:
    matplotlib = lazy("matplotlib")

FONT = 8  # points
WIDTHS = {"column": 3.3, "page": 7.0}  # inches
SUFFIXES = (".png", ".svg", ".pdf")
_WITHOUT_DATES: dict[str, dict[str, str | None]] = {
    "png": {"Software": None},
    "svg": {"Date": None},
    "pdf": {"CreationDate": None, "ModDate": None},
}
MOST_CURVES = 16  # in a panel
_PATHS_AND_MARKERS = re.compile(rb"^(?:[LCQ] | *<path .*d=\"M | *<use ).*$", re.MULTILINE)  # lines of an svg, no text
Choice = TypeVar("Choice", str, int)


class NothingToDraw(ValueError):
    """No group has what the figure shows."""


@dataclass(frozen=True)
class Look:
    """The options of every kind.

    width: column, page or inches. bands, units: those of `Estimate.band`. xlim, ylim: the ends of an axis, as text
    `0,5000` or two numbers. xlabel, ylabel: in place of those of the kind.
    """

    width: str | float | None = None
    bands: str | None = None
    units: str | None = None
    xlim: str | Sequence[float] | None = None
    ylim: str | Sequence[float] | None = None
    xlabel: str | None = None
    ylabel: str | None = None

    def __post_init__(self) -> None:
        for name, allowed in (("bands", BANDS), ("units", UNITS)):
            if (value := getattr(self, name)) is not None:
                choice(name, value, allowed)
        for axis in ("x", "y"):
            self.limits(axis)

    def band(self, values: Any) -> Any:
        """The `band` of an estimate or a series."""
        return values.band(self.bands, self.units)

    def limits(self, axis: str) -> tuple[float, float] | None:
        """The ends of the axis x or y; ValueError for what are not two numbers, the lower one first."""
        given = getattr(self, f"{axis}lim")
        if given is None:
            return None
        with suppress(ValueError, TypeError):
            low, high = map(float, given.strip("[]()").split(",") if isinstance(given, str) else given)
            if low < high and math.isfinite(high - low):
                return low, high
        raise ValueError(f"{axis}lim must be two numbers, the lower one first, such as 0,1, got {given}")

    def set_limits(self, figure: Figure) -> None:
        """Give all panels the limits; ValueError for limits that a logarithmic axis cannot have."""
        for axis in ("x", "y"):
            limits = self.limits(axis)
            for panel in figure.axes if limits else ():
                if limits and limits[0] <= 0 and getattr(panel, f"get_{axis}scale")() == "log":
                    raise ValueError(f"{axis}lim must be above 0 on a logarithmic axis, got {limits[0]:g}")
                getattr(panel, f"set_{axis}lim")(limits)

    def inches(self, panels: int) -> float:
        """The width in inches; by default that of a column for one panel, and of a page for several."""
        width = ("column" if panels == 1 else "page") if self.width is None else self.width
        number = math.nan
        with suppress(ValueError):
            number = float(WIDTHS.get(str(width), width))
        if not 2 <= number <= 30:
            raise ValueError(f"width must be column, page or inches from 2 to 30, got {self.width}")
        return number


PLAIN = Look()
EVERY_KIND = tuple(vars(PLAIN))  # names of options
OF_A_PAGE = ("bands", "units")  # those that a page of figures of several kinds takes


class Shown(NamedTuple):
    """What a figure shows, and how."""

    groups: Sequence[Group]
    labels: Labels
    look: Look


class Kind(NamedTuple):
    """A figure that `draw` knows, drawn by the function of its name in `module`, or by `curves.smoothed` with columns.

    shows: its content, in one line. needs: what the runs must have, as the end of a sentence. options: names of those
    that it has beside those of `Look`. reading: a sentence on intervals, {} for what they are. columns: of
    trace.parquet, by the ends of the titles of their panels, with the label and the bounds of the y axis.
    """

    shows: str
    needs: str = "finished runs"
    options: Sequence[str] = ()
    reading: str = "Lines are means; bands are {}, cut where they leave the panel."
    columns: tuple[Mapping[str, str], str, tuple[float, float]] | None = None
    module: str = "curves"


def _of_blocks(shows: str, label: str, columns: Mapping[str, str], top: float = math.inf) -> Kind:
    needs = "an exploration that forms blocks, such as ranker=pairrank, and blocks in measures"
    return Kind(f"{shows}, smoothed", needs, ["window"], columns=(columns, label, (0.0, top)))


_BARS = "Lines at the ends of bars are {}."
KINDS: Mapping[str, Kind] = {
    "learning_curve": Kind(
        "NDCG on held-out queries over rounds",
        "runs with evaluate_on=[validation,test] and a ranker that is evaluated offline",
        ["split", "cutoff"],
    ),
    "measure": Kind(
        "a measure over rounds",
        "a column with values: --option column=NAME, such as err_10 with measures=[ndcg,err]",
        ["column", "split", "window"],
    ),
    "online_ndcg": Kind("NDCG of the lists shown over rounds, smoothed", options=["window"]),
    "cumulative_ndcg": Kind("discounted sum of online NDCG over rounds", options=["every"]),
    "unfairness": Kind(
        "cumulative unfairness of exposure between groups over rounds",
        "a dataset with groups: dataset=synthetic, or dataset.group={feature: .., threshold: ..}",
        ["signed", "scale", "every"],
        "Lines are means; bands are {}, on a logarithmic axis those of the logarithm of the mean.",
    ),
    "block_size": _of_blocks(
        "size of the block at ranks 1, 5 and 10 over rounds",
        "block size",
        {f"rank {rank}": f"block_size_{rank}" for rank in BLOCK_RANKS},
    ),
    "blocks": _of_blocks("number of blocks over rounds", "number of blocks", {"": "blocks"}),
    "block_size_by_rank": Kind(
        "size of the block at every rank in some rounds",
        "rounds that were kept: block_rounds=[10,100,1000], and blocks to keep, as of ranker=pairrank",
        ["rounds"],
        "Means over the seeds whose query in this round has the rank.",
    ),
    "certain_ratio": _of_blocks(
        "share of certain pairs in the top 10 over rounds",
        "certain pairs in the top 10",
        {"": "certain_top10"},
        top=1.0,
    ),
    "cosine": Kind(
        "cosine between a linear ranker and the offline RankNet over rounds",
        "linear rankers that were run with trace_cosine=true",
    ),
    "violations": _of_blocks(
        "certain pairs that the shown list reverses over rounds", "reversed pairs per round", {"": "violations"}
    ),
    "running_time": Kind("milliseconds per round", options=["unit"], reading=_BARS, module="bars"),
    "bar": Kind("one metric by group, with intervals", options=["metric"], reading=_BARS, module="bars"),
    "differences": Kind(
        "paired differences of one metric to a baseline, with intervals",
        "a baseline, such as --baseline pdgd, and other rows with its folds and seeds",
        ["baseline", "metric", "test"],
        "Dots are means over the (fold, seed) that both have, filled where the difference is significant after Holm's "
        "correction; lines are {}.",
        module="bars",
    ),
    "by_setting": Kind(
        "one metric by a setting, a curve for runs that differ in it alone",
        "runs with several numbers for the setting: --option setting=NAME, such as ranker.l2",
        ["setting", "metric"],
    ),
    "lda": Kind(
        "documents by grade on two axes: features against what a network makes of them",
        "the ranker.pt of a ranker with a network, such as ranker=olranknet, and its dataset",
        ["documents", "seed", "config_dir"],
        "",
        module="lda",
    ),
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
    known = [*KINDS[kind].options, *EVERY_KIND]
    for name in options:
        if name not in known:
            raise ValueError(f"an option of figure {kind} must be one of {', '.join(known)}, got {name}")
    look = Look(**{name: options.pop(name) for name in EVERY_KIND if name in options})
    with figure_settings():
        try:
            figure: Figure = painter(kind)(Shown(groups, labels, look), **options)
        except NothingToDraw:
            raise NothingToDraw(f"figure {kind} needs {KINDS[kind].needs}") from None
        look.set_limits(figure)
    return figure


def painter(kind: str) -> Any:
    """The function that draws a kind of figure, from what is shown and options."""
    module = import_module(f"ol2r_cli.report.figures.{KINDS[kind].module}")
    columns = KINDS[kind].columns
    return partial(module.smoothed, *columns) if columns else getattr(module, kind)


def reading(kind: str, groups: Sequence[Group], look: Look) -> tuple[str, str]:
    """What the intervals of a figure are, and how many groups have none by default because they have too few units."""
    text = "Means without intervals." if look.bands == "none" else KINDS[kind].reading
    if "{}" not in text:
        return text, ""
    few = 0
    for group in groups if look.bands is None else ():
        size = len(group.runs) if kind == "running_time" else group.units.independent_count(group, look.units)
        few += size < LEAST_UNITS
    unit = "runs" if kind == "running_time" else "seeds or folds"
    some = f"No intervals for {few} of {len(groups)} groups: they have fewer than {LEAST_UNITS} {unit}."
    bands = {"sd": "standard deviations", "se": "standard errors of the mean"}.get(look.bands or "")
    over = f" over {look.units}" if look.units else ""
    return text.format((bands or "95% intervals of the mean") + over), some if few else ""


def figure_settings() -> AbstractContextManager[None]:
    """matplotlib with the settings of all figures; the caller's settings are restored afterwards."""
    return matplotlib.rc_context(fname=Path(__file__).with_name("paper.mplstyle"))


def save(figure: Figure, path: str | Path) -> None:
    """Write a figure as png, svg or pdf, by the suffix; the same figure always gives the same bytes.

    ValueError for another suffix and a file that cannot be written.
    """
    path = Path(path)
    if path.suffix not in SUFFIXES:
        raise ValueError(f"a figure's file must end in {', '.join(SUFFIXES)}, got {path}")
    try:
        write_output(path, file_content(figure, path.suffix[1:]))
    except OSError as error:
        raise ValueError(f"a figure's file must be one that can be written, got {path} ({error.strerror})") from error


def file_content(figure: Figure, form: str, transparent: bool = False) -> bytes:
    """The bytes of a png, svg or pdf, without dates."""
    content = io.BytesIO()
    with figure_settings():
        figure.savefig(content, format=form, metadata=_WITHOUT_DATES[form], transparent=transparent)
    if form != "svg":
        return content.getvalue()
    # Two digits of a point are enough; matplotlib writes six, and files are an eighth larger.
    return _PATHS_AND_MARKERS.sub(lambda line: re.sub(rb"(\.\d\d)\d+", rb"\1", line[0]), content.getvalue())


def choice(name: str, value: Any, allowed: Sequence[Choice]) -> Choice:
    """The allowed value with the same text; ValueError where there is none."""
    for one in allowed:
        if str(value) == str(one):
            return one
    raise ValueError(f"{name} must be one of {', '.join(map(str, allowed))}, got {value}")


def integer(name: str, value: Any, most: int, least: int = 1) -> int:
    """A whole number from `least` to `most`."""
    if not str(value).isdecimal() or not least <= int(value) <= most:
        raise ValueError(f"{name} must be a whole number from {least} to {most}, got {value}")
    return int(value)
