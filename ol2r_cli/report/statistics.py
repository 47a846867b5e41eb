"""Means with 95 % intervals: Student's t, from means and standard deviations of parts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

LEVEL = 0.95


@dataclass(frozen=True)
class Estimate:
    """Mean and standard deviation (divisor n - 1; None for one value) of n values."""

    mean: float
    sd: float | None
    n: int

    @property
    def half_width(self) -> float | None:
        """t sd / sqrt(n), with n - 1 degrees of freedom; None for one value."""
        return None if self.sd is None else quantile(self.n - 1) * self.sd / self.n**0.5


@cache
def quantile(degrees: int) -> float:
    """What |t| stays below with probability `LEVEL`: 12.7 for one degree of freedom, 1.96 for very many."""
    from scipy.special import stdtrit  # the inverse of Student's t distribution; `scipy.stats` takes a second to import

    return float(stdtrit(degrees, (1 + LEVEL) / 2))


def pool(parts: Iterable[Estimate]) -> Estimate | None:
    """The estimate of all values together, exactly as from the values themselves; None without parts.

    Squared deviations from the common mean m add up to sum_i (n_i - 1) sd_i^2 + n_i (mean_i - m)^2.
    """
    parts = list(parts)
    n = sum(part.n for part in parts)
    if not n:
        return None
    mean = sum(part.n * part.mean for part in parts) / n
    if n == 1:
        return Estimate(mean, None, 1)
    squares = sum((part.n - 1) * (part.sd or 0.0) ** 2 + part.n * (part.mean - mean) ** 2 for part in parts)
    return Estimate(mean, (squares / (n - 1)) ** 0.5, n)
