"""One table of a run on disk: its columns, and its rows, which are appended in bounded memory.

A run of a million rounds has millions of rows. A flush therefore rewrites only the file of the table, and a file of
`PART_ROWS` rows becomes a part, which is not written to any more. When the run finishes, its parts become one file.
polars is imported inside functions, because importing it takes as long as a short command.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ol2r_cli.atomic_file import temporary_beside
from ol2r_cli.columns import TRACE_COLUMNS, Column
from ol2r_cli.run.directory import DirectoryLost, RunDirectory
from ol2r_cli.run.integrity import DamagedTable, read_table, row_count, scan, scan_table, write_table

if TYPE_CHECKING:
    import polars as pl

PART_ROWS = 2**18


@dataclass(frozen=True, eq=False)
class Table:
    """A parquet file with one row per `key`, sorted by it. `columns` maps names of columns to names of polars types."""

    file: str
    key: tuple[str, ...]
    columns: Mapping[str, str]

    @property
    def measures(self) -> tuple[str, ...]:
        """The columns that are not part of the key."""
        return tuple(name for name in self.columns if name not in self.key)

    def with_columns(self, measured: Mapping[str, Column]) -> Table:
        """The table of a run whose measures have these columns, which are added where it does not have them."""
        return replace(self, columns={**self.columns, **{name: each.type for name, each in measured.items()}})

    def check(self, names: Mapping[str, Any]) -> None:
        """ValueError unless every name is a measure of this table."""
        for name in names:
            if name not in self.measures:
                raise ValueError(f"a measure in {self.file} must be one of {', '.join(self.measures)}, got {name}")

    def frame(self, values: Mapping[str, NDArray[Any]]) -> pl.DataFrame:
        """Arrays [rows] as a frame with the columns of this table.

        Absent columns, NaN and negative counts in the columns of every run become null, since such a count is never
        below zero. A number that is too large for its type raises an error of polars.
        """
        import polars as pl

        rows = len(values[self.key[0]])
        series = []
        for name, kind in self.columns.items():
            dtype = getattr(pl, kind)
            column = values.get(name)
            if column is None:
                series.append(pl.Series(name, [None] * rows, dtype=dtype))
                continue
            if name in TRACE_COLUMNS and kind.startswith("Int") and column.dtype.kind == "f":
                column = np.where(column < 0, np.nan, column)
            series.append(pl.Series(name, column, nan_to_null=column.dtype.kind == "f").cast(dtype))
        return pl.DataFrame(series)

    def files(self, directory: RunDirectory) -> list[Path]:
        """The files with its rows that exist, earlier rounds first: its parts, and the file that is written to.

        Without the parts that a process has left that was killed while it removed them after `merge`.
        """
        import polars as pl

        parts, file = directory.parts(self.file), directory / self.file
        if not file.is_file():
            return parts
        if parts:
            first, last = (_bound(path, pl.col("round").min()) for path in (parts[0], file))
            if first is not None and last is not None and last <= first:
                return [file]
        return [*parts, file]

    def read(self, directory: RunDirectory, run: str = "") -> pl.DataFrame:
        """The rows, sorted by the key; an empty frame if there is no file.

        A column of this table that the files lack is null, and one that only the files have stays. DamagedTable for a
        file that was changed, or is of another run than `run`, if it is given.
        """
        import polars as pl

        files = self.files(directory)
        frames = [frame for file in files if (frame := self._read(file, run)) is not None]
        if not frames:
            return pl.DataFrame(schema=self.schema)
        return frames[0] if len(frames) == 1 else pl.concat(frames, how="diagonal_relaxed").sort(self.key)

    def pieces(self, directory: RunDirectory, run: str = "") -> Iterator[pl.DataFrame]:
        """The rows, sorted by the key, as frames of about `PART_ROWS` rows; all rows of a seed are in one of them.

        The files must not be replaced meanwhile. DamagedTable as `read`.
        """
        import polars as pl

        files = self.files(directory)
        scans = [self._complete(scan_table(file, run)) for file in files]
        found = [scan.select(pl.col("seed").unique()).collect()["seed"] for scan in scans]
        seeds = pl.concat([pl.Series("seed", [], pl.Int64), *found]).unique().sort()
        at_once = max(1, PART_ROWS * len(seeds) // max(1, sum(map(row_count, files))))
        for first in range(0, len(seeds), at_once):
            some = pl.col("seed").is_in(seeds[first : first + at_once].implode())
            # One file after the other: polars would read all of them at once.
            rows = pl.concat([scan.filter(some).collect() for scan in scans], how="diagonal_relaxed")
            yield rows if at_once == 1 else rows.sort(self.key)

    def last_round(self, directory: RunDirectory) -> int:
        """The highest number of a round; 0 without rows."""
        import polars as pl

        return max((_bound(file, pl.col("round").max()) or 0 for file in self.files(directory)), default=0)

    def _read(self, file: Path, run: str = "") -> pl.DataFrame | None:
        try:
            return self._complete(read_table(file, run=run).lazy()).collect()
        except FileNotFoundError:
            return None

    def _complete(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """Rows with all columns of this table; those that they lack are null. DamagedTable for another type."""
        import polars as pl

        schema, present = self.schema, rows.collect_schema()
        for name, kind in present.items():
            wanted = schema.get(name, pl.Float64 if kind != pl.Boolean else kind)
            like = kind.is_integer() if wanted.is_integer() else wanted.is_float() and kind.is_numeric()
            if kind != wanted and not like:
                raise DamagedTable(f"{self.file} must have {wanted} as {name}, got {kind}")
        missing = [pl.lit(None, kind).alias(name) for name, kind in schema.items() if name not in present]
        return rows.with_columns(missing).select(*schema, pl.exclude(*schema)) if missing else rows

    @property
    def schema(self) -> dict[str, Any]:
        """The columns with their types of polars."""
        import polars as pl

        return {name: getattr(pl, kind) for name, kind in self.columns.items()}

    def write(self, directory: RunDirectory, rows: pl.DataFrame | pl.LazyFrame, file: str = "") -> None:
        """Replace the file, or the part `file`, with the seal of the run that the directory is of."""
        with directory.replacing(file or self.file) as stream:
            write_table(stream, rows, directory.id)

    def append(self, directory: RunDirectory, rows: pl.DataFrame, present_rows: int | None) -> int:
        """Add rows, and return how many there are then; a new row replaces one with the same key that is in no part.

        DirectoryLost if there are not `present_rows` rows before; None for any number.
        """
        import polars as pl

        in_parts = sum(row_count(part) for part in directory.parts(self.file))
        present = self._read(directory / self.file)
        before = in_parts + (0 if present is None else len(present))
        if present_rows not in (before, None):
            what = f"{self.file} has {before:,} rows, and {present_rows:,} were written"
            raise DirectoryLost(f"{what}: it was removed or replaced while the run was writing to it, run it again")
        table = rows if present is None else pl.concat([present, rows], how="diagonal_relaxed")
        last, first = None if present is None else present["round"].max(), rows["round"].min()
        if last is not None and first is not None and first <= last:  # type: ignore[operator]
            table = table.unique(self.key, keep="last")
        self.write(directory, table.sort(self.key))
        if len(table) >= PART_ROWS:
            directory.close_part(self.file)
        return in_parts + len(table)

    def truncate(self, directory: RunDirectory, round: int, without: Iterable[int] = ()) -> int:
        """Remove the rows after `round`, and those of the rounds `without`; how many are left.

        DamagedTable for a file that was changed, or is of another run.
        """
        import polars as pl

        files, left = self.files(directory), 0
        for part in set(directory.parts(self.file)) - set(files):
            part.unlink()
        for file in files:
            rows = scan_table(file, directory.id)
            kept = rows.filter((pl.col("round") <= round) & ~pl.col("round").is_in(list(without)))
            count = kept.select(pl.len()).collect().item()
            if not count and file.name != self.file:
                file.unlink()
            elif count < row_count(file):
                self.write(directory, kept, file.name)
            left += count
        return left

    def merge(self, directory: RunDirectory) -> None:
        """Make one file of the parts, sorted by the key. Needs memory for the rows of one seed, or for one part."""
        import polars as pl

        if not directory.parts(self.file):
            return
        if (directory / self.file).exists():
            directory.close_part(self.file)
        parts = directory.parts(self.file)
        pieces = []
        for rows in self.pieces(directory, directory.id):
            with temporary_beside(directory / self.file) as piece:
                write_table(piece, rows, directory.id)
            pieces.append(Path(piece.name))
        self.write(directory, pl.concat([scan(piece) for piece in pieces]))
        for file in (*pieces, *parts):
            file.unlink()


def _bound(file: Path, bound: pl.Expr) -> int | None:
    value = scan(file).select(bound).collect().item()
    return None if value is None else int(value)
