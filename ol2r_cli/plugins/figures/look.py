"""What every figure has: the groups that it shows, its width, intervals and axes, and how options are read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ol2r_cli.report.estimates import BANDS, UNITS
from ol2r_cli.report.names import Labels
from ol2r_cli.report.run_groups import Group
from ol2r_cli.report.shown_metrics import check_metrics, ndcg_metrics

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FONT = 8  # points
WIDTHS = {"column": 3.3, "page": 7.0}  # inches
MOST_CURVES = 16  # in a panel
Choice = TypeVar("Choice", str, int)
Integer = int | str  # as from Python, or from a command line
Bounds = tuple[float, float]  # the lowest and the highest value
UNBOUNDED: Bounds = (-math.inf, math.inf)


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
        if self.bands is not None:
            choice("bands", self.bands, BANDS)
        if self.units is not None:
            choice("units", self.units, UNITS)
        for axis in ("x", "y"):
            self.limits(axis)

    def band(self, values: Any) -> Any:
        """Return the `band` of an estimate or a series."""
        return values.band(self.bands, self.units)

    def limits(self, axis: str) -> tuple[float, float] | None:
        """Return the ends of the axis x or y; ValueError for what are not two numbers, the lower one first."""
        ends = getattr(self, f"{axis}lim")
        if ends is None:
            return None
        numbers = ends.strip("[]()").split(",") if isinstance(ends, str) else ends
        with suppress(ValueError, TypeError):
            low, high = map(float, numbers)
            if low < high and math.isfinite(high - low):
                return low, high
        raise ValueError(f"{axis}lim must be two numbers, the lower one first, such as 0,1, got {ends}")

    def set_limits(self, figure: Figure) -> None:
        """Give all panels the limits; ValueError for limits that a logarithmic axis cannot have."""
        for axis in ("x", "y"):
            limits = self.limits(axis)
            if limits is None:
                continue
            for panel in figure.axes:
                if limits[0] <= 0 and getattr(panel, f"get_{axis}scale")() == "log":
                    raise ValueError(f"{axis}lim must be above 0 on a logarithmic axis, got {limits[0]:g}")
                getattr(panel, f"set_{axis}lim")(limits)

    def inches(self, panels: int) -> float:
        """Return the width in inches; by default that of a column for one panel, and of a page for several."""
        if self.width is None:
            return WIDTHS["column"] if panels == 1 else WIDTHS["page"]
        inches = math.nan
        with suppress(ValueError):
            inches = float(WIDTHS.get(str(self.width), self.width))
        if not 2 <= inches <= 30:
            raise ValueError(f"width must be column, page or inches from 2 to 30, got {self.width}")
        return inches


PLAIN = Look()
EVERY_KIND = tuple(vars(PLAIN))  # names of options
OF_A_PAGE = ("bands", "units")  # those that a page of figures of several kinds takes


class Shown(NamedTuple):
    """What a figure shows, and how."""

    groups: Sequence[Group]
    labels: Labels
    look: Look

    def metric(self, typed: str) -> str:
        """Return the metric that was typed, by default test NDCG; ValueError for one that no group has."""
        (metric,) = check_metrics([typed or ndcg_metrics(self.groups).test], self.groups, "metric")
        return metric


class YAxis(NamedTuple):
    """The y axis of curves over rounds.

    bounds: the lowest and the highest possible value, at which bands are cut. scale: linear, log, or auto, which is log
    where curves end more than a hundredfold apart.
    """

    label: str
    bounds: Bounds = UNBOUNDED
    scale: str = "linear"

    @property
    def log(self) -> bool:
        return self.scale == "log"

    def decided(self, ends: Sequence[float]) -> YAxis:
        """Return the axis with the scale that `auto` is for curves with these ends."""
        if self.scale != "auto":
            return self
        far_apart = min(ends) > 0 and max(ends) > 100 * min(ends)
        return self._replace(scale="log" if far_apart else "linear")


def choice(name: str, value: Any, allowed: Sequence[Choice]) -> Choice:
    """Return the allowed value with the same text; ValueError where there is none."""
    for candidate in allowed:
        if str(value) == str(candidate):
            return candidate
    raise ValueError(f"{name} must be one of {', '.join(map(str, allowed))}, got {value}")


def integer(name: str, value: Any, most: int, least: int = 1) -> int:
    """Return a whole number from `least` to `most`; ValueError for anything else."""
    if not str(value).isdecimal() or not least <= int(value) <= most:
        raise ValueError(f"{name} must be a whole number from {least} to {most}, got {value}")
    return int(value)
