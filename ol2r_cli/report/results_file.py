"""Finished runs in one parquet file, with a row for each seed: results that can be published, and read by a report."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from ol2r_cli.columns import RunColumns
from ol2r_cli.files import invalid_fields, plain
from ol2r_cli.formatting import error_line, one_line
from ol2r_cli.report.estimates import Estimate
from ol2r_cli.report.finished_run import FinishedRun, by_seed
from ol2r_cli.report.measures import declare
from ol2r_cli.run.tables import scan

if TYPE_CHECKING:
    import polars as pl

_COST = ("cpu_seconds", "peak_memory_gb")
# Columns that are the same for all seeds of a run; those of `_JSON` have JSON.
_JSON = ("choices", "settings", "typed", "columns", "about")
_SCHEMA: dict[Any, Any] = {
    **dict.fromkeys(("run", "fingerprint"), str),
    **dict.fromkeys(_COST, (int, float, None)),
    "choices": {...: str},
    "settings": dict,
    "typed": ([str], list),
    "columns": dict,
    "by_seed": {...: [(int, float, None)]},
}
_OF_RUN = ("run", "rows", "dataset", "fold", "click", "ranker", "fingerprint", *_COST, *_JSON)


def results_frame(
    runs: Sequence[FinishedRun], about: Sequence[Mapping[str, Any]] = (), rows: Sequence[Sequence[str]] = ()
) -> pl.DataFrame:
    """A row for each run and seed: what identifies the run, its costs and settings, and all metrics.

    about: what else to keep of each run. rows: what tables call each run; a run may have several names. ValueError for
    a run whose tables cannot be read.
    """
    import polars as pl

    values: list[dict[str, Any]] = []
    for run, note, names in zip(runs, about or [{}] * len(runs), rows or [()] * len(runs), strict=True):
        content = {
            "choices": dict(run.choices),
            "settings": dict(run.settings),
            "typed": sorted(run.typed),
            "columns": run.columns.declared(),
            "about": dict(note),
        }
        row = {"run": run.id, "rows": list(names), "dataset": run.choices["dataset"], "fold": run.fold}
        row |= {"click": run.choices["click"], "ranker": run.choices["ranker"], "fingerprint": run.fingerprint}
        row |= {name: getattr(run, name) for name in _COST}
        row |= {name: json.dumps(content[name]) for name in _JSON}
        values += [row | {"seed": seed} | metrics for seed, metrics in by_seed(run).items()]
    text = {"rows": pl.List(pl.String)}
    return pl.from_dicts(values, schema_overrides=text, infer_schema_length=None, strict=False)


def read_results(file: Path) -> list[tuple[FinishedRun, dict[str, Any]]]:
    """The runs of a file that has the rows of `results_frame`, each with its `about`.

    The path of a run is that of the file and its id: it has no tables. ValueError for another file.
    """
    import polars as pl

    try:
        rows = scan(file).collect().to_dicts()
    except (OSError, pl.exceptions.PolarsError) as error:
        raise ValueError(f"{file} cannot be read: {one_line(error)}") from None
    if missing := [name for name in (*_OF_RUN, "seed") if rows and name not in rows[0]]:
        raise ValueError(f"{file} must have the results of runs, got a table without {', '.join(missing)}")
    of_runs = groupby(rows, key=lambda row: [row[name] for name in _OF_RUN])
    try:
        return [_read(file, list(of_run)) for _, of_run in of_runs]
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise ValueError(f"{file} must have the results of runs, got a damaged row ({error_line(error)})") from None


def results_files(folder: Path) -> list[Path]:
    """The files of a folder that `read_results` reads."""
    import polars as pl

    files = []
    for file in filter(Path.is_file, sorted(folder.glob("*.parquet"))):
        with suppress(OSError, pl.exceptions.PolarsError):
            if {*_OF_RUN, "seed"} <= scan(file).collect_schema().keys():
                files.append(file)
    return files


def _read(file: Path, rows: Sequence[Mapping[str, Any]]) -> tuple[FinishedRun, dict[str, Any]]:
    first = rows[0]
    content = {name: plain(json.loads(first[name])) for name in _JSON}
    names = [name for name in first if name not in _OF_RUN and any(row[name] is not None for row in rows)]
    by_seed = {name: [row[name] for row in rows] for name in names}
    if wrong := invalid_fields({**first, **content, "by_seed": by_seed}, _SCHEMA):
        raise ValueError(f"no valid {', '.join(wrong)}")
    columns = RunColumns.of({"columns": content["columns"]})
    declare(columns)
    run = FinishedRun(
        path=file / first["run"],
        choices=content["choices"],
        settings=content["settings"],
        fold=first["fold"],
        fingerprint=first["fingerprint"],
        seeds=tuple(row["seed"] for row in rows),
        metrics={name: _estimate(values) for name, values in by_seed.items() if name != "seed"},
        typed=frozenset(content["typed"]),
        by_seed=by_seed,
        id=first["run"],
        columns=columns,
        **{name: first[name] for name in _COST},
    )
    return run, content["about"]


def _estimate(values: Sequence[float | None]) -> Estimate:
    """Of the values that there are, as in summary.json."""
    known = [value for value in values if value is not None and not math.isnan(value)]
    return Estimate(fmean(known), stdev(known) if len(known) > 1 else None, len(known))
