"""Means with 95 % intervals, paired tests, Holm's correction and effect sizes.

Seeds within a fold share its training and test queries, so n values from F folds carry less information than n
independent values. With the model y(f, s) = mean + fold(f) + seed(f, s), both random, the means of the folds are
independent and have the common mean; where folds have equally many seeds, their spread has exactly the variance that
the mean needs, whatever the two parts are. So folds are the units as soon as there are several, otherwise seeds.

The distribution functions come from `scipy.special`: importing `scipy.stats` takes a second, and its `permutation_test`
draws other signs. docs/comparison.md has the formulas.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

LEVEL = 0.95  # of intervals
TESTS = ("t", "permutation")
ALPHA = 0.05
EXACT = 20  # units: up to this number all 2^units signs are enumerated
BANDS = ("ci", "sd", "se", "none")
UNITS = ("seeds", "folds")
LEAST_UNITS = 3  # for a test, and for an interval that is drawn unless another one is asked for
_DRAWS = 100_000  # of signs beyond that
_SEED = 20_260_000  # the same values always give the same p


@dataclass(frozen=True)
class Estimate:
    """The mean of n values, and what its interval needs.

    mean: of the values; over several folds the mean of the folds' means. sd: of all n values (divisor n - 1), None for
    one value. folds: how many folds have values. between: standard deviation of their means, None for one fold.
    """

    mean: float
    sd: float | None
    n: int
    folds: int = 1
    between: float | None = None

    @property
    def units(self) -> int:
        """The number of independent values: folds where there are several, otherwise values."""
        return self.folds if self.folds > 1 else self.n

    @property
    def spread(self) -> float | None:
        """The standard deviation of the units; None for one unit."""
        return self.between if self.folds > 1 else self.sd

    @property
    def half_width(self) -> float | None:
        """Half the 95 % interval over the units; None for one unit."""
        return self.band("ci")

    def band(self, bands: str | None = None, units: str | None = None) -> float | None:
        """`half_width` over these units; None: folds where there are several."""
        if units is None:
            return half_width(self.spread, self.units, bands)
        return half_width(*((self.sd, self.n) if units == "seeds" else (self.between, self.folds)), bands)


def half_width(sd: float | None, n: int, bands: str | None) -> float | None:
    """Half of an interval around the mean of n values; None where it is not drawn, and for one value.

    ci: t sd / sqrt(n), with n - 1 degrees of freedom. sd: the standard deviation. se: sd / sqrt(n). None: ci from
    `LEAST_UNITS` values on.
    """
    if sd is None or n < 2 or bands == "none" or (bands is None and n < LEAST_UNITS):
        return None
    return sd if bands == "sd" else (1 if bands == "se" else quantile(n - 1)) * sd / n**0.5


@cache
def quantile(degrees: int) -> float:
    """The bound that |t| does not exceed with probability `LEVEL`: 12.7 for one degree of freedom, 1.96 for many."""
    from scipy.special import stdtrit  # the inverse of Student's t distribution

    return float(stdtrit(degrees, (1 + LEVEL) / 2))


def over_folds(parts: Mapping[Hashable, Sequence[Estimate]]) -> Estimate | None:
    """The estimate over folds from the parts of each; every fold has the same weight. None without parts."""
    folds = [_pooled(of_fold) for of_fold in parts.values() if of_fold]
    if len(folds) < 2:
        return folds[0] if folds else None
    between = _pooled([Estimate(fold.mean, None, 1) for fold in folds])
    values = _pooled(folds)
    return Estimate(between.mean, values.sd, values.n, len(folds), between.sd)


def of_values(values: Mapping[tuple[Hashable, int], float]) -> Estimate | None:
    """The estimate from one value for each (fold, seed); None without values."""
    parts: dict[Hashable, list[Estimate]] = {}
    for (fold, _), value in values.items():
        parts.setdefault(fold, []).append(Estimate(value, None, 1))
    return over_folds(parts)


def _pooled(parts: Sequence[Estimate]) -> Estimate:
    """Squared deviations from the common mean m add up to sum_i (n_i - 1) sd_i^2 + n_i (mean_i - m)^2."""
    if len(parts) == 1:
        return parts[0]
    n = sum(part.n for part in parts)
    mean = sum(part.n * part.mean for part in parts) / n
    squares = sum((part.n - 1) * (part.sd or 0.0) ** 2 + part.n * (part.mean - mean) ** 2 for part in parts)
    return Estimate(mean, (squares / (n - 1)) ** 0.5, n)


def p_value(test: str, differences: Sequence[float]) -> float | None:
    """p of one of the `TESTS`; None for fewer than `LEAST_UNITS` values."""
    return None if len(differences) < LEAST_UNITS else (paired_t if test == "t" else sign_flips)(differences)


def paired_t(differences: Sequence[float]) -> float | None:
    """Two-sided p of the paired t test: the mean is 0. None for fewer than two values.

    Equal differences have no spread, so p takes its limit: 1 if they are 0, otherwise 0.
    """
    if len(differences) < 2:
        return None
    from scipy.special import stdtr  # the distribution function of Student's t

    mean, sd = _moments(differences)
    if sd == 0:
        return float(mean == 0)
    return 2 * float(stdtr(len(differences) - 1, -abs(mean) / sd * len(differences) ** 0.5))


def sign_flips(differences: Sequence[float]) -> float | None:
    """Two-sided p of the sign-flip permutation test: differences are symmetric around 0. None for fewer than two.

    The share of all 2^n sign assignments whose mean is at least as far from 0 as the observed one; from n = 21 on, of
    100,000 drawn assignments and the observed one. It is at least 2 / 2^n: see `least_p`.
    """
    if len(differences) < 2:
        return None
    import numpy as np

    values = np.asarray(differences, dtype=float)
    threshold = abs(values.sum()) - 1e-12 * np.abs(values).sum()  # the observed signs reach it despite rounding
    if len(values) <= EXACT:
        sums = values[:1]  # one half of the assignments: the other half has the opposite sums
        for value in values[1:]:
            sums = np.concatenate([sums + value, sums - value])
        return float(np.mean(np.abs(sums) >= threshold))
    random = np.random.default_rng(_SEED)
    reached = sum(
        int(np.sum(np.abs(random.choice([-1.0, 1.0], (1000, len(values))) @ values) >= threshold))
        for _ in range(_DRAWS // 1000)
    )
    return (1 + reached) / (1 + _DRAWS)


def least_p(test: str, units: int) -> float:
    """The smallest p that a test of this number of units can have."""
    return 2.0 ** (1 - min(units, EXACT)) if test == "permutation" else 0.0


def holm(p: Sequence[float]) -> list[float]:
    """Adjusted p of a family (Holm, 1979): below alpha exactly where the step-down procedure rejects.

    The probability of any false rejection is at most alpha. The k-th smallest of m is multiplied by m - k + 1; an
    adjusted p is not below one of a smaller p, and not above 1.
    """
    adjusted, highest = [0.0] * len(p), 0.0
    for rank, place in enumerate(sorted(range(len(p)), key=p.__getitem__)):
        highest = max(highest, min(1.0, (len(p) - rank) * p[place]))
        adjusted[place] = highest
    return adjusted


def effect_size(differences: Sequence[float]) -> float | None:
    """Hedges' g_z: the mean difference in standard deviations of the differences (Cohen's d_z), corrected for bias.

    The expected d_z exceeds the true effect by a factor whose inverse, with m = n - 1 degrees of freedom, is
    gamma(m / 2) / (sqrt(m / 2) gamma((m - 1) / 2)), about 1 - 3 / (4 m - 1) (Hedges, 1981). None for fewer than three
    values, and for equal ones.
    """
    degrees = len(differences) - 1
    if degrees < 2:
        return None
    mean, sd = _moments(differences)
    if sd == 0:
        return None
    logarithm = math.lgamma(degrees / 2) - math.lgamma((degrees - 1) / 2) - math.log(degrees / 2) / 2
    return math.exp(logarithm) * mean / sd


def _moments(values: Sequence[float]) -> tuple[float, float]:
    """Mean and standard deviation (divisor n - 1), which is 0 where values differ only by rounding."""
    mean = math.fsum(values) / len(values)
    sd = (math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)) ** 0.5
    return mean, 0.0 if sd <= 1e-12 * max(map(abs, values)) else sd
