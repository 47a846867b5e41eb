"""Finished runs for MLflow: a local SQLite store. Needs the extra `mlflow`."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ol2r_cli.export.tracked import Tracked

EXPERIMENT = "ol2r"
_AT_ONCE = 100  # parameters of one call; of metrics 1,000 go
_LONGEST = 6000  # characters of a parameter


def write(runs: Iterable[Tracked], out: Path) -> list[str]:
    """Add each run to the store in a file that ends in .db, in the experiment `ol2r`; files of runs are not copied.

    A run is known by its id and the time of its end: one that is there stays, one that was run again is replaced.
    """
    if out.suffix != ".db":
        raise ValueError(f"--out must be a file that ends in .db, got {out}")
    out.parent.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # the store is local, and nothing else is told of it
    from mlflow.tracking import MlflowClient

    logging.getLogger("mlflow").setLevel(logging.WARNING)
    client = MlflowClient(f"sqlite:///{out.resolve()}")
    experiment = client.get_experiment_by_name(EXPERIMENT)
    place = out.resolve().with_suffix(".artifacts").as_uri()
    number = experiment.experiment_id if experiment else client.create_experiment(EXPERIMENT, place)
    return [f"{_add(client, number, run)}: {run.name}" for run in runs]


def _add(client: Any, experiment: str, run: Tracked) -> str:
    """Returns what was done."""
    before = client.search_runs([experiment], f"tags.`ol2r.run` = '{run.id}'")
    if any(_is_whole(one, run) for one in before):
        return "there already"
    _record(client, experiment, run)
    for one in before:
        client.delete_run(one.info.run_id)
    return "replaced" if before else "written"


def _is_whole(known: Any, run: Tracked) -> bool:
    return known.info.status == "FINISHED" and known.data.tags.get("ol2r.ended") == run.ended.isoformat()


def _record(client: Any, experiment: str, run: Tracked) -> None:
    from mlflow.entities import Metric, Param

    start, end = (int(1000 * time.timestamp()) for time in (run.started, run.ended))
    tags = {f"ol2r.{name}": value for name, value in run.facts.items()}
    tags |= {"ol2r.ended": run.ended.isoformat(), "ol2r.path": str(run.path.resolve())}
    made = client.create_run(experiment, start_time=start, tags=tags, run_name=run.name)
    key = made.info.run_id
    params = [Param(name, str(value)[:_LONGEST]) for name, value in run.settings.items()]
    for first in range(0, len(params), _AT_ONCE):
        client.log_batch(key, params=params[first : first + _AT_ONCE])
    metrics = [Metric(name, value, end, 0) for name, value in run.summary.items()]
    for name, curve in run.curves.items():
        pace = (end - start) / (curve[-1][0] or 1)
        metrics += [Metric(name, value, int(start + round * pace), round) for round, value in curve]
    for first in range(0, len(metrics), 10 * _AT_ONCE):
        client.log_batch(key, metrics=metrics[first : first + 10 * _AT_ONCE])
    client.set_terminated(key, "FINISHED", end)
