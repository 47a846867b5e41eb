"""Published results: finished runs in one parquet file, without their tables."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from ol2r_cli.files import invalid_fields, plain
from ol2r_cli.lazy import pl
from ol2r_cli.report.finished_run import FinishedRun
from ol2r_cli.run.run import scan
from ol2r_cli.text.formatting import error_line, one_line

# Columns of a file of results that are the same for all seeds of a run; those of `_JSON` have JSON.
_COST = ("cpu_seconds", "peak_memory_gb")
_JSON = ("choices", "settings", "typed", "columns", "about")
_OF_RUN = ("run", "rows", "dataset", "fold", "click", "ranker", "fingerprint", *_COST, *_JSON)
_SCHEMA: dict[Any, Any] = {
    **dict.fromkeys(("run", "fingerprint"), str),
    **dict.fromkeys(_COST, (int, float, None)),
    **{"choices": {...: str}, "settings": dict, "typed": ([str], list), "columns": dict},
}


def results_frame(
    runs: Sequence[FinishedRun], about: Sequence[Mapping[str, Any]], rows: Sequence[Sequence[str]]
) -> pl.DataFrame:
    """Return a row for each run and seed: what identifies the run, its costs and settings, and all metrics.

    about: what else to keep of each run. rows: what tables call each run; a run may have several names.
    """
    values: list[dict[str, Any]] = []
    for run, note, names in zip(runs, about, rows, strict=True):
        of_run = {
            "run": run.id,
            "rows": list(names),
            "dataset": run.choices["dataset"],
            "fold": run.fold,
            "click": run.choices["click"],
            "ranker": run.choices["ranker"],
            "fingerprint": run.fingerprint,
            "cpu_seconds": run.cpu_seconds,
            "peak_memory_gb": run.peak_memory_gb,
            "choices": json.dumps(dict(run.choices)),
            "settings": json.dumps(dict(run.settings)),
            "typed": json.dumps(sorted(run.typed)),
            "columns": json.dumps(run.columns.declared()),
            "about": json.dumps(dict(note)),
        }
        values += [{**of_run, "seed": seed, **metrics} for seed, metrics in run.values.items()]
    text = {"rows": pl.List(pl.String)}
    return pl.from_dicts(values, schema_overrides=text, infer_schema_length=None, strict=False)


def read_results(file: Path) -> list[tuple[FinishedRun, dict[str, Any]]]:
    """Return the runs of a file that has the rows of `results_frame`, each with its `about`.

    The path of a run is that of the file and its id: it has no tables. ValueError for another file.
    """
    try:
        rows = scan(file).collect().to_dicts()
    except (OSError, pl.exceptions.PolarsError) as error:
        raise ValueError(f"{file} cannot be read: {one_line(error)}") from None
    missing = [name for name in (*_OF_RUN, "seed") if rows and name not in rows[0]]
    if missing:
        raise ValueError(f"{file} must have the results of runs, got a table without {', '.join(missing)}")
    try:
        return list(_runs(rows, file))
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise ValueError(f"{file} must have the results of runs, got a damaged row ({error_line(error)})") from None


def _runs(rows: Sequence[dict[str, Any]], file: Path) -> Iterator[tuple[FinishedRun, dict[str, Any]]]:
    """Yield the run of consecutive rows, one for each seed, with its `about`. ValueError for a damaged row."""
    for _, group in groupby(rows, key=itemgetter(*_OF_RUN)):
        of_run = list(group)
        content = of_run[0] | {name: plain(json.loads(of_run[0][name])) for name in _JSON}
        wrong = invalid_fields(content, _SCHEMA)
        if wrong:
            raise ValueError(f"no valid {', '.join(wrong)}")
        manifest = {name: content[name] for name in ("choices", "typed", "columns", *_COST)}
        manifest |= {"id": content["run"], "dataset": {"fingerprint": content["fingerprint"]}}
        path, values = file / content["run"], _values_by_seed(of_run)
        run = FinishedRun(path, manifest, content["settings"], content["fold"], values)
        yield run, content["about"]


def _values_by_seed(rows: Sequence[Mapping[str, Any]]) -> dict[int, dict[str, float | None]]:
    """Return the metrics of a run that some seed has; None where one does not apply."""
    metrics = [name for name in rows[0] if name not in (*_OF_RUN, "seed")]
    measured = [name for name in metrics if any(row[name] is not None for row in rows)]
    return {row["seed"]: {name: row[name] for name in measured} for row in rows}
