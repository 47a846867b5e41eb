"""`Trace` records what happens in the rounds of a run, and writes it to the tables in its directory.

While a run is unfinished, a table consists of parts. A flush never changes a file that a checkpoint may record: it
writes a new part, with the rows of the last one if that is small, which the next checkpoint replaces. When the run
finishes, the parts of a table become one file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
import torch
from torch import Tensor

from ol2r_cli.columns import TRACE_COLUMNS, RunColumns
from ol2r_cli.run.run import EVALUATION, TRACE, Run, Table, parts
from ol2r_cli.run.store import RunDirectory

PART_BYTES = 2**22  # a part of at least so many is not written again before the end
FLUSH_ROWS = 2**19  # of the trace; a buffer of so many is written to disk
Columns = dict[str, np.ndarray]


class Trace:
    """Records what happens in the replicas with these seeds, and writes it to the tables of the run directory.

    A measure is a tensor [B], one value per replica, or [R, B] for R rounds. A measure that does not apply is left out,
    or is NaN (a count: negative) for the replicas to which it does not apply; it becomes null. `columns` are those of
    the run, `tables` others to which rows are added (`record_places`).
    """

    def __init__(
        self,
        directory: RunDirectory,
        seeds: Sequence[int],
        columns: RunColumns = RunColumns(),  # noqa: B008
        tables: Sequence[Table] = (),
    ):
        self.directory = directory
        self.seeds = np.asarray(seeds, dtype=np.int64)
        self.trace = TRACE.with_columns(columns.trace)
        self.evaluation = EVALUATION.with_columns(columns.evaluation)
        self._waiting: dict[Table, list[Columns]] = {table: [] for table in (self.trace, self.evaluation, *tables)}

    def record(self, round: int, measures: Mapping[str, Tensor]) -> None:
        """Record one row of trace.parquet per replica for `round`, or for the R rounds from `round` on.

        Values are kept in float64, in which whole numbers up to 2^53 are exact.
        """
        values = torch.stack([column.detach().double().reshape(-1, len(self.seeds)) for column in measures.values()])
        rounds = np.arange(round, round + values.shape[1])
        columns = dict(zip(measures, _doubles(values.flatten(1)), strict=True))
        waiting = self._waiting[self.trace]
        waiting.append(self._keys(rounds) | columns)
        if sum(len(recorded["seed"]) for recorded in waiting) >= FLUSH_ROWS:
            self.flush()

    def record_evaluation(self, rounds: Sequence[int], split: str, measures: Mapping[str, Tensor]) -> None:
        """Record one row of evaluation.parquet per replica for each of R rounds [R, B]; round 0 is untrained."""
        columns = {name: _doubles(values).ravel() for name, values in measures.items()}
        columns["split"] = np.full(len(rounds) * len(self.seeds), split)
        self._waiting[self.evaluation].append(self._keys(rounds) | columns)

    def _keys(self, rounds: Sequence[int] | np.ndarray) -> Columns:
        """Return seed and round of the rows of all replicas in these rounds."""
        return {"seed": np.tile(self.seeds, len(rounds)), "round": np.repeat(rounds, len(self.seeds))}

    def record_places(self, table: Table, round: int, is_there: np.ndarray, columns: Columns) -> None:
        """Record one row of another table per replica and place [B, D] of a list that is there, with columns [B, D]."""
        replica, place = np.nonzero(is_there)
        keys = {"seed": self.seeds[replica], "round": np.full(len(replica), round), "rank": place + 1}
        self._waiting[table].append(keys | {name: values[replica, place] for name, values in columns.items()})

    def flush(self) -> None:
        """Write everything recorded to disk, in parts. Call it before writing a checkpoint."""
        files = self.directory.files
        for table in self._waiting:
            if self._waiting[table]:
                last = parts(files, table)[-1:]
                number = 1 + sum(int(name.split(".")[1].removeprefix("part")) for name in last)
                small = [name for name in last if files[name]["bytes"] < PART_BYTES]
                self._join(table, table.file.replace(".", f".part{number:05}."), small)

    def finish(self) -> None:
        """Write everything recorded to disk, each table as one file. Its parts stay until the run is finished."""
        for table in self._waiting:
            names = parts(self.directory.files, table)
            if names not in ([], [table.file]) or self._waiting[table]:
                self._join(table, table.file, names)

    def _join(self, table: Table, name: str, names: Sequence[str]) -> None:
        """Write the rows in files of a table, which must be as this process has written them, and those that are not on
        disk to one file."""
        files = self.directory.files
        written = Run(self.directory.path, {}, files={joined: files[joined] for joined in names})
        frames = [written.table(table)] if names else []
        if self._waiting[table]:
            frames.append(_frame(table, self._waiting[table]))
        self.directory.write_parquet(name, pl.concat(frames, how="diagonal_relaxed").sort(table.key))
        self._waiting[table].clear()
        for joined in names:
            del files[joined]


def _frame(table: Table, recorded: Sequence[Columns]) -> pl.DataFrame:
    """Return arrays [rows] that were recorded one after the other as a frame with the columns of a table.

    Absent columns, NaN and negative counts in the columns of every run become null, since such a count is never below
    zero. Whole numbers that are too large for the type of their column are Int64.
    """
    series = []
    for name, dtype in table.schema.items():
        column = np.concatenate([rows.get(name, np.full(len(rows["seed"]), np.nan)) for rows in recorded])
        is_real = column.dtype.kind == "f"
        if is_real and name in TRACE_COLUMNS and dtype.is_integer():
            column = np.where(column < 0, np.nan, column)
        if dtype.is_integer() and not _fits(column, dtype):
            dtype = pl.Int64
        series.append(pl.Series(name, column, nan_to_null=is_real).cast(dtype))
    return pl.DataFrame(series)


def _fits(column: np.ndarray, dtype: Any) -> bool:
    """Return whether a type of whole numbers has all numbers of a column, of which NaN is none."""
    limits = np.iinfo(str(dtype).lower())
    return not ((column < limits.min) | (column > limits.max)).any()


def _doubles(values: Tensor) -> np.ndarray:
    return values.detach().double().cpu().numpy()
