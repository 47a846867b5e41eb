"""What a figure plots of a group: a value per round of every (fold, seed), and the mean with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ol2r_cli.report.groups import Group
from ol2r_cli.report.statistics import quantile
from ol2r_cli.results.schema import BLOCKS, EVALUATION, TRACE, Table
from ol2r_cli.shapes import Float, Int

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, eq=False)
class Series:
    """One row for each unit, one column for each place x; NaN where there is no value.

    A unit is a fold (the mean of its seeds) where there are several, else a seed: as in `statistics`.
    """

    x: Int[np.ndarray, "X"]
    values: Float[np.ndarray, "n X"]

    @property
    def mean(self) -> Float[np.ndarray, "X"]:
        """Over the units that have a value."""
        there = np.isfinite(self.values)
        return np.where(there, self.values, 0).sum(0) / np.maximum(there.sum(0), 1)

    @property
    def half_width(self) -> Float[np.ndarray, "X"]:
        """Half the 95 % interval of the mean, by Student's t over the units; NaN where there is one."""
        there = np.isfinite(self.values)
        n = there.sum(0)
        squares = (np.where(there, self.values - self.mean, 0) ** 2).sum(0)
        factor = np.array([quantile(int(count) - 1) if count > 1 else np.nan for count in n])
        return factor * np.sqrt(squares / np.maximum(n - 1, 1) / np.maximum(n, 1))


def evaluated(group: Group, column: str, split: str) -> Series | None:
    """A column of evaluation.parquet by round; None where no run has it."""
    import polars as pl

    rows = _rows(group, EVALUATION, [column, "split"], pl.col("split") == split)
    return _series(rows, "round", column)


def block_sizes(group: Group, round: int) -> Series | None:
    """The size of the block by rank in one round; None where it was not kept."""
    import polars as pl

    return _series(_rows(group, BLOCKS, ["rank", "block_size"], pl.col("round") == round), "rank", "block_size")


def kept_rounds(group: Group) -> list[int]:
    """The rounds of blocks.parquet."""
    return sorted(_rows(group, BLOCKS, ["block_size"])["round"].unique().to_list())


def recent(group: Group, column: str, window: int) -> Series | None:
    """A column of trace.parquet as the mean of the last `window` rounds, every `window` rounds; None without it."""
    import polars as pl

    rows = _rows(group, TRACE, [column])
    end = ((pl.col("round") - 1) // window + 1) * window
    rows = rows.with_columns(end.clip(upper_bound=pl.col("round").max()).alias("end"), pl.col(column).cast(pl.Float64))
    return _series(rows.group_by("fold", "seed", "end").agg(pl.col(column).mean()), "end", column)


def so_far(group: Group, column: str, every: int) -> Series | None:
    """A column of trace.parquet that adds up, in round 1, every `every` rounds and the last; None without it."""
    import polars as pl

    rows = _rows(group, TRACE, [column])
    rows = rows.sort("fold", "seed", "round").with_columns(pl.col(column).forward_fill().over("fold", "seed"))
    kept = (pl.col("round") % every == 0) | (pl.col("round") == pl.col("round").max()) | (pl.col("round") == 1)
    return _series(rows.filter(kept), "round", column)


def last_round(group: Group) -> int:
    """How many rounds its runs have."""
    return int(group.settings["rounds"])


def _rows(group: Group, table: Table, columns: Sequence[str], where: pl.Expr | None = None) -> pl.DataFrame:
    """Rows of all runs: fold (as text), seed, round and these columns. ValueError when a table cannot be read."""
    import polars as pl
    from polars.exceptions import PolarsError

    kinds = {name: getattr(pl, table.columns[name]) for name in columns}
    frames = [pl.DataFrame(schema={"fold": pl.String, "seed": pl.Int64, "round": pl.Int64} | kinds)]
    for run, seeds in group.owners:
        file = run.path / table.file
        if not file.exists():
            continue
        try:
            frame = pl.read_parquet(file, columns=["seed", "round", *columns])
        except (OSError, PolarsError) as error:
            raise ValueError(f"the tables of {run.path} cannot be read ({error}): force=true runs it again") from error
        frame = frame.filter(pl.col("seed").is_in(list(seeds)), *([] if where is None else [where]))
        frames.append(frame.select(pl.lit(str(run.fold)).alias("fold"), "seed", "round", *columns))
    return pl.concat(frames)


def _series(rows: pl.DataFrame, x: str, column: str) -> Series | None:
    import polars as pl

    rows = rows.select("fold", "seed", x, pl.col(column).cast(pl.Float64)).drop_nulls()
    if rows.is_empty():
        return None
    if rows["fold"].n_unique() > 1:
        rows = rows.group_by("fold", x).agg(pl.col(column).mean()).with_columns(unit=pl.col("fold"))
    else:
        rows = rows.with_columns(unit=pl.col("seed"))
    units, places = rows["unit"].unique().sort(), rows[x].unique().sort()
    values = np.full((len(units), len(places)), np.nan)
    values[units.search_sorted(rows["unit"]).to_numpy(), places.search_sorted(rows[x]).to_numpy()] = rows[column]
    return Series(places.cast(pl.Int64).to_numpy(), values)
