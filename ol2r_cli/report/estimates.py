"""Means with 95 % intervals, paired tests, Holm's correction and effect sizes.

Seeds within a fold share its training and test queries, so n values from F folds carry less information than n
independent values. With the model y(f, s) = mean + fold(f) + seed(f, s), both random, the means of the folds are
independent and have the common mean; where folds have equally many seeds, their spread has exactly the variance that
the mean needs, whatever the two parts are. So folds are the units as soon as there are several, otherwise seeds.

The distribution functions come from `scipy.special`: importing `scipy.stats` takes a second, and its `permutation_test`
draws other signs. docs/explanation/comparison.md has the formulas.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from ol2r_cli.lazy import lazy
from ol2r_cli.metrics.intervals import half_width

if TYPE_CHECKING:
    import numpy as np
    from scipy import special
else:
    np, special = lazy("numpy"), lazy("scipy.special")

ALPHA = 0.05
EXACT = 20  # units: up to this number all 2^units signs are enumerated
BANDS = ("ci", "sd", "se", "none")
UNITS = ("seeds", "folds")
_DRAWS = 100_000  # of signs beyond `EXACT`
_SEED = 20_260_000  # the same values always give the same p

Values = Mapping[tuple[Any, int], float]  # by (fold, seed), or another key of which the first part is the cluster


@dataclass(frozen=True)
class Estimate:
    """The mean of n values, and what its interval needs.

    mean: of the values; over several folds the mean of the folds' means. sd: of all n values (divisor n - 1), None for
    one value. clusters: how many folds, or other clusters, have values. between: standard deviation of a value for
    each, None for one cluster.
    """

    mean: float
    sd: float | None
    n: int
    clusters: int = 1
    between: float | None = None

    @property
    def units(self) -> int:
        """The number of independent values: clusters where there are several, otherwise values."""
        return self.clusters if self.clusters > 1 else self.n

    @property
    def half_width(self) -> float | None:
        """Half the 95 % interval over the units; None for one unit."""
        return self.band("ci")

    def band(self, bands: str | None = None, units: str | None = None) -> float | None:
        """Return `half_width` over these units; None: clusters where there are several."""
        by_seed = units == "seeds" or (units is None and self.clusters == 1)
        return half_width(*((self.sd, self.n) if by_seed else (self.between, self.clusters)), bands)


def fold_means(values: Values) -> list[float]:
    """Return the mean of each fold's values."""
    return [fmean(of_fold) for of_fold in clusters(values).values()]


def clusters(values: Values) -> dict[Any, list[float]]:
    """Return the values of each cluster."""
    found: dict[Any, list[float]] = {}
    for (cluster, _), value in values.items():
        found.setdefault(cluster, []).append(value)
    return found


def of_values(values: Values, independent: Callable[[Values], list[float]] = fold_means) -> Estimate | None:
    """Return the estimate from values; None without any. By default every fold has the same weight.

    independent: returns a value for each cluster, whose mean is the estimate, and whose spread is that of independent
    values.
    """
    if not values:
        return None
    of_clusters = independent(values)
    mean, between = _moments(of_clusters)
    return Estimate(mean, _moments([*values.values()])[1], len(values), len(of_clusters), between)


def unit_values(values: Values, independent: Callable[[Values], list[float]] = fold_means) -> list[float]:
    """Return the independent values: one for each cluster where there are several, otherwise all."""
    of_clusters = independent(values)
    return of_clusters if len(of_clusters) > 1 else [*values.values()]


def _moments(values: Sequence[float]) -> tuple[float, float | None]:
    """Mean and standard deviation (divisor n - 1; None for one value)."""
    return fmean(values), stdev(values) if len(values) > 1 else None


def _spread(values: Sequence[float]) -> tuple[float, float]:
    """Mean and standard deviation, which is 0 where values differ only by rounding: of tests, not of intervals."""
    mean, sd = _moments(values)
    return mean, 0.0 if sd is None or sd <= 1e-12 * max(map(abs, values)) else sd


def paired_t(differences: Sequence[float]) -> float:
    """Return the two-sided p of the paired t test: the mean is 0, for two values or more.

    Equal differences have no spread, so p takes its limit: 1 if they are 0, otherwise 0.
    """
    mean, sd = _spread(differences)
    return two_sided(mean, sd / len(differences) ** 0.5, len(differences) - 1)


def two_sided(mean: float, error: float, degrees: int) -> float:
    """Return the two-sided p of a mean with this standard error; where that is 0 the limit: 1 if the mean is 0,
    otherwise 0."""
    return 2 * float(special.stdtr(degrees, -abs(mean) / error)) if error else float(mean == 0)


def sign_flips(differences: Sequence[float]) -> float:
    """Return the two-sided p of the sign-flip permutation test: differences are symmetric around 0.

    The share of all 2^n sign assignments whose mean is at least as far from 0 as the observed one; from n = 21 on, of
    100,000 drawn assignments and the observed one. It is at least 2 / 2^n: see `least_p`.
    """
    values = np.asarray(differences, dtype=float)
    threshold = abs(values.sum()) - 1e-12 * np.abs(values).sum()  # the observed signs reach it despite rounding
    if len(values) <= EXACT:
        sums = values[:1]  # one half of the assignments: the other half has the opposite sums
        for value in values[1:]:
            sums = np.concatenate([sums + value, sums - value])
        return float(np.mean(np.abs(sums) >= threshold))
    random = np.random.default_rng(_SEED)
    draws = (random.choice([-1.0, 1.0], (1000, len(values))) @ values for _ in range(_DRAWS // 1000))
    reached = sum(int(np.sum(np.abs(sums) >= threshold)) for sums in draws)
    return (1 + reached) / (1 + _DRAWS)


TESTS = {"t": paired_t, "permutation": sign_flips}


def least_p(test: str, units: int) -> float:
    """Return the smallest p that a test of this number of units can have."""
    return 2.0 ** (1 - min(units, EXACT)) if test == "permutation" else 0.0


def holm(p: Sequence[float]) -> list[float]:
    """Return the adjusted p of a family (Holm, 1979): below alpha exactly where the step-down procedure rejects.

    The probability of any false rejection is at most alpha. The k-th smallest of m is multiplied by m - k + 1; an
    adjusted p is not below one of a smaller p, and not above 1.
    """
    adjusted, highest = [0.0] * len(p), 0.0
    for rank, place in enumerate(sorted(range(len(p)), key=p.__getitem__)):
        highest = max(highest, min(1.0, (len(p) - rank) * p[place]))
        adjusted[place] = highest
    return adjusted


def effect_size(differences: Sequence[float]) -> float | None:
    """Return Hedges' g_z: the mean difference in standard deviations of the differences (Cohen's d_z), corrected for
    bias.

    The expected d_z exceeds the true effect by a factor whose inverse, with m = n - 1 degrees of freedom, is
    gamma(m / 2) / (sqrt(m / 2) gamma((m - 1) / 2)), about 1 - 3 / (4 m - 1) (Hedges, 1981). None for fewer than three
    values, and for equal ones.
    """
    degrees = len(differences) - 1
    mean, sd = _spread(differences)
    if degrees < 2 or sd == 0:
        return None
    logarithm = math.lgamma(degrees / 2) - math.lgamma((degrees - 1) / 2) - math.log(degrees / 2) / 2
    return math.exp(logarithm) * mean / sd
