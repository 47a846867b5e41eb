"""All runs below some folders as one polars frame, for a notebook: `from ol2r_cli.report import load`."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

    from ol2r_cli.report.collect import Run
    from ol2r_cli.report.groups import Group

TABLES = ("summary", "evaluation", "trace", "blocks")


def load(
    *folders: str | os.PathLike[str],
    table: str = "summary",
    settings: bool = False,
    columns: Sequence[str] | None = None,
) -> pl.DataFrame:
    """One row for each (run, seed) of the finished runs below `folders` (`outputs` if none is named).

    Columns: run (its id), path, group (rows with the same number differ in fold and seed alone: a row of the report),
    dataset, fold, click, ranker, model, exploration, fairness, the settings in which groups differ by their dotted name
    (all with `settings=True`), seed, and the metrics of summary.json. With `table` "evaluation", "trace" or "blocks"
    the rows of that table stand in place of the metrics, as many as there are for each seed; `columns` names those
    wanted, since traces are long. A seed that several runs have is there several times: use
    `.unique(["group", "fold", "seed"])`. A damaged run is left out with a warning. ValueError for a table, a column or
    a folder that does not exist, and where there are no finished runs.
    """
    from ol2r_cli.report.collect import collect
    from ol2r_cli.report.frames import as_frame, settings_of
    from ol2r_cli.report.groups import groups
    from ol2r_cli.report.labels import Labels

    if table not in TABLES:
        raise ValueError(f"table must be one of {', '.join(TABLES)}, got {table}")
    found = collect([Path(folder) for folder in folders or ("outputs",)])
    for damaged in found.damaged:
        warnings.warn(f"left out, damaged: {damaged}", stacklevel=2)
    if not found.runs:
        raise ValueError(f"there are no finished runs below {' or '.join(map(str, folders or ('outputs',)))}")
    rows = groups(found.runs)
    names = list(dict.fromkeys(n for g in rows for n in g.settings)) if settings else settings_of(rows, Labels(rows))
    runs = [_about(number, group, run, names) for number, group in enumerate(rows) for run in group.runs]
    about = as_frame(runs)
    values = _summaries(found.runs, columns) if table == "summary" else _rows(found.runs, table, columns)
    return about.join(values, on="path", maintain_order="left_right")


def _about(number: int, group: Group, run: Run, names: Iterable[str]) -> dict[str, Any]:
    from ol2r_cli.report.frames import choices_of

    choices = choices_of(group)
    place = {"run": run.id, "path": str(run.path), "group": number, "dataset": choices.pop("dataset"), "fold": run.fold}
    return place | choices | {name: group.settings.get(name) for name in names}


def _metrics(runs: Iterable[Run], columns: Sequence[str] | None) -> list[str]:
    known = list(dict.fromkeys(name for run in runs for name in run.metrics))
    for name in columns or ():
        if name not in known:
            raise ValueError(f"columns must be some of {', '.join(known)}, got {name}")
    return known if columns is None else list(columns)


def _summaries(runs: Sequence[Run], columns: Sequence[str] | None) -> pl.DataFrame:
    """path, seed and metrics."""
    import polars as pl

    from ol2r_cli.report.frames import as_frame
    from ol2r_cli.report.seeds import by_seed

    rows, metrics = [], _metrics(runs, columns)
    for run in runs:
        try:
            values = by_seed(run)
        except ValueError as error:
            warnings.warn(f"left out, damaged: {error}", stacklevel=3)
            continue
        path = str(run.path)
        rows += [
            {"path": path, "seed": seed} | {name: values[seed].get(name) for name in metrics}
            for seed in sorted(run.seeds)
        ]
    return as_frame(rows) if rows else pl.DataFrame(schema={"path": pl.String, "seed": pl.Int64})


def _rows(runs: Iterable[Run], table: str, columns: Sequence[str] | None) -> pl.DataFrame:
    """The rows of one table of all runs, with the path of the run; a column that an old file lacks is null."""
    import polars as pl

    from ol2r_cli.results import schema

    known = getattr(schema, table.upper())
    known.check(dict.fromkeys(name for name in columns or () if name not in known.key))
    wanted = [name for name in known.columns if columns is None or name in (*known.key, *columns)]
    kinds = {name: getattr(pl, known.columns[name]) for name in wanted}
    frames = [pl.DataFrame(schema={"path": pl.String} | kinds)]
    for run in runs:
        file = run.path / known.file
        if not file.exists():
            continue
        rows = pl.read_parquet(file, columns=[name for name in wanted if name in pl.read_parquet_schema(file)])
        frames.append(rows.select(pl.lit(str(run.path)).alias("path"), pl.all()))
    return pl.concat(frames, how="diagonal")
