"""What came out of two runs: their metrics, paired by seed, because the same seed meets the same queries and users."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ol2r_cli.report.statistics import Estimate
from ol2r_cli.results.directory import RunDirectory
from ol2r_cli.results.summary import by_seed


@dataclass(frozen=True)
class Compared:
    """A metric of summary.json in both runs, over the seeds for which both have it.

    `difference` is of the pairs, second less first; None without a common seed. A mean is None where the run has none.
    """

    metric: str
    first: float | None
    second: float | None
    difference: Estimate | None


def compare(first: Path, second: Path) -> list[Compared]:
    """All metrics that either of the runs has. ValueError when their tables cannot be read."""
    left, right = _values(first), _values(second)
    names = dict.fromkeys(name for values in (left, right) for row in values.values() for name in row)
    return [_compare(name, left, right) for name in names]


def _compare(name: str, left: dict[int, dict[str, float]], right: dict[int, dict[str, float]]) -> Compared:
    common = [seed for seed in left if name in left[seed] and name in right.get(seed, {})]
    if common:
        pairs = [(left[seed][name], right[seed][name]) for seed in common]
        a, b = (statistics.fmean(side) for side in zip(*pairs, strict=True))
        return Compared(name, a, b, estimate([b - a for a, b in pairs]))
    first, second = (_mean([row[name] for row in values.values() if name in row]) for values in (left, right))
    return Compared(name, first, second, None)


def _mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None


def estimate(values: Sequence[float]) -> Estimate:
    """Mean, standard deviation (divisor n - 1) and n of one value or more."""
    sd = statistics.stdev(values) if len(values) > 1 else None
    return Estimate(statistics.fmean(values), sd, len(values))


def _values(path: Path) -> dict[int, dict[str, float]]:
    """By seed, the metrics that apply."""
    from polars.exceptions import PolarsError

    try:
        rows: list[dict[str, Any]] = by_seed(RunDirectory(path)).to_dicts()
    except (OSError, PolarsError) as error:
        raise ValueError(f"the tables of {path} cannot be read ({error}): force=true runs it again") from error
    return {row.pop("seed"): {name: value for name, value in row.items() if value is not None} for row in rows}
