"""The tables of a run: their columns, which are public and frozen by tests, and the files that have their rows.

Every run has the columns of `TRACE` and `EVALUATION`; measures may add more, which `run.json` records. polars is
imported inside functions, because importing it takes as long as a short command.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ol2r_cli.columns import EVALUATION_COLUMNS, TRACE_COLUMNS, Column

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, eq=False)
class Table:
    """A parquet file with one row per `key`, sorted by it. `columns` maps names of columns to names of polars types."""

    file: str
    key: tuple[str, ...]
    columns: Mapping[str, str]

    @property
    def schema(self) -> dict[str, Any]:
        """The columns with their types of polars."""
        import polars as pl

        return {name: getattr(pl, kind) for name, kind in self.columns.items()}

    def with_columns(self, measured: Mapping[str, Column]) -> Table:
        """The table of a run whose measures have these columns, which are added where it does not have them."""
        return replace(self, columns={**self.columns, **{name: each.type for name, each in measured.items()}})

    def check(self, names: Iterable[str]) -> None:
        """ValueError unless every name is a column that is not part of the key."""
        measures = [name for name in self.columns if name not in self.key]
        for name in names:
            if name not in measures:
                raise ValueError(f"a measure in {self.file} must be one of {', '.join(measures)}, got {name}")

    def complete(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """Rows of a file with all columns of this table: a column that they lack is null, and one that only they have
        stays. ValueError for another type."""
        import polars as pl

        schema, present = self.schema, rows.collect_schema()
        for name, kind in present.items():
            wanted = schema.get(name, pl.Float64 if kind != pl.Boolean else kind)
            like = kind.is_integer() if wanted.is_integer() else wanted.is_float() and kind.is_numeric()
            if kind != wanted and not like:
                raise ValueError(f"{self.file} must have {wanted} as {name}, got {kind}")
        missing = [pl.lit(None, kind).alias(name) for name, kind in schema.items() if name not in present]
        return rows.with_columns(missing).select(*schema, pl.exclude(*schema)) if missing else rows


_BY_ROUND = {"seed": "Int64", "round": "Int64"}
TRACE = Table(  # rounds are from 1
    "trace.parquet", ("seed", "round"), _BY_ROUND | {name: column.type for name, column in TRACE_COLUMNS.items()}
)
EVALUATION = Table(  # round 0 is the untrained ranker; split is validation or test
    "evaluation.parquet",
    ("seed", "round", "split"),
    _BY_ROUND | {"split": "String"} | {name: column.type for name, column in EVALUATION_COLUMNS.items()},
)
BLOCKS = Table(  # `rank` is from 1, over all documents of the query; `block_size` is of the block with this rank
    "blocks.parquet", ("seed", "round", "rank"), _BY_ROUND | {"rank": "Int32", "block_size": "Int32"}
)
INTERACTIONS = Table(
    "interactions.parquet",
    ("seed", "round", "rank"),
    # `rank` is from 1, in the shown list; `query` is its number within the training split; `document` is its row in the
    # dataset's document table
    _BY_ROUND | {"rank": "Int32", "query": "Int64", "document": "Int64", "click": "Boolean"},
)


def parts(names: Iterable[str], table: Table) -> list[str]:
    """Those of the named files that have rows of a table, earlier rounds first."""
    files = (name for name in names if name == table.file or is_part(name, table.file))
    return sorted(files, key=lambda name: (len(name), name))  # a number has five digits or more


def is_part(name: str, table: str = r"(trace|evaluation|blocks|interactions).parquet") -> bool:
    """Whether a file of this name has some rows of a table of an unfinished run: `trace.part00001.parquet`."""
    return re.fullmatch(table.replace(".", r"\.part\d{5,}\."), name) is not None


def scan(file: Path) -> pl.LazyFrame:
    """A parquet file. polars would take its path for a pattern (`b[1]`, `*`), or for that of a user (`~name`)."""
    import polars as pl

    return pl.scan_parquet(file.absolute(), glob=False)
