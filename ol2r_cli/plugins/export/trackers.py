"""Finished runs for experiment trackers: settings, summary and thinned curves to TensorBoard, MLflow, Weights & Biases.

`tracked_run` reads a run from its files; the `write_..` functions pass it on. Writing a run again replaces it.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from ol2r_cli.config.catalogue import dotted
from ol2r_cli.run.run import EVALUATION, TRACE, Run
from ol2r_cli.text.formatting import error_line

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

POINTS = 500  # of a curve, at most
PROJECT = "ol2r"  # the experiment of MLflow, and the project of Weights & Biases, that runs are written to
MARK = ".ol2r"  # at the end of the names of our event files
# of run.json
_FACTS = ("command", "seeds", "choices", "dataset", "git", "device", "versions", "results_version", "seconds", "ended")


Curve = list[tuple[int, float]]  # (round, value), with ascending rounds


@dataclass(frozen=True)
class TrackedRun:
    """One finished run.

    name: `<dataset>/<directory of the run>`. settings: by dotted name. facts: seeds, versions and the like of run.json,
    as text. summary: `<metric>` and, for several seeds, `<metric>_sd`, as in summary.json. curves: (round, value) with
    ascending rounds, means over seeds, of `trace/<column>` and `evaluation/<split>_<column>`.
    """

    run: Run
    name: str
    settings: Mapping[str, Any]
    facts: Mapping[str, str]
    summary: Mapping[str, float]
    curves: Mapping[str, Curve]
    started: datetime
    ended: datetime

    def time(self, round: int) -> float:
        """Return the time of a round, in seconds since the epoch, as if all rounds had taken equally long."""
        start = self.started.timestamp()
        return start + round * (self.ended.timestamp() - start) / self.run.rounds


def tracked_run(path: Path, points: int = POINTS) -> TrackedRun:
    """Return the run in a directory, with at most `points` points of each curve of the trace.

    Its rounds are cut into stretches of equal length, of which the last one may be shorter. A point stands at the last
    round of its stretch. It is the last value of a running total, such as cumulative NDCG, and the mean of another
    column. ValueError, which says what to type, when the run is not finished or damaged.
    """
    run = Run.read_finished(path)
    try:
        dataset = run.manifest["dataset"].get("name", "")
        for what, name in ("an id", run.id), ("a dataset name", dataset):  # which become parts of paths
            if not re.fullmatch(r"\w[\w.-]*", name):
                raise ValueError(f"run.json must have {what} of letters and digits, got {name!r}")
        facts = {"run": run.id, **dict(dotted({name: run.manifest[name] for name in _FACTS}))}
        return TrackedRun(
            run=run,
            name=f"{dataset}/{path.resolve().name}",
            settings={name: value for name, value in dotted(run.settings) if name.rpartition(".")[2] != "_target_"},
            facts={name: str(value) for name, value in facts.items()},
            summary=_summary(run),
            curves=dict(sorted(_curves(run, points).items())),
            started=datetime.fromisoformat(run.manifest["started"]),
            ended=datetime.fromisoformat(run.manifest["ended"]),
        )
    except (OSError, ValueError, LookupError) as error:
        raise ValueError(f"{path} is damaged ({error_line(error)}): type {run.command} force=true") from error


def _summary(run: Run) -> dict[str, float]:
    """Return the means of all metrics, and behind them the standard deviations of those with several values."""
    means = {name: metric["mean"] for name, metric in run.summary.items()}
    deviations = {f"{name}_sd": metric["sd"] for name, metric in run.summary.items() if metric["sd"] is not None}
    return means | deviations


def _curves(run: Run, points: int) -> dict[str, Curve]:
    """Return the curves of the trace, thinned, and those of the evaluations."""
    names = [name for name in run.columns.trace if name != "query"]
    curves = _means_by_round(_thinned_trace(run, names, points), names, "trace/")
    evaluation = run.table(EVALUATION.with_columns(run.columns.evaluation))
    for (split,), rows in evaluation.group_by("split"):
        curves |= _means_by_round(rows, list(run.columns.evaluation), f"evaluation/{split}_")
    return curves


def _thinned_trace(run: Run, names: Sequence[str], points: int) -> pl.DataFrame:
    """Return a row for each seed and stretch of rounds, at most `points` of them."""
    totals = [name for name in names if run.columns.trace[name].summary in ("last", "size")]
    stretch = (pl.col("round") - 1) // -(-run.rounds // points)
    values = [pl.col("round").max(), *(pl.col(name).drop_nulls().last() for name in totals)]
    values += [pl.col(name).cast(pl.Float64).mean() for name in names if name not in totals]
    trace = run.table(TRACE.with_columns(run.columns.trace)).sort("seed", "round")
    return trace.group_by("seed", stretch.alias("stretch")).agg(values)


def _means_by_round(rows: pl.DataFrame, names: Sequence[str], prefix: str) -> dict[str, Curve]:
    """Return the mean over seeds by round of each column that has values; prefix: of the curve's name."""
    means = rows.group_by("round").agg(pl.col(*names).cast(pl.Float64).mean()).sort("round")
    curves = {f"{prefix}{name}": list(means.select("round", name).drop_nulls().iter_rows()) for name in names}
    return {name: curve for name, curve in curves.items() if curve}


def write_tensorboard(runs: Iterable[TrackedRun], out: Path) -> Iterator[str]:
    """Write each run to `<out>/<its name>`, where it replaces our event file; yield what was done."""
    from torch.utils.tensorboard.summary import hparams
    from torch.utils.tensorboard.writer import SummaryWriter

    for run in runs:
        folder, end = out / run.name, run.ended.timestamp()
        earlier = list(folder.glob(f"events.*{MARK}"))
        for file in earlier:
            file.unlink()
        summary = {f"summary/{name}": value for name, value in run.summary.items()}
        plain = {name: value if isinstance(value, int | float) else str(value) for name, value in run.settings.items()}
        with SummaryWriter(str(folder), filename_suffix=MARK) as writer:
            for record in hparams(plain, summary):  # the row in the table of runs
                writer.file_writer.add_summary(record, 0, end)
            for title, values in {"run": run.facts, "settings": run.settings}.items():
                lines = [f"| {name} | `{value}` |" for name, value in values.items()]
                writer.add_text(title, "\n".join(["| | |", "|---|---|", *lines]), 0, end)
            for name, value in summary.items():
                writer.add_scalar(name, value, 0, end)
            for name, curve in run.curves.items():
                for round, value in curve:
                    writer.add_scalar(name, value, round, run.time(round))
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
        earlier = client.search_runs([number], f"tags.`ol2r.run` = '{run.run.id}'")
        ended = [record.data.tags["ol2r.ended"] for record in earlier if record.info.status == "FINISHED"]
        if run.facts["ended"] in ended:
            yield f"there already: {run.name}"
            continue
        _add_to_mlflow(run, client, number)
        for record in earlier:
            client.delete_run(record.info.run_id)
        yield f"{'replaced' if earlier else 'written'}: {run.name}"


def _add_to_mlflow(run: TrackedRun, client: MlflowClient, experiment: str) -> None:
    from mlflow.entities import Metric, Param

    start, end = (int(1000 * time.timestamp()) for time in (run.started, run.ended))
    tags = {f"ol2r.{name}": value for name, value in run.facts.items()} | {"ol2r.path": str(run.run.path.resolve())}
    key = client.create_run(experiment, start_time=start, tags=tags, run_name=run.name).info.run_id
    parameters = [Param(name, str(value)[:6000]) for name, value in run.settings.items()]
    metrics = [Metric(name, value, end, 0) for name, value in run.summary.items()]
    for name, curve in run.curves.items():
        metrics += [Metric(name, value, int(1000 * run.time(round)), round) for round, value in curve]
    for first in range(0, len(metrics), 1000):  # MLflow does not accept more in one call
        client.log_batch(key, metrics=metrics[first : first + 1000])
    for first in range(0, len(parameters), 100):
        client.log_batch(key, params=parameters[first : first + 100])
    client.set_terminated(key, "FINISHED", end)


def write_wandb(runs: Iterable[TrackedRun], out: Path) -> Iterator[str]:
    """Write each run to `<out>/wandb/offline-run-<time>-<id>`, in place of what was there; yield what was done.

    It keeps its id, so that a run that is sent twice is one run. Nothing is sent.
    """
    import wandb

    out.mkdir(parents=True, exist_ok=True)
    off = dict.fromkeys(("silent", "disable_git", "x_disable_stats", "x_disable_meta"), True)
    settings = wandb.Settings(console="off", save_code=False, x_disable_machine_info=True, **off)
    try:
        for run in runs:
            earlier = list((out / "wandb").glob(f"offline-run-*-{run.run.id}"))
            for folder in earlier:  # first: within a second the new one gets the same name
                shutil.rmtree(folder)
            record = wandb.init(
                mode="offline",
                dir=str(out),
                project=PROJECT,
                id=run.run.id,
                name=run.name,
                tags=[f"{group}={choice}"[:64] for group, choice in run.run.choices.items()],
                config={**run.settings, "ol2r": dict(run.facts)},
                settings=settings,
            )
            points = sorted((round, name, value) for name, curve in run.curves.items() for round, value in curve)
            for round, of_round in groupby(points, key=itemgetter(0)):
                record.log({name: value for _, name, value in of_round}, step=round)
            record.summary.update(dict(run.summary))
            record.finish()
            yield f"{'replaced' if earlier else 'written'}: {run.name}"
    finally:
        wandb.teardown()  # waits for the process that writes, which may be behind after the end of a run
