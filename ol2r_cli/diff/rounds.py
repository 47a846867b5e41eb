"""Where two runs part: for every seed the first round in which something else happened.

Same seeds meet the same queries and users, so two runs that differ in nothing that matters have the same rounds, and
the first round that differs is where to look for what does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ol2r_cli.results.directory import RunDirectory
from ol2r_cli.results.schema import EVALUATION, TRACE, Table

if TYPE_CHECKING:
    import polars as pl

HAPPENED = ("query", "clicks", "online_ndcg")  # what the user and the ranker did; other columns are of inner state
TOLERANCE = 1e-6  # of measures that are not counts: processors round differently


@dataclass(frozen=True)
class Parting:
    """The first round in which a seed's rows differ.

    `values` are those of the columns that differ there, in both runs; `query` is that of the first run, None for an
    evaluation.
    """

    seed: int
    round: int
    values: Mapping[str, tuple[Any, Any]]
    query: int | None = None


@dataclass(frozen=True)
class Rounds:
    """Two runs, round by round.

    `seeds`: those of both. `compared`: rounds of both, from 1 on. `partings`: of the seeds that part, earliest first.
    `inner`: likewise where other columns than those of `HAPPENED` differ in an earlier round, or alone. `evaluation`:
    likewise of offline evaluations. `same_extent`: whether they have the same seeds and rounds.
    """

    seeds: Sequence[int]
    compared: int
    partings: Sequence[Parting]
    inner: Sequence[Parting]
    evaluation: Sequence[Parting]
    same_extent: bool

    @property
    def differ(self) -> bool:
        """Whether the two have other results."""
        return bool(self.partings or self.inner or self.evaluation) or not self.same_extent


def compare(first: Path, second: Path) -> Rounds:
    """The traces and evaluations of two runs. ValueError when one cannot be read."""
    left, right = _read(first, TRACE), _read(second, TRACE)
    joined = left.join(right, on=TRACE.key, suffix=".second").sort("round", "seed")
    columns = [name for name in TRACE.measures if name in left.columns and name in right.columns]
    partings = _first(joined, HAPPENED)
    parted = {parting.seed: parting.round for parting in partings}
    inner = _first(joined, [name for name in columns if name not in HAPPENED])
    return Rounds(
        seeds=sorted(set(left["seed"]) & set(right["seed"])),
        compared=int(joined["round"].max() or 0),  # type: ignore[arg-type]
        partings=partings,
        inner=[one for one in inner if one.round < parted.get(one.seed, one.round + 1)],
        evaluation=_evaluation(first, second),
        same_extent=left.select(TRACE.key).equals(right.select(TRACE.key)),
    )


def _evaluation(first: Path, second: Path) -> list[Parting]:
    left, right = (_by_split(_read(path, EVALUATION)) for path in (first, second))
    columns = [name for name in left.columns if name in right.columns and name not in ("seed", "round")]
    joined = left.join(right, on=("seed", "round"), suffix=".second").sort("round", "seed")
    return _first(joined, sorted(columns, key=lambda name: not name.endswith("_10")))


def _by_split(evaluation: pl.DataFrame) -> pl.DataFrame:
    """One row for each seed and round, with columns such as test_ndcg_10."""
    import polars as pl

    splits = evaluation["split"].unique().sort()
    parts = [
        evaluation.filter(split=split).drop("split").rename({name: f"{split}_{name}" for name in EVALUATION.measures})
        for split in splits
    ]
    return pl.concat(parts, how="align") if parts else evaluation.drop("split")


def _first(joined: pl.DataFrame, columns: Sequence[str]) -> list[Parting]:
    """Of every seed the first row in which any of the columns differs."""
    import polars as pl

    if not columns:
        return []
    rows = joined.filter(pl.any_horizontal(_differs(joined, name) for name in columns))
    rows = rows.unique("seed", keep="first", maintain_order=True)
    marked = rows.with_columns(_differs(joined, name).alias(f"{name}.differs") for name in columns)
    found = []
    for row in marked.iter_rows(named=True):
        values = {name: (row[name], row[f"{name}.second"]) for name in columns if row[f"{name}.differs"]}
        found.append(Parting(row["seed"], row["round"], values, row.get("query")))
    return found


def _differs(joined: pl.DataFrame, name: str) -> pl.Expr:
    """Where both runs have a value, and not the same. A measure that one of them does not trace is no difference."""
    import polars as pl

    first, second = pl.col(name), pl.col(f"{name}.second")
    unequal = (first - second).abs() > TOLERANCE if joined.schema[name].is_float() else first != second
    return unequal.fill_null(False)


def _read(path: Path, table: Table) -> pl.DataFrame:
    from polars.exceptions import PolarsError

    try:
        return table.read(RunDirectory(path)).sort(table.key)
    except (OSError, PolarsError) as error:
        raise ValueError(f"{path / table.file} cannot be read ({error}): force=true runs it again") from error
