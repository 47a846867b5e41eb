"""Reports as polars frames in full precision: `load` for a notebook, and the frames behind csv and parquet files."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ol2r_cli.config.overrides import as_typed
from ol2r_cli.lazy import pl
from ol2r_cli.report.collection import chosen_runs
from ol2r_cli.report.columns import choices, differing_settings
from ol2r_cli.report.finished_run import FinishedRun, read_tables
from ol2r_cli.report.names import Labels
from ol2r_cli.report.run_groups import Group, group_runs
from ol2r_cli.run import run as run_reader

_FORMULA = re.compile(r"^(?=[=+\-@\t\r])(?![+-][\d.]+([eE][+-]?\d+)?\Z)")
TABLES = ("summary", "evaluation", "trace", "blocks")


def load(
    *places: str | os.PathLike[str],
    table: str = "summary",
    settings: bool = False,
    columns: Sequence[str] | None = None,
) -> pl.DataFrame:
    """Return one row for each (run, seed) of the finished runs below folders (default: `outputs`).

    Words of `ol2r run` choose among them: load("outputs", "dataset=mq2008", "click=per,inf").
    Columns: run (its id), path, group (rows with the same number differ in fold and seed only: a row of the report),
    dataset, fold, click, intent, ranker, model, exploration, fairness, the settings in which groups differ by their
    dotted name (all with `settings=True`), seed, and the metrics of summary.json. With `table` "evaluation", "trace" or
    "blocks", the rows of that table replace the metrics, several for each seed; `columns` selects some of them, since
    traces are long. A seed of several runs has several rows: use `.unique(["group", "fold", "seed"])`. Damaged and
    unfinished runs are left out with a warning. ValueError for a table, a column or a folder that does not exist, and
    without finished runs.
    """
    if table not in TABLES:
        raise ValueError(f"table must be one of {', '.join(TABLES)}, got {table}")
    files = [place for place in places if Path(place).is_file()]
    if files and table != "summary":
        raise ValueError(f"table must be summary for {files[0]}, which has final values only, got {table}")
    runs = chosen_runs(places).runs
    groups = group_runs(runs)
    names = differing_settings(groups, Labels(groups))
    if settings:
        names = list(dict.fromkeys(name for run in runs for name in run.settings))
    values = _metrics(runs, columns) if table == "summary" else _rows_of_table(runs, table, columns)
    return _identities(groups, names).join(values, on="path", maintain_order="left_right")


def _identities(groups: Sequence[Group], settings: Sequence[str]) -> pl.DataFrame:
    """Return a row for each run: what identifies it, its group, its choices and these settings."""
    rows = []
    for number, group in enumerate(groups):
        for run in group.runs:
            of_group = choices(group)
            row = {"run": run.id, "path": str(run.path), "group": number, "dataset": of_group.pop("dataset")}
            of_run = {**run.settings, **group.settings}
            rows.append(row | {"fold": run.fold} | of_group | {name: of_run.get(name) for name in settings})
    return as_frame(rows)


def _metrics(runs: Sequence[FinishedRun], columns: Sequence[str] | None) -> pl.DataFrame:
    """Return the metrics of all seeds, with the path of the run; ValueError for a column that no run has."""
    known = dict.fromkeys(name for run in runs for name in run.metrics)
    _check(columns, known)
    rows = []
    for run in runs:
        for seed, metrics in sorted(run.values.items()):
            rows.append({"path": str(run.path), "seed": seed, **{name: metrics.get(name) for name in columns or known}})
    return as_frame(rows)


def _rows_of_table(runs: Sequence[FinishedRun], table: str, columns: Sequence[str] | None) -> pl.DataFrame:
    """Return the rows of one table of all runs, with the path of the run; a column that a file lacks is null."""
    known = getattr(run_reader, table.upper())
    if table != "blocks":
        for run in runs:
            known = known.with_columns(getattr(run.columns, table))
    _check(columns, known.columns)
    wanted = [name for name in known.columns if columns is None or name in (*known.key, *columns)]
    frames = [pl.DataFrame(schema={"path": pl.String} | {name: known.schema[name] for name in wanted})]
    for run in runs:
        if (run.path / known.file).exists():
            rows = read_tables(run.path, lambda stored: stored.table(known, wanted))
            frames.append(rows.select(pl.lit(str(run.path)).alias("path"), pl.all()))
    return pl.concat(frames, how="diagonal_relaxed")


def _check(columns: Sequence[str] | None, known: Collection[str]) -> None:
    """Raise ValueError for a column that is not known."""
    for name in columns or ():
        if name not in known:
            raise ValueError(f"columns must be some of {', '.join(known)}, got {name}")


def as_frame(rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Return a column for each key. A column of several types, unless these are numbers, is text as it is typed."""
    columns = []
    for key in dict.fromkeys(key for row in rows for key in row):
        values = [row.get(key) for row in rows]
        types = {type(value) for value in values if value is not None}
        if not (types <= {int, float} or types in ({bool}, {str})):
            values = [value if value is None or isinstance(value, str) else as_typed(value) for value in values]
        columns.append(pl.Series(key, values, strict=False))
    return pl.DataFrame(columns)


def as_csv(table: pl.DataFrame) -> str:
    """Return CSV in which text is marked by a quote that a spreadsheet would calculate; numbers are not."""
    mark = partial(_FORMULA.sub, "'")
    return table.rename(mark).with_columns(pl.col(pl.String).map_elements(mark, pl.String)).write_csv()
