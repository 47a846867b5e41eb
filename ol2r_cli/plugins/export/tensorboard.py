"""Finished runs for TensorBoard: settings, summary and thinned curves. Writing a run again replaces it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl

from ol2r_cli.config.catalogue import dotted
from ol2r_cli.run.run import EVALUATION, TRACE, Run
from ol2r_cli.text.formatting import error_line

POINTS = 500  # of a curve, at most
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
        means = {name: metric["mean"] for name, metric in run.summary.items()}
        deviations = {f"{name}_sd": metric["sd"] for name, metric in run.summary.items() if metric["sd"] is not None}
        facts = {"run": run.id, **dict(dotted({name: run.manifest[name] for name in _FACTS}))}
        return TrackedRun(
            run=run,
            name=f"{dataset}/{path.resolve().name}",
            settings={name: value for name, value in dotted(run.settings) if name.rpartition(".")[2] != "_target_"},
            facts={name: str(value) for name, value in facts.items()},
            summary=means | deviations,
            curves=dict(sorted(_curves(run, points).items())),
            started=datetime.fromisoformat(run.manifest["started"]),
            ended=datetime.fromisoformat(run.manifest["ended"]),
        )
    except (OSError, ValueError, LookupError) as error:
        raise ValueError(f"{path} is damaged ({error_line(error)}): type {run.command} force=true") from error


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


def write(runs: Iterable[TrackedRun], out: Path) -> Iterator[str]:
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
