"""The parquet files of a run directory: their columns, and `Trace`, which records rounds and writes them.

The columns are public: tests freeze them, and a change belongs into CHANGELOG.md. Every run has those of `TRACE` and
`EVALUATION`; measures may add more, which `run.json` records. polars is imported inside functions,
because importing it takes as long as a short command.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from ol2r_cli.columns import EVALUATION_COLUMNS, TRACE_COLUMNS, RunColumns
from ol2r_cli.run.directory import RunDirectory
from ol2r_cli.run.table_file import Table
from ol2r_cli.tensor.shapes import Int

if TYPE_CHECKING:
    from ol2r_cli.interfaces import Interaction


TRACE = Table(
    "trace.parquet",
    ("seed", "round"),
    {"seed": "Int64", "round": "Int64"} | {name: column.type for name, column in TRACE_COLUMNS.items()},
)  # rounds are from 1

EVALUATION = Table(
    "evaluation.parquet",
    ("seed", "round", "split"),
    {"seed": "Int64", "round": "Int64", "split": "String"}
    | {name: column.type for name, column in EVALUATION_COLUMNS.items()},
)  # round 0 is the untrained ranker; split is validation or test

BLOCKS = Table(
    "blocks.parquet",
    ("seed", "round", "rank"),
    {
        "seed": "Int64",
        "round": "Int64",
        "rank": "Int32",  # from 1, over all documents of the query
        "block_size": "Int32",  # of the block that contains this rank
    },
)

INTERACTIONS = Table(
    "interactions.parquet",
    ("seed", "round", "rank"),
    {
        "seed": "Int64",
        "round": "Int64",
        "rank": "Int32",  # from 1, in the shown list
        "query": "Int64",  # number within the training split
        "document": "Int64",  # row of the dataset's document table
        "click": "Boolean",
    },
)


FLUSH_ROWS = 2**17  # of the trace; a buffer of so many is written to disk
Columns = dict[str, np.ndarray]


class Trace:
    """Records what happens in the replicas with these seeds, and writes it to the tables of the run directory.

    A measure is a tensor [B], one value per replica, or [R, B] for R rounds. A measure that does not apply is left out,
    or is NaN (a count: negative) for the replicas to which it does not apply; it becomes null. `capacity` is the
    number of rounds for which the buffer has room at first; it grows when necessary. `columns` are those of the run.
    """

    def __init__(
        self,
        directory: RunDirectory,
        seeds: Sequence[int],
        capacity: int = 1024,
        columns: RunColumns = RunColumns(),  # noqa: B008
    ):
        if len(set(seeds)) != len(seeds):
            raise ValueError(f"seeds must differ from each other, got {list(seeds)}")
        self.directory = directory
        self.seeds = np.asarray(seeds, dtype=np.int64)
        self.capacity = capacity
        self._rounds: list[_Rounds] = []
        self.trace = TRACE.with_columns(columns.trace)
        self.evaluation = EVALUATION.with_columns(columns.evaluation)
        self._waiting: dict[Table, list[Columns]] = {self.evaluation: [], BLOCKS: [], INTERACTIONS: []}
        self.rows: dict[str, int] = {}  # by file, as this object has left them

    def record(self, round: int, measures: Mapping[str, Tensor]) -> None:
        """Record one row of trace.parquet per replica for `round`, or for the R rounds from `round` on.

        The values stay on their device, in one float64 buffer, in which whole numbers up to 2^53 are exact.
        """
        last = self._rounds[-1] if self._rounds else None
        if last is None or last.names != tuple(measures):
            self.trace.check(measures)
            last = _Rounds(tuple(measures), len(self.seeds), self.capacity)
            self._rounds.append(last)
        last.add(round, list(measures.values()))
        if len(last.rounds) * len(self.seeds) >= FLUSH_ROWS:
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
        """Write everything recorded to disk; each file is replaced atomically. Call it before writing a checkpoint."""
        self._append(self.trace, [rounds.columns(self.seeds) for rounds in self._rounds])
        self._rounds.clear()
        for table, waiting in self._waiting.items():
            self._append(table, waiting)
            waiting.clear()

    def finish(self) -> None:
        """Write everything recorded to disk, each table as one file."""
        self.flush()
        for table in (self.trace, *self._waiting):
            table.merge(self.directory)

    def _append(self, table: Table, parts: list[Columns]) -> None:
        if not parts:
            return
        import polars as pl

        by_names: dict[tuple[str, ...], list[Columns]] = {}  # arrays are joined first, because there may be many
        for columns in parts:
            by_names.setdefault(tuple(columns), []).append(columns)
        frames = [
            table.frame({name: np.concatenate([part[name] for part in group]) for name in names})
            for names, group in by_names.items()
        ]
        self.rows[table.file] = table.append(self.directory, pl.concat(frames), self.rows.get(table.file))

    def truncate(self, round: int, evaluated_again: Iterable[int] = ()) -> None:
        """Remove all rows after `round`, on disk and recorded, and evaluations that will be made again.

        A resumed run produces them again.
        """
        self._rounds.clear()
        for waiting in self._waiting.values():
            waiting.clear()
        for table in (self.trace, *self._waiting):
            without = evaluated_again if table is self.evaluation else ()
            self.rows[table.file] = table.truncate(self.directory, round, without)


class _Rounds:
    """Consecutive rounds with the same measures: a buffer [rounds, measures, B] on the device of the run."""

    def __init__(self, names: tuple[str, ...], replicas: int, capacity: int):
        self.names = names
        self.replicas = replicas
        self.rounds: list[int] = []
        self.buffer = torch.empty(0, len(names), replicas, dtype=torch.float64)
        self.capacity = max(capacity, 1)

    @torch.inference_mode()
    def add(self, round: int, values: list[Tensor]) -> None:
        start = len(self.rounds)
        if {tensor.shape for tensor in values} == {(self.replicas,)}:  # the common case, kept fast
            self._reserve(start + 1, values[0].device)
            torch.stack([tensor.double() for tensor in values], out=self.buffer[start])
            self.rounds.append(round)
            return
        shapes = [tuple(tensor.shape) for tensor in values]
        count = max((shape[0] for shape in shapes if len(shape) == 2), default=1)
        if not {*shapes} <= {(self.replicas,), (count, self.replicas)}:
            raise ValueError(
                f"measures must be [{self.replicas}] or [rounds, {self.replicas}], got {sorted({*shapes})}"
            )
        self._reserve(start + count, values[0].device)
        blocks = [tensor.double().expand(count, self.replicas) for tensor in values]
        torch.stack(blocks, dim=1, out=self.buffer[start : start + count])
        self.rounds.extend(range(round, round + count))

    def _reserve(self, rounds: int, device: torch.device) -> None:
        if rounds > len(self.buffer):
            grown = max(rounds, self.capacity, 2 * len(self.buffer))
            buffer = torch.empty(grown, len(self.names), self.replicas, dtype=torch.float64, device=device)
            buffer[: len(self.buffer)] = self.buffer.to(device)
            self.buffer = buffer

    def columns(self, seeds: np.ndarray) -> Columns:
        """One array [B * rounds] per column, sorted by seed and round like the table."""
        count = len(self.rounds)
        values = _doubles(self.buffer[:count])
        columns = {name: values[:, column].T.ravel() for column, name in enumerate(self.names)}
        return columns | {"seed": np.repeat(seeds, count), "round": np.tile(np.asarray(self.rounds), len(seeds))}


def _doubles(values: Tensor) -> np.ndarray:
    return values.detach().double().cpu().numpy()
