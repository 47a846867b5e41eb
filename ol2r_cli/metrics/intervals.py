"""Half of the interval around a mean, as `ol2r run`, tables and figures print it behind ±."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from ol2r_cli.lazy import lazy
from ol2r_cli.text.formatting import plus_minus

if TYPE_CHECKING:
    from scipy import special
else:
    special = lazy("scipy.special")  # scipy.stats would take a second to import

LEVEL = 0.95
LEAST_UNITS = 3  # for a test, and for an interval that is drawn unless another one is asked for


def half_width(sd: float | None, n: int, bands: str | None = "ci") -> float | None:
    """Return half of an interval around the mean of n values; None where it is not drawn, and for one value.

    ci: t sd / sqrt(n), with n - 1 degrees of freedom. sd: the standard deviation. se: sd / sqrt(n). None: ci from
    `LEAST_UNITS` values on.
    """
    if sd is None or n < 2 or bands == "none" or (bands is None and n < LEAST_UNITS):
        return None
    if bands == "sd":
        return sd
    error = sd / n**0.5
    return error if bands == "se" else quantile(n - 1) * error


@cache
def quantile(degrees: int) -> float:
    """Return the bound that |t| does not exceed with probability `LEVEL`: 12.7 for one degree of freedom, 1.96 for
    many."""
    return float(special.stdtrit(degrees, (1 + LEVEL) / 2))  # the inverse of Student's t distribution


def with_interval(values: Mapping[str, Any], digits: int) -> str:
    """Return a metric of summary.json over seeds, as `0.4123 ± 0.0021`: its mean and half of its interval.

    values: its "mean", "sd" and "n".
    """
    return plus_minus(values["mean"], half_width(values["sd"], values["n"]), digits)
