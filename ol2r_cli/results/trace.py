"""Records the rounds of a run and brings them to disk as the tables of `schema`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from ol2r_cli.results.directory import RunDirectory
from ol2r_cli.results.schema import BLOCKS, EVALUATION, INTERACTIONS, TRACE, Table
from ol2r_cli.shapes import Int

if TYPE_CHECKING:
    from ol2r_cli.interfaces import Interaction

Columns = dict[str, np.ndarray]


class Trace:
    """What happened since the last `flush`, for the replicas with these seeds, in the run directory given.

    A measure is a tensor [B], one value per replica, or [R, B] for R rounds. One that does not apply is left out, or is
    NaN (a count: negative) where it does not apply to one replica; it becomes null. `capacity` is the number of rounds
    the buffer starts with: it grows, but a flush within it costs least.
    """

    def __init__(self, directory: RunDirectory, seeds: Sequence[int], capacity: int = 1024):
        if len(set(seeds)) != len(seeds):
            raise ValueError(f"seeds must differ from each other, got {list(seeds)}")
        self.directory = directory
        self.seeds = np.asarray(seeds, dtype=np.int64)
        self.capacity = capacity
        self._rounds: list[_Rounds] = []
        self._waiting: dict[Table, list[Columns]] = {EVALUATION: [], BLOCKS: [], INTERACTIONS: []}

    def record(self, round: int, measures: Mapping[str, Tensor]) -> None:
        """One row of trace.parquet per replica for `round`, or for the R rounds from `round` on, in ascending order.

        Nothing leaves the device and no frame is built: the values are copied into one float64 buffer (whole numbers
        up to 2^53 are exact in it).
        """
        last = self._rounds[-1] if self._rounds else None
        if last is None or last.names != tuple(measures):
            TRACE.check(measures)
            last = _Rounds(tuple(measures), len(self.seeds), self.capacity)
            self._rounds.append(last)
        last.add(round, list(measures.values()))

    def record_evaluation(self, rounds: int | Sequence[int], split: str, measures: Mapping[str, Tensor]) -> None:
        """One row of evaluation.parquet per replica for one round [B] or for several [R, B]; 0 is before training."""
        EVALUATION.check(measures)
        if split not in ("validation", "test"):
            raise ValueError(f"split must be validation or test, got {split}")
        at = np.atleast_1d(np.asarray(rounds, dtype=np.int64))
        shape = len(at), len(self.seeds)
        columns = {name: _doubles(values).reshape(shape).ravel() for name, values in measures.items()}
        columns |= {"seed": np.tile(self.seeds, len(at)), "round": np.repeat(at, len(self.seeds))}
        self._waiting[EVALUATION].append(columns | {"split": np.full(len(columns["seed"]), split)})

    def record_blocks(self, round: int, sizes: Int[Tensor, "B D"]) -> None:
        """One row of blocks.parquet per replica and rank: the size of the block at that rank, 0 on padding (no row)."""
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
        """One row of interactions.parquet per replica and shown document."""
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
        """Bring everything recorded to disk; each file is replaced as a whole. To be done before the checkpoint."""
        self._append(TRACE, [rounds.columns(self.seeds) for rounds in self._rounds])
        self._rounds.clear()
        for table, waiting in self._waiting.items():
            self._append(table, waiting)
            waiting.clear()

    def _append(self, table: Table, parts: list[Columns]) -> None:
        if not parts:
            return
        import polars as pl

        alike: dict[tuple[str, ...], list[Columns]] = {}  # joined before they become frames: rounds are many
        for columns in parts:
            alike.setdefault(tuple(columns), []).append(columns)
        frames = [
            table.frame({name: np.concatenate([part[name] for part in group]) for name in names})
            for names, group in alike.items()
        ]
        table.append(self.directory, pl.concat(frames))

    def truncate(self, round: int) -> None:
        """Forget all rows beyond `round`, on disk and recorded: a resumed run will produce them again."""
        self._rounds.clear()
        for waiting in self._waiting.values():
            waiting.clear()
        for table in (TRACE, *self._waiting):
            table.truncate(self.directory, round)


class _Rounds:
    """Rounds that measured the same things: a buffer [rounds, measures, B] on the device of the run."""

    def __init__(self, names: tuple[str, ...], replicas: int, capacity: int):
        self.names = names
        self.replicas = replicas
        self.rounds: list[int] = []
        self.buffer = torch.empty(0, len(names), replicas, dtype=torch.float64)
        self.capacity = max(capacity, 1)

    @torch.inference_mode()
    def add(self, round: int, values: list[Tensor]) -> None:
        start = len(self.rounds)
        if {tensor.shape for tensor in values} == {(self.replicas,)}:  # every round passes here: the short way
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
        """One array [B * rounds] per column, seed by seed, as the table is sorted."""
        count = len(self.rounds)
        values = _doubles(self.buffer[:count])
        columns = {name: values[:, column].T.ravel() for column, name in enumerate(self.names)}
        return columns | {"seed": np.repeat(seeds, count), "round": np.tile(np.asarray(self.rounds), len(seeds))}


def _doubles(values: Tensor) -> np.ndarray:
    return values.detach().double().cpu().numpy()
