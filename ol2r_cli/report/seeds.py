"""The values of single seeds of a run."""

from __future__ import annotations

from typing import Any

from ol2r_cli.report.collect import Run
from ol2r_cli.report.statistics import Estimate
from ol2r_cli.results.directory import RunDirectory


def by_seed(run: Run) -> dict[int, dict[str, float | None]]:
    """The metrics of each seed: from the summary, or from the tables where the summary does not have them."""
    if run.by_seed:
        rows = [dict(zip(run.by_seed, row, strict=True)) for row in zip(*run.by_seed.values(), strict=True)]
    elif len(run.seeds) == 1:
        rows = [{"seed": run.seeds[0]} | {name: estimate.mean for name, estimate in run.metrics.items()}]
    else:
        rows = _from_tables(run)
    found = {int(row.pop("seed")): row for row in rows}
    if missing := sorted(set(run.seeds) - found.keys()):
        raise ValueError(f"the tables of {run.path} must have its seeds {missing}: force=true runs it again")
    return found


def _from_tables(run: Run) -> list[dict[str, Any]]:
    from polars.exceptions import PolarsError

    from ol2r_cli.results import summary

    try:
        return summary.by_seed(RunDirectory(run.path)).to_dicts()
    except (OSError, PolarsError) as error:
        raise ValueError(f"the tables of {run.path} cannot be read ({error}): force=true runs it again") from error


def one_by_one(run: Run, seeds: set[int]) -> list[dict[str, Estimate]]:
    """What the summary would say of each of these seeds alone."""
    rows = by_seed(run)
    return [
        {
            name: Estimate(value, None, 1)
            for name, value in rows[seed].items()
            if value is not None and name in run.metrics
        }
        for seed in sorted(seeds)
    ]
