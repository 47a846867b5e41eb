"""Finished runs for experiment trackers: settings, summary and thinned curves to TensorBoard, MLflow, Weights & Biases.

`tracked_run` reads a run from its files; the `write_..` functions pass it on. Writing a run again replaces it.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl

from ol2r_cli.config.catalogue import dotted
from ol2r_cli.formatting import error_line
from ol2r_cli.run.run import Run
from ol2r_cli.run.tables import EVALUATION, TRACE

POINTS = 500  # of a curve, at most
PROJECT = "ol2r"  # the experiment of MLflow, and the project of Weights & Biases, that runs are written to
MARK = ".ol2r"  # at the end of the names of our event files
_PARAMETERS = 100  # that MLflow accepts in one call
_METRICS = 1000  # that MLflow accepts in one call
_PARAMETER_LENGTH = 6000  # characters that MLflow accepts

# of run.json
_FACTS = ("command", "seeds", "choices", "dataset", "git", "device", "versions", "results_version", "seconds", "ended")

Curve = list[tuple[int, float]]  # (round, value), rounds ascending


@dataclass(frozen=True)
class TrackedRun:
    """One finished run.

    name: `<dataset>/<directory of the run>`. settings: by dotted name. facts: seeds, versions and the like of run.json,
    as text. summary: `<metric>` and, for several seeds, `<metric>_sd`, as in summary.json. curves: `trace/<column>` and
    `evaluation/<split>_<column>`, means over seeds.
    """

    path: Path
    id: str
    name: str
    choices: Mapping[str, str]
    settings: Mapping[str, Any]
    facts: Mapping[str, str]
    summary: Mapping[str, float]
    curves: Mapping[str, Curve]
    started: datetime
    ended: datetime

    def time(self, curve: Curve, round: int) -> float:
        """Return the time of a round, in seconds since the epoch, as if all rounds had taken equally long."""
        start = self.started.timestamp()
        return start + round * (self.ended.timestamp() - start) / (curve[-1][0] or 1)


def tracked_run(path: Path, points: int = POINTS) -> TrackedRun:
    """Return the run in a directory, with at most `points` points of each curve of the trace.

    Raises ValueError, which says what to type, when it is not finished or damaged.
    """
    run = Run.read_finished(path)
    manifest = run.manifest
    try:
        _check_names(manifest)
        facts = {"run": manifest["id"], **dict(dotted({name: manifest[name] for name in _FACTS}))}
        return TrackedRun(
            path=path,
            id=run.id,
            name=f"{manifest['dataset']['name']}/{path.resolve().name}",
            choices=run.choices,
            settings={name: value for name, value in dotted(run.settings) if name.rpartition(".")[2] != "_target_"},
            facts={name: str(value) for name, value in facts.items()},
            summary=_summary(run.summary),
            curves=_curves(run, points),
            started=datetime.fromisoformat(manifest["started"]),
            ended=datetime.fromisoformat(manifest["ended"]),
        )
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is damaged ({error_line(error)}): type {run.command} force=true") from error


def _check_names(manifest: Mapping[str, Any]) -> None:
    """Raise ValueError for names that, as part of a path, would lead out of the folder of an export."""
    for what, name in ("an id", manifest["id"]), ("a dataset name", manifest["dataset"]["name"]):
        if not re.fullmatch(r"\w[\w.-]*", name):
            raise ValueError(f"run.json must have {what} of letters and digits, got {name!r}")


def _summary(metrics: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    means = {name: float(values["mean"]) for name, values in metrics.items()}
    deviations = {f"{name}_sd": float(values["sd"]) for name, values in metrics.items() if values["sd"] is not None}
    return means | deviations


def _curves(run: Run, points: int) -> dict[str, Curve]:
    """Return the curves of a run, without columns that are null throughout.

    The rounds of the trace are cut into `points` stretches of equal length, of which the last one may be shorter. A
    point stands at the last round of its stretch. It is the last value of a running total, such as cumulative NDCG, and
    the mean of another column.
    """
    columns = run.columns
    trace = run.table(TRACE.with_columns(columns.trace))
    evaluation = run.table(EVALUATION.with_columns(columns.evaluation))
    names = [name for name in columns.trace if name != "query"]
    running_totals = [name for name in names if columns.trace[name].summary in ("last", "size")]
    length = -(-int(trace["round"].max() or 1) // points)  # type: ignore[arg-type]
    stretch = (pl.col("round") - 1) // length
    per_seed = (
        trace.sort("seed", "round")
        .group_by("seed", stretch.alias("stretch"))
        .agg(
            pl.col("round").max(),
            *(
                pl.col(name).drop_nulls().last() if name in running_totals else pl.col(name).cast(pl.Float64).mean()
                for name in names
            ),
        )
    )
    curves = _means(per_seed, names, "trace/")
    for (split,), rows in evaluation.group_by("split"):
        curves |= _means(rows, columns.evaluation, f"evaluation/{split}_")
    return dict(sorted(curves.items()))


def _means(rows: pl.DataFrame, names: Iterable[str], prefix: str) -> dict[str, Curve]:
    """Return a curve for each column that has values: the mean over the rows of each round."""
    means = rows.group_by("round").agg(pl.col(*names).cast(pl.Float64).mean()).sort("round")
    columns = {name: means.select("round", name).drop_nulls() for name in names}
    return {f"{prefix}{name}": list(column.iter_rows()) for name, column in columns.items() if len(column)}


def write_tensorboard(runs: Iterable[TrackedRun], out: Path) -> Iterator[str]:
    """Write each run to `<out>/<its name>`, where it replaces our event file; yield what was done."""
    from torch.utils.tensorboard.summary import hparams, text
    from torch.utils.tensorboard.writer import SummaryWriter

    for run in runs:
        folder, end = out / run.name, run.ended.timestamp()
        earlier = list(folder.glob(f"events.*{MARK}"))
        for file in earlier:
            file.unlink()
        summary = {f"summary/{name}": value for name, value in run.summary.items()}
        plain = {name: value if isinstance(value, int | float) else str(value) for name, value in run.settings.items()}
        tables = [
            text(title, "\n".join(["| | |", "|---|---|", *(f"| {name} | `{values[name]}` |" for name in values)]))
            for title, values in {"run": run.facts, "settings": run.settings}.items()
        ]
        with SummaryWriter(str(folder), filename_suffix=MARK) as writer:
            for record in [*hparams(plain, summary), *tables]:  # the row in the table of runs (HPARAMS), and text
                writer.file_writer.add_summary(record, 0, end)
            for name, value in summary.items():
                writer.add_scalar(name, value, 0, end)
            for name, curve in run.curves.items():
                for round, value in curve:
                    writer.add_scalar(name, value, round, run.time(curve, round))
        yield f"{'replaced' if earlier else 'written'}: {folder}"


def write_mlflow(runs: Iterable[TrackedRun], out: Path) -> Iterator[str]:
    """Add each run to the experiment `ol2r` of a SQLite store, a file that ends in .db; yield what was done.

    A run is identified by its id and the time of its end: the store keeps one that it has, and replaces one that was
    run again. Files of runs are not copied.
    """
    if out.suffix != ".db":
        raise ValueError(f"--out must be a file that ends in .db, got {out}")
    out.parent.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # nothing leaves the machine
    from mlflow.tracking import MlflowClient

    logging.getLogger("mlflow").setLevel(logging.WARNING)
    client = MlflowClient(f"sqlite:///{out.resolve()}")
    experiment = client.get_experiment_by_name(PROJECT)
    artifacts = out.resolve().with_suffix(".artifacts").as_uri()
    number = experiment.experiment_id if experiment else client.create_experiment(PROJECT, artifacts)
    for run in runs:
        earlier = client.search_runs([number], f"tags.`ol2r.run` = '{run.id}'")
        ended = [record.data.tags["ol2r.ended"] for record in earlier if record.info.status == "FINISHED"]
        if run.facts["ended"] in ended:
            yield f"there already: {run.name}"
            continue
        _record_in_mlflow(client, number, run)
        for record in earlier:
            client.delete_run(record.info.run_id)
        yield f"{'replaced' if earlier else 'written'}: {run.name}"


def _record_in_mlflow(client: Any, experiment: str, run: TrackedRun) -> None:
    from mlflow.entities import Metric, Param

    start, end = (int(1000 * time.timestamp()) for time in (run.started, run.ended))
    tags = {f"ol2r.{name}": value for name, value in run.facts.items()} | {"ol2r.path": str(run.path.resolve())}
    key = client.create_run(experiment, start_time=start, tags=tags, run_name=run.name).info.run_id
    parameters = [Param(name, str(value)[:_PARAMETER_LENGTH]) for name, value in run.settings.items()]
    for first in range(0, len(parameters), _PARAMETERS):
        client.log_batch(key, params=parameters[first : first + _PARAMETERS])
    metrics = [Metric(name, value, end, 0) for name, value in run.summary.items()]
    for name, curve in run.curves.items():
        metrics += [Metric(name, value, int(1000 * run.time(curve, round)), round) for round, value in curve]
    for first in range(0, len(metrics), _METRICS):
        client.log_batch(key, metrics=metrics[first : first + _METRICS])
    client.set_terminated(key, "FINISHED", end)


def write_wandb(runs: Iterable[TrackedRun], out: Path) -> Iterator[str]:
    """Write each run to `<out>/wandb/offline-run-<time>-<id>`, in place of what was there; yield what was done.

    It keeps its id, so that a run that is sent twice is one run. Nothing is sent.
    """
    import wandb

    out.mkdir(parents=True, exist_ok=True)
    try:
        for run in runs:
            earlier = list((out / "wandb").glob(f"offline-run-*-{run.id}"))
            for folder in earlier:  # first: within a second the new one gets the same name
                shutil.rmtree(folder)
            _record_in_wandb(wandb, run, out)
            yield f"{'replaced' if earlier else 'written'}: {run.name}"
    finally:
        wandb.teardown()  # waits for the process that writes, which may be behind after the end of a run


def _record_in_wandb(wandb: Any, run: TrackedRun, out: Path) -> None:
    settings = wandb.Settings(
        console="off",
        silent=True,
        disable_git=True,
        save_code=False,
        x_disable_stats=True,
        x_disable_meta=True,
        x_disable_machine_info=True,
    )
    record = wandb.init(
        mode="offline",
        dir=str(out),
        project=PROJECT,
        id=run.id,
        name=run.name,
        tags=[f"{group}={choice}"[:64] for group, choice in run.choices.items()],
        config={**run.settings, "ol2r": dict(run.facts)},
        settings=settings,
    )
    by_round: dict[int, dict[str, float]] = {}
    for name, curve in run.curves.items():
        for round, value in curve:
            by_round.setdefault(round, {})[name] = value
    for round in sorted(by_round):
        record.log(by_round[round], step=round)
    record.summary.update(dict(run.summary))
    record.finish()
