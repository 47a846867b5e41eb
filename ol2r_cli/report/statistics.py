"""Means with 95 % intervals by Student's t, over the seeds of one dataset or over folds with several seeds each.

Seeds within a fold share its training and test queries, so a fold that is easy is easy for all of them: n values from
F folds say less than n independent ones. With the model y(f, s) = mean + fold(f) + seed(f, s), both random, the means
of the folds are independent values with the common mean; where folds have equally many seeds their spread has exactly
the variance that the mean needs, whatever the two parts are. So the fold is the unit as soon as there are several.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

LEVEL = 0.95


@dataclass(frozen=True)
class Estimate:
    """The mean of n values, and what its interval needs.

    mean: of the values; over several folds the mean of the folds' means. sd: of all n values (divisor n - 1), None for
    one value. folds: of how many there are values; between: the standard deviation of their means, None for one fold.
    """

    mean: float
    sd: float | None
    n: int
    folds: int = 1
    between: float | None = None

    @property
    def units(self) -> int:
        """How many independent values the mean is of: folds where there are several, else values."""
        return self.folds if self.folds > 1 else self.n

    @property
    def spread(self) -> float | None:
        """The standard deviation of the units; None for one."""
        return self.between if self.folds > 1 else self.sd

    @property
    def half_width(self) -> float | None:
        """t spread / sqrt(units), with units - 1 degrees of freedom; None for one unit."""
        return None if self.spread is None else quantile(self.units - 1) * self.spread / self.units**0.5


@cache
def quantile(degrees: int) -> float:
    """What |t| stays below with probability `LEVEL`: 12.7 for one degree of freedom, 1.96 for very many."""
    from scipy.special import stdtrit  # the inverse of Student's t distribution; `scipy.stats` takes a second to import

    return float(stdtrit(degrees, (1 + LEVEL) / 2))


def pool(parts: Iterable[Estimate]) -> Estimate | None:
    """The estimate of all values of one fold together, exactly as from the values themselves; None without parts."""
    parts = list(parts)
    return _together(parts) if parts else None


def over_folds(parts: Mapping[Hashable, Sequence[Estimate]]) -> Estimate | None:
    """The estimate over folds from the parts of each, every fold counting the same; None without parts."""
    folds = [_together(of_fold) for of_fold in parts.values() if of_fold]
    if len(folds) < 2:
        return folds[0] if folds else None
    between = _together([Estimate(fold.mean, None, 1) for fold in folds])
    values = _together(folds)
    return Estimate(between.mean, values.sd, values.n, len(folds), between.sd)


def _together(parts: Sequence[Estimate]) -> Estimate:
    """Squared deviations from the common mean m add up to sum_i (n_i - 1) sd_i^2 + n_i (mean_i - m)^2."""
    if len(parts) == 1:
        return parts[0]
    n = sum(part.n for part in parts)
    mean = sum(part.n * part.mean for part in parts) / n
    squares = sum((part.n - 1) * (part.sd or 0.0) ** 2 + part.n * (part.mean - mean) ** 2 for part in parts)
    return Estimate(mean, (squares / (n - 1)) ** 0.5, n)


def of_values(values: Mapping[tuple[Hashable, int], float]) -> Estimate | None:
    """The estimate from the value of each (fold, seed)."""
    parts: dict[Hashable, list[Estimate]] = {}
    for (fold, _), value in values.items():
        parts.setdefault(fold, []).append(Estimate(value, None, 1))
    return over_folds(parts)
