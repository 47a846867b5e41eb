"""The tables of a run directory: their columns are public, tests freeze them, changes go to CHANGELOG.md.

polars is imported where it is needed, because importing it takes as long as a short command.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import polars as pl

    from ol2r_cli.results.directory import RunDirectory


@dataclass(frozen=True, eq=False)
class Table:
    """A parquet file with one row per `key`, sorted by it. `columns` maps each name to the name of its polars type."""

    file: str
    key: tuple[str, ...]
    columns: Mapping[str, str]

    @property
    def measures(self) -> tuple[str, ...]:
        return tuple(name for name in self.columns if name not in self.key)

    def check(self, names: Mapping[str, Any]) -> None:
        """ValueError unless every name is a measure of this table."""
        for name in names:
            if name not in self.measures:
                raise ValueError(f"a measure in {self.file} must be one of {', '.join(self.measures)}, got {name}")

    def frame(self, columns: Mapping[str, NDArray[Any]]) -> pl.DataFrame:
        """Arrays [rows] as a frame of this schema.

        A column that is absent, NaN, and a negative count (nothing that is counted here goes below zero) become null.
        A count that its type cannot hold is an error of polars, never a wrong number.
        """
        import polars as pl

        rows = len(columns[self.key[0]])
        series = []
        for name, kind in self.columns.items():
            dtype = getattr(pl, kind)
            values = columns.get(name)
            if values is None:
                series.append(pl.Series(name, [None] * rows, dtype=dtype))
                continue
            if kind.startswith("Int") and values.dtype.kind == "f":
                values = np.where(values < 0, np.nan, values)
            series.append(pl.Series(name, values, nan_to_null=values.dtype.kind == "f").cast(dtype))
        return pl.DataFrame(series)

    def read(self, directory: RunDirectory) -> pl.DataFrame:
        """What is on disk; an empty frame of this schema when there is no file."""
        import polars as pl

        try:
            with open(directory / self.file, "rb") as file:
                return pl.read_parquet(file)
        except FileNotFoundError:
            return pl.DataFrame(schema={name: getattr(pl, kind) for name, kind in self.columns.items()})

    def append(self, directory: RunDirectory, rows: pl.DataFrame) -> None:
        """Add rows to the file; where a key is there already, the new row takes its place."""
        import polars as pl

        before = self.read(directory)
        table = pl.concat([before, rows])
        last, first = before["round"].max(), rows["round"].min()
        if last is not None and first is not None and first <= last:  # type: ignore[operator]
            table = table.unique(self.key, keep="last")
        directory.write_parquet(self.file, table.sort(self.key))

    def truncate(self, directory: RunDirectory, round: int) -> None:
        """Drop the rows beyond `round` from the file."""
        import polars as pl

        if (directory / self.file).exists():
            directory.write_parquet(self.file, self.read(directory).filter(pl.col("round") <= round))


TRACE = Table(
    "trace.parquet",
    ("seed", "round"),
    {
        "seed": "Int64",
        "round": "Int64",  # from 1
        "query": "Int64",  # number within the training split
        "online_ndcg": "Float32",  # of the shown list
        "cumulative_ndcg": "Float64",  # sum of online_ndcg(t) * 0.9995^(t - 1) so far
        "regret": "Int64",  # pairs of the proposed order against the ideal one, ties free
        "clicks": "Int16",
        "pairs": "Int16",  # preferences inferred; null for rankers that do not learn from pairs
        "blocks": "Int32",
        "block_size_1": "Int32",  # size of the block that holds rank 1, 5, 10
        "block_size_5": "Int32",
        "block_size_10": "Int32",
        "certain_top10": "Float32",  # share of certain pairs among the first ten places
        "unfairness": "Float64",  # signed, cumulative
        "exposure_0": "Float32",  # of group 0 in this round's list
        "exposure_1": "Float32",
        "violations": "Int16",  # certain pairs broken among the shown
    },
)

EVALUATION = Table(
    "evaluation.parquet",
    ("seed", "round", "split"),
    {
        "seed": "Int64",
        "round": "Int64",  # 0 is the untrained ranker
        "split": "String",  # validation or test
        "ndcg_1": "Float32",
        "ndcg_3": "Float32",
        "ndcg_5": "Float32",
        "ndcg_10": "Float32",
        "cosine": "Float32",  # to the parameters of the offline ranker
    },
)

BLOCKS = Table(
    "blocks.parquet",
    ("seed", "round", "rank"),
    {
        "seed": "Int64",
        "round": "Int64",
        "rank": "Int32",  # from 1, over all documents of the query
        "block_size": "Int32",  # of the block that holds this rank
    },
)

INTERACTIONS = Table(
    "interactions.parquet",
    ("seed", "round", "rank"),
    {
        "seed": "Int64",
        "round": "Int64",
        "rank": "Int32",  # from 1, of the list that was shown
        "query": "Int64",  # number within the training split
        "document": "Int64",  # row of the dataset's document table
        "click": "Boolean",
    },
)
