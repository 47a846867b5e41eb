"""Measures error rates of the tests and intervals of `ol2r report` on simulated values with known means.

    python scripts/comparison_simulation.py [DRAWS]

prints the tables of docs/comparison.md (4,000 draws: a few minutes). A value is, as in the model behind the
intervals, fold(f) + seed(f, s) + ranker(r) + fold(f, r) + noise(f, s, r). The first two are shared by the rankers and
cancel in pairs; fold(f, r) is how much a fold suits a ranker, with the standard deviation `suits`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from ol2r_cli.report.estimates import ALPHA, Estimate, holm, of_values, paired_t, pool, sign_flips

TESTS = {"t": paired_t, "permutation": sign_flips}


def values(
    random: np.random.Generator, rankers: int, folds: int, seeds: int, suits: float = 0.0, shift: float = 0.0
) -> NDArray[np.float64]:
    """[rankers, folds, seeds]: the first ranker is better by `shift` on average, all others are equal."""
    shared = random.normal(size=(1, folds, 1)) + random.normal(size=(1, folds, seeds))
    own = suits * random.normal(size=(rankers, folds, 1)) + random.normal(size=(rankers, folds, seeds))
    own[0] += shift
    return shared + own


def units(differences: NDArray[np.float64]) -> list[float]:
    """The units of [folds, seeds], as in a report: the means of the folds, or the seeds of the only fold."""
    return (differences.mean(1) if len(differences) > 1 else differences[0]).tolist()


def family_wise(
    draws: int, test: str, rankers: int, folds: int, seeds: int, suits: float = 0.0, flat: bool = False
) -> float:
    """The share of draws with any significant difference among equal rankers. flat: values count as independent."""
    random, wrong = np.random.default_rng(0), 0
    for _ in range(draws):
        drawn = values(random, rankers, folds, seeds, suits)
        pairs = [drawn[a] - drawn[b] for a, b in combinations(range(rankers), 2)]
        p = [TESTS[test](pair.ravel().tolist() if flat else units(pair)) for pair in pairs]
        wrong += min(holm([value for value in p if value is not None])) < ALPHA
    return wrong / draws


def coverage(draws: int, folds: int, seeds: int, spread: float, flat: bool = False) -> float:
    """The share of intervals that contain the true mean; spread: standard deviation of the folds, seeds have 1."""
    random, right = np.random.default_rng(1), 0
    for _ in range(draws):
        drawn = spread * random.normal(size=(folds, 1)) + random.normal(size=(folds, seeds))
        by_pair = {(f, s): value for (f, s), value in np.ndenumerate(drawn)}
        estimate = pool(Estimate(v, None, 1) for v in by_pair.values()) if flat else of_values(by_pair)
        right += estimate is not None and abs(estimate.mean) <= (estimate.half_width or 0)
    return right / draws


def power(draws: int, test: str, folds: int, seeds: int, shift: float) -> float:
    """The share of draws in which a ranker that is better by `shift` is significantly different from another."""
    random, significant = np.random.default_rng(2), 0
    for _ in range(draws):
        drawn = values(random, 2, folds, seeds, shift=shift)
        p = TESTS[test](units(drawn[0] - drawn[1]))
        significant += p is not None and p < ALPHA
    return significant / draws


def expected_power(n: int, effect: float) -> float:
    """The power of the paired t test, from the noncentral t distribution; `effect` is d_z."""
    from scipy.stats import nct, t

    critical = t.ppf(1 - ALPHA / 2, n - 1)
    shifted = nct(n - 1, effect * n**0.5)
    return float(shifted.sf(critical) + shifted.cdf(-critical))


def _head(*headings: str) -> None:
    print(f"\n| {' | '.join(headings)} |\n|{'---|' * len(headings)}")


def _row(words: Iterable[object], *numbers: float | None) -> None:
    print(f"| {' | '.join([*map(str, words), *('' if n is None else f'{n:.3f}' for n in numbers)])} |", flush=True)


def main(draws: int) -> None:
    """Print all three tables."""
    print(f"{draws:,} draws")
    _head("test", "rankers", "folds", "seeds", "suits", "family-wise", "as if independent")
    sizes = [("t", 3, 1, 10, 0.0), ("t", 5, 1, 10, 0.0), ("t", 5, 1, 3, 0.0), ("permutation", 5, 1, 10, 0.0)]
    sizes += [("permutation", 5, 1, 15, 0.0), ("t", 5, 5, 5, 0.0), ("t", 5, 5, 5, 1.0), ("permutation", 3, 8, 2, 1.0)]
    for size in sizes:
        flat = family_wise(draws, *size, flat=True) if size[2] > 1 else None
        _row(size, family_wise(draws, *size), flat)
    _head("folds", "seeds", "sd of folds", "coverage", "as if independent")
    for shape in [(1, 3, 0.0), (1, 10, 0.0), (5, 5, 0.0), (5, 5, 0.3), (5, 5, 1.0), (2, 10, 1.0), (10, 3, 1.0)]:
        _row(shape, coverage(draws, *shape), coverage(draws, *shape, flat=True) if shape[0] > 1 else None)
    _head("test", "folds", "seeds", "d_z", "power", "noncentral t")
    for test, folds, seeds, effect in [
        ("t", 1, 5, 1.0),
        ("t", 1, 10, 1.0),
        ("permutation", 1, 10, 1.0),
        ("t", 1, 30, 0.5),
        ("t", 5, 5, 1.0),
    ]:
        measured = power(draws, test, folds, seeds, effect * 2**0.5)  # the noise of two rankers
        units, on_units = (seeds, effect) if folds == 1 else (folds, effect * seeds**0.5)
        _row((test, folds, seeds, effect), measured, expected_power(units, on_units))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 4_000)
