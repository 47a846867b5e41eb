"""Tests of paired differences, their correction for being many, and the size of the effect.

Student (1908); Fisher (1935) for the signs; Holm (1979); Hedges (1981) for the correction of the effect size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

TESTS = ("t", "permutation")
ALPHA = 0.05
EXACT = 20  # units: up to here all 2^units signs are tried
_DRAWS = 100_000  # of signs beyond that
_SEED = 20_260_000  # the same p for the same values, every time


def paired_t(differences: Sequence[float]) -> float | None:
    """Two-sided p of the mean being 0, by Student's t with n - 1 degrees of freedom; None for fewer than two values.

    Equal differences have no spread to judge by: p is 1 if they are 0, else 0, the limit.
    """
    if len(differences) < 2:
        return None
    from scipy.special import stdtr  # the distribution function; `scipy.stats` takes a second to import

    mean, sd = moments(differences)
    if sd == 0:
        return float(mean == 0)
    return 2 * float(stdtr(len(differences) - 1, -abs(mean) / sd * len(differences) ** 0.5))


def sign_flips(differences: Sequence[float]) -> float | None:
    """Two-sided p of the differences being symmetric around 0; None for fewer than two values.

    The share of all 2^n ways to give the differences signs whose mean is at least as far from 0 as the observed one;
    from n = 21 on of 100,000 drawn ways and the observed one. It cannot be less than 2 / 2^n: see `least_p`.
    """
    if len(differences) < 2:
        return None
    import numpy as np

    values = np.asarray(differences, dtype=float)
    threshold = abs(values.sum()) - 1e-12 * np.abs(values).sum()  # the observed signs reach it, however it is rounded
    if len(values) <= EXACT:
        sums = values[:1]  # of one half of the ways: the other half has the opposite sums
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
    """The smallest p that a test of so many units can have."""
    return 2.0 ** (1 - min(units, EXACT)) if test == "permutation" else 0.0


def holm(p: Sequence[float]) -> list[float]:
    """Adjusted p of a family: below alpha where Holm's procedure rejects; any false rejection has at most alpha.

    The k-th smallest of m is multiplied by m - k + 1; none may be below one that is smaller, or above 1.
    """
    adjusted, highest = [0.0] * len(p), 0.0
    for rank, place in enumerate(sorted(range(len(p)), key=p.__getitem__)):
        highest = max(highest, min(1.0, (len(p) - rank) * p[place]))
        adjusted[place] = highest
    return adjusted


def effect_size(differences: Sequence[float]) -> float | None:
    """Hedges' g_z: the mean difference in standard deviations of the differences (Cohen's d_z), without its small bias.

    d_z is too far from 0 by a factor whose inverse, with n - 1 = m degrees of freedom, is
    gamma(m / 2) / (sqrt(m / 2) gamma((m - 1) / 2)), about 1 - 3 / (4 m - 1). None for fewer than three values, and
    where all are the same.
    """
    degrees = len(differences) - 1
    if degrees < 2:
        return None
    mean, sd = moments(differences)
    if sd == 0:
        return None
    logarithm = math.lgamma(degrees / 2) - math.lgamma((degrees - 1) / 2) - math.log(degrees / 2) / 2
    return math.exp(logarithm) * mean / sd


def moments(values: Sequence[float]) -> tuple[float, float]:
    """Mean and standard deviation (n - 1); 0 where values differ by no more than rounding does."""
    mean = math.fsum(values) / len(values)
    sd = (math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)) ** 0.5
    return mean, 0.0 if sd <= 1e-12 * max(map(abs, values)) else sd
