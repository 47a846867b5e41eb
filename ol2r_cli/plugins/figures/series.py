"""The data of curves: a value for each unit and round, read from the tables of a group's runs, with intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from ol2r_cli.metrics.intervals import half_width
from ol2r_cli.report.finished_run import FinishedRun, read_tables
from ol2r_cli.report.run_groups import Group
from ol2r_cli.run.run import BLOCKS, EVALUATION, TRACE, Table
from ol2r_cli.tensor.shapes import Float, Int


@dataclass(frozen=True, eq=False)
class Series:
    """One row for each unit, one column for each x; NaN where there is no value.

    A unit is a fold (the mean of its seeds) where there are several, otherwise a seed: as in `estimates`. seeds: with
    several folds the same with a row for each (fold, seed), otherwise None.
    """

    x: Int[np.ndarray, "X"]
    values: Float[np.ndarray, "n X"]
    seeds: Float[np.ndarray, "m X"] | None = None

    @property
    def mean(self) -> Float[np.ndarray, "X"]:
        """Return the mean over the units that have a value."""
        return _mean(self.values)

    def band(self, bands: str | None = None, units: str | None = None) -> Float[np.ndarray, "X"]:
        """Return `half_width` over these units, as `Estimate.band`; NaN where there is none."""
        if units == "folds" and self.seeds is None:
            return np.full(len(self.x), np.nan)
        values = self.seeds if units == "seeds" and self.seeds is not None else self.values
        n = np.isfinite(values).sum(0)
        sd = np.sqrt(np.nansum((values - _mean(values)) ** 2, 0) / np.maximum(n - 1, 1))
        halves = [half_width(deviation, count, bands) for deviation, count in zip(sd.tolist(), n.tolist(), strict=True)]
        return np.array(halves, float)

    def size(self) -> Series:
        """Return the absolute values."""
        return Series(self.x, np.abs(self.values), None if self.seeds is None else np.abs(self.seeds))


def _mean(values: Float[np.ndarray, "n X"]) -> Float[np.ndarray, "X"]:
    return np.nansum(values, 0) / np.maximum(np.isfinite(values).sum(0), 1)


def evaluation_series(group: Group, column: str, split: str) -> Series | None:
    """Return a column of evaluation.parquet by round; None where no run has it."""
    rows = read_rows(group, EVALUATION, [column, "split"], lambda rows: rows.filter(split=split))
    if rows is not None:  # runs may have been evaluated in different rounds
        rows = rows.filter(pl.len().over("round") == pl.struct("fold", "seed").n_unique())
    return as_series(rows, "round", column)


def window_means(group: Group, column: str, window: int) -> Series | None:
    """Return a column of trace.parquet as the mean of the last `window` rounds, every `window`; None without it."""

    def means(rows: pl.DataFrame) -> pl.DataFrame:
        end = (((pl.col("round") - 1) // window + 1) * window).clip(upper_bound=pl.col("round").max()).alias("end")
        return rows.lazy().group_by("seed", end).agg(pl.col(column).cast(pl.Float64).mean()).collect(engine="streaming")

    return as_series(read_rows(group, TRACE, [column], means), "end", column)


def cumulative_series(group: Group, column: str, every: int) -> Series | None:
    """Return a cumulative column of trace.parquet in round 1, every `every` rounds and the last; None without it."""

    def shown(rows: pl.DataFrame) -> pl.DataFrame:
        if rows[column].null_count():
            rows = rows.sort("seed", "round").with_columns(pl.col(column).forward_fill().over("seed"))
        number = pl.col("round")
        return rows.filter((number % every == 0) | (number == number.max()) | (number == 1))

    return as_series(read_rows(group, TRACE, [column], shown), "round", column)


def block_sizes(group: Group) -> dict[int, Series]:
    """Return the size of the block by rank, for each round of blocks.parquet."""
    rows = read_rows(group, BLOCKS, ["block_size", "rank"], lambda rows: rows)
    if rows is None:
        return {}
    by_round = rows.partition_by("round", as_dict=True)
    sizes = {number: as_series(of_round, "rank", "block_size") for (number,), of_round in sorted(by_round.items())}
    return {number: series for number, series in sizes.items() if series is not None}


def read_rows(
    group: Group, table: Table, columns: Sequence[str], reduced: Callable[[pl.DataFrame], pl.DataFrame]
) -> pl.DataFrame | None:
    """Return what `reduced` makes of seed, round and these columns of each run, with the fold as text; None without it.

    A run may have millions of rows, so they are reduced run by run. Runs that did not record the first column give way
    to those that did. ValueError when a table cannot be read.
    """
    rows: dict[Path, pl.DataFrame] = {}

    def records(run: FinishedRun) -> bool:
        if not (run.path / table.file).exists():
            return False
        frame = read_tables(run.path, lambda stored: stored.table(table, ["seed", "round", *columns]))
        frame = frame.with_columns(pl.lit(None).alias(name) for name in columns if name not in frame.columns)
        run_rows = reduced(frame).with_columns(fold=pl.lit(str(run.fold)))
        rows[run.path] = run_rows
        return run_rows[columns[0]].null_count() < len(run_rows)

    new_seeds = group.new_seeds(records)
    frames = [rows[run.path].filter(pl.col("seed").is_in(list(seeds))) for run, seeds in new_seeds]
    return pl.concat(frames, how="vertical_relaxed") if frames else None


def as_series(rows: pl.DataFrame | None, x: str, column: str) -> Series | None:
    """Return the values of a column by fold, seed and x; None where there are none."""
    if rows is None:
        return None
    rows = rows.select("fold", "seed", x, pl.col(column).cast(pl.Float64)).drop_nulls()
    if rows.is_empty():
        return None
    xs = rows[x].unique().sort()

    def by_unit(rows: pl.DataFrame, unit: pl.Expr) -> Float[np.ndarray, "n X"]:
        names = rows.select(unit.alias("unit"))["unit"]
        units = names.unique().sort()
        values = np.full((len(units), len(xs)), np.nan)
        values[units.search_sorted(names).to_numpy(), xs.search_sorted(rows[x]).to_numpy()] = rows[column]
        return values

    seeds = by_unit(rows, pl.concat_str("fold", "seed", separator=" "))
    if rows["fold"].n_unique() == 1:
        return Series(xs.cast(pl.Int64).to_numpy(), seeds)
    folds = by_unit(rows.group_by("fold", x).agg(pl.col(column).mean()), pl.col("fold"))
    return Series(xs.cast(pl.Int64).to_numpy(), folds, seeds)
