"""`Trace` records what happens in the rounds of a run, and writes it to the tables in its directory.

A run of a million rounds has millions of rows. While it is unfinished, a table therefore consists of parts. A flush
never changes a file that a checkpoint may record: it writes a new part, with the rows of the last one if that is small,
which the next checkpoint replaces. When the run finishes, the parts of a table become one file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from ol2r_cli.atomic_file import temporary_beside
from ol2r_cli.columns import RunColumns
from ol2r_cli.run.run import Run
from ol2r_cli.run.store import RunDirectory
from ol2r_cli.run.tables import BLOCKS, EVALUATION, INTERACTIONS, TRACE, Table, parts, scan
from ol2r_cli.tensor.shapes import Int

if TYPE_CHECKING:
    import polars as pl

    from ol2r_cli.interfaces import Interaction


PART_ROWS = 2**18
FLUSH_ROWS = 2**17  # of the trace; a buffer of so many is written to disk
Columns = dict[str, np.ndarray]


class Trace:
    """Records what happens in the replicas with these seeds, and writes it to the tables of the run directory.

    A measure is a tensor [B], one value per replica, or [R, B] for R rounds. A measure that does not apply is left out,
    or is NaN (a count: negative) for the replicas to which it does not apply; it becomes null. `columns` are those of
    the run.
    """

    def __init__(self, directory: RunDirectory, seeds: Sequence[int], columns: RunColumns = RunColumns()):  # noqa: B008
        if len(set(seeds)) != len(seeds):
            raise ValueError(f"seeds must differ from each other, got {list(seeds)}")
        self.directory = directory
        self.seeds = np.asarray(seeds, dtype=np.int64)
        self.trace = TRACE.with_columns(columns.trace)
        self.evaluation = EVALUATION.with_columns(columns.evaluation)
        self._waiting: dict[Table, list[Columns]] = {self.trace: [], self.evaluation: [], BLOCKS: [], INTERACTIONS: []}
        self._rounds: list[tuple[int, tuple[str, ...], Tensor]] = []  # first round, names, and measures [M, R, B]

    def record(self, round: int, measures: Mapping[str, Tensor]) -> None:
        """Record one row of trace.parquet per replica for `round`, or for the R rounds from `round` on.

        The values stay on their device, in float64, in which whole numbers up to 2^53 are exact.
        """
        self.trace.check(measures)
        replicas, shapes = len(self.seeds), {tuple(values.shape) for values in measures.values()}
        rounds = max((shape[0] for shape in shapes if len(shape) == 2), default=1)
        if not shapes <= {(replicas,), (rounds, replicas)}:
            raise ValueError(f"measures must be [{replicas}] or [rounds, {replicas}], got {sorted(shapes)}")
        values = torch.stack([each.detach().double().expand(rounds, replicas) for each in measures.values()])
        self._rounds.append((round, tuple(measures), values))
        if sum(values.shape[1] for *_, values in self._rounds) * replicas >= FLUSH_ROWS:
            self.flush()

    def record_evaluation(self, rounds: int | Sequence[int], split: str, measures: Mapping[str, Tensor]) -> None:
        """Record one row of evaluation.parquet per replica for one round [B] or for R rounds [R, B]; 0 is untrained."""
        self.evaluation.check(measures)
        if split not in ("validation", "test"):
            raise ValueError(f"split must be validation or test, got {split}")
        numbers = np.atleast_1d(np.asarray(rounds, dtype=np.int64))
        shape = len(numbers), len(self.seeds)
        columns = {name: _doubles(values).reshape(shape).ravel() for name, values in measures.items()}
        columns |= {"seed": np.tile(self.seeds, len(numbers)), "round": np.repeat(numbers, len(self.seeds))}
        self._waiting[self.evaluation].append(columns | {"split": np.full(len(columns["seed"]), split)})

    def record_blocks(self, round: int, sizes: Int[Tensor, "B D"]) -> None:
        """Record one row of blocks.parquet per replica and rank. `sizes` are block sizes, 0 on padding (no row)."""
        block_size = _doubles(sizes)
        replica, place = np.nonzero(block_size > 0)
        self._waiting[BLOCKS].append(
            {
                "seed": self.seeds[replica],
                "round": np.full(len(replica), round),
                "rank": place + 1,
                "block_size": block_size[replica, place],
            }
        )

    def record_interaction(self, round: int, interaction: Interaction) -> None:
        """Record one row of interactions.parquet per replica and shown document."""
        replica, place = np.nonzero(interaction.shown.cpu().numpy())
        document = interaction.candidates.document.gather(1, interaction.ranking).cpu().numpy()
        self._waiting[INTERACTIONS].append(
            {
                "seed": self.seeds[replica],
                "round": np.full(len(replica), round),
                "rank": place + 1,
                "query": interaction.candidates.query.cpu().numpy()[replica],
                "document": document[replica, place],
                "click": interaction.clicks.cpu().numpy()[replica, place],
            }
        )

    def flush(self) -> None:
        """Write everything recorded to disk, in parts. Call it before writing a checkpoint."""
        for table in self._waiting:
            if (rows := self._recorded(table)) is not None:
                self._write_part(table, rows)

    def finish(self) -> None:
        """Write everything recorded to disk, each table as one file. Its parts stay until the run is finished.

        Needs memory for the rows of one seed, or for one part.
        """
        for table in self._waiting:
            rows, names = self._recorded(table), parts(self.directory.files, table)
            if names == [table.file] or (rows is None and not names):
                continue
            count = (0 if rows is None else len(rows)) + sum(self._run.row_count(name) for name in names)
            if count < PART_ROWS:
                present = [self._run.table(table)] if names else []
                self._write(table.file, table, present if rows is None else [*present, rows])
            else:
                if rows is not None:
                    self._write_part(table, rows)
                self._merge(table)
            for name in parts(self.directory.files, table):
                if name != table.file:
                    del self.directory.files[name]

    def _write_part(self, table: Table, rows: pl.DataFrame) -> None:
        last = next(reversed(parts(self.directory.files, table)), None)
        if last is None or self._run.row_count(last) >= PART_ROWS:
            self._write(self.directory.next_part(table.file), table, [rows])
        else:
            present = self._run.frame(last, table)
            self._write(self.directory.next_part(table.file), table, [present, rows])
            del self.directory.files[last]

    def _write(self, name: str, table: Table, frames: Sequence[pl.DataFrame]) -> None:
        import polars as pl

        self.directory.write_parquet(name, pl.concat(frames, how="diagonal_relaxed").sort(table.key))

    def _merge(self, table: Table) -> None:
        import polars as pl

        pieces = []
        for rows in self._run.pieces(table):
            with temporary_beside(self.directory / table.file) as temporary:
                rows.write_parquet(temporary)
            pieces.append(Path(temporary.name))
        self.directory.write_parquet(table.file, pl.concat([scan(piece) for piece in pieces]))
        for piece in pieces:
            piece.unlink()

    @property
    def _run(self) -> Run:
        """The run as this process has written it."""
        return Run(self.directory.path, {}, files=self.directory.files)

    def _recorded(self, table: Table) -> pl.DataFrame | None:
        """The rows of a table that are not on disk; they are not kept any more."""
        import polars as pl

        waiting = self._waiting[table]
        if table is self.trace:
            for first, names, measures in self._rounds:
                rounds = np.arange(first, first + measures.shape[1])
                columns = {"seed": np.tile(self.seeds, len(rounds)), "round": np.repeat(rounds, len(self.seeds))}
                waiting.append({**columns, **dict(zip(names, _doubles(measures.flatten(1)), strict=True))})
            self._rounds.clear()
        by_names: dict[tuple[str, ...], list[Columns]] = {}  # arrays are joined first, because there may be many
        for columns in waiting:
            by_names.setdefault(tuple(columns), []).append(columns)
        waiting.clear()
        frames = [
            table.frame({name: np.concatenate([part[name] for part in group]) for name in names})
            for names, group in by_names.items()
        ]
        return pl.concat(frames) if frames else None


def _doubles(values: Tensor) -> np.ndarray:
    return values.detach().double().cpu().numpy()
