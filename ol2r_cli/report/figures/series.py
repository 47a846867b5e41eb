"""The data of curves: a value for each unit and round, read from the tables of a group's runs, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from ol2r_cli.report.estimates import quantile
from ol2r_cli.report.run_groups import Group, tables_of
from ol2r_cli.run.integrity import read_table
from ol2r_cli.run.table_file import Table
from ol2r_cli.run.tables import BLOCKS, EVALUATION, TRACE
from ol2r_cli.tensor.shapes import Float, Int


@dataclass(frozen=True, eq=False)
class Series:
    """One row for each unit, one column for each x; NaN where there is no value.

    A unit is a fold (the mean of its seeds) where there are several, otherwise a seed: as in `estimates`.
    """

    x: Int[np.ndarray, "X"]
    values: Float[np.ndarray, "n X"]

    @property
    def mean(self) -> Float[np.ndarray, "X"]:
        """The mean over the units that have a value."""
        finite = np.isfinite(self.values)
        return np.where(finite, self.values, 0).sum(0) / np.maximum(finite.sum(0), 1)

    @property
    def half_width(self) -> Float[np.ndarray, "X"]:
        """Half the 95 % interval of the mean, by Student's t over the units; NaN where there is one unit."""
        finite = np.isfinite(self.values)
        n = finite.sum(0)
        squares = (np.where(finite, self.values - self.mean, 0) ** 2).sum(0)
        factor = np.array([quantile(int(count) - 1) if count > 1 else np.nan for count in n])
        return factor * np.sqrt(squares / np.maximum(n - 1, 1) / np.maximum(n, 1))


def evaluation_series(group: Group, column: str, split: str) -> Series | None:
    """A column of evaluation.parquet by round; None where no run has it."""
    rows = _rows(group, EVALUATION, [column, "split"], pl.col("split") == split)
    return _series(rows, "round", column)


def block_size_series(group: Group, round: int) -> Series | None:
    """The size of the block by rank in one round; None where the round is not recorded."""
    return _series(_rows(group, BLOCKS, ["rank", "block_size"], pl.col("round") == round), "rank", "block_size")


def block_rounds(group: Group) -> list[int]:
    """The rounds of blocks.parquet."""
    return sorted(_rows(group, BLOCKS, ["block_size"])["round"].unique().to_list())


def window_means(group: Group, column: str, window: int) -> Series | None:
    """A column of trace.parquet as the mean of the last `window` rounds, every `window` rounds; None without it."""
    rows = _rows(group, TRACE, [column])
    end = ((pl.col("round") - 1) // window + 1) * window
    rows = rows.with_columns(end.clip(upper_bound=pl.col("round").max()).alias("end"), pl.col(column).cast(pl.Float64))
    return _series(rows.group_by("fold", "seed", "end").agg(pl.col(column).mean()), "end", column)


def cumulative_series(group: Group, column: str, every: int) -> Series | None:
    """A cumulative column of trace.parquet in round 1, every `every` rounds and the last; None without it."""
    rows = _rows(group, TRACE, [column])
    rows = rows.sort("fold", "seed", "round").with_columns(pl.col(column).forward_fill().over("fold", "seed"))
    shown = (pl.col("round") % every == 0) | (pl.col("round") == pl.col("round").max()) | (pl.col("round") == 1)
    return _series(rows.filter(shown), "round", column)


def last_round(group: Group) -> int:
    """The number of rounds of its runs."""
    return int(group.settings["rounds"])


def _rows(group: Group, table: Table, columns: Sequence[str], where: pl.Expr | None = None) -> pl.DataFrame:
    """Rows of all runs: fold (as text), seed, round and these columns. ValueError when a table cannot be read."""
    types: dict[str, pl.DataType] = {"fold": pl.String(), "seed": pl.Int64(), "round": pl.Int64()}
    frames = [pl.DataFrame(schema=types | {name: pl.Null() for name in columns})]
    for run, seeds in group.new_seeds:
        file = run.path / table.file
        if not file.exists():
            continue
        with tables_of(run.path):
            frame = read_table(file, ["seed", "round", *columns])
        missing = [pl.lit(None).alias(name) for name in columns if name not in frame.columns]
        frame = frame.with_columns(missing)
        frame = frame.filter(pl.col("seed").is_in(list(seeds)), *([] if where is None else [where]))
        frames.append(frame.select(pl.lit(str(run.fold)).alias("fold"), "seed", "round", *columns))
    return pl.concat(frames, how="vertical_relaxed")


def _series(rows: pl.DataFrame, x: str, column: str) -> Series | None:
    rows = rows.select("fold", "seed", x, pl.col(column).cast(pl.Float64)).drop_nulls()
    if rows.is_empty():
        return None
    if rows["fold"].n_unique() > 1:
        rows = rows.group_by("fold", x).agg(pl.col(column).mean()).with_columns(unit=pl.col("fold"))
    else:
        rows = rows.with_columns(unit=pl.col("seed"))
    units, xs = rows["unit"].unique().sort(), rows[x].unique().sort()
    values = np.full((len(units), len(xs)), np.nan)
    values[units.search_sorted(rows["unit"]).to_numpy(), xs.search_sorted(rows[x]).to_numpy()] = rows[column]
    return Series(xs.cast(pl.Int64).to_numpy(), values)
