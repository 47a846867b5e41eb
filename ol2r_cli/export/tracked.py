"""What a tracker of experiments is told of a finished run: settings, summary, and thinned curves, means over seeds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from ol2r_cli.catalogue import dotted
from ol2r_cli.results.directory import RunDirectory
from ol2r_cli.results.schema import EVALUATION, TRACE
from ol2r_cli.results.survey import read_state

if TYPE_CHECKING:
    import polars as pl

POINTS = 500  # of a curve, at most
_RUNNING_TOTALS = ("cumulative_ndcg", "unfairness")  # of other measures a point is the mean since the last one

Curve = list[tuple[int, float]]  # (round, value), rounds ascending


@dataclass(frozen=True)
class Tracked:
    """One finished run.

    name: its directory below its dataset's, `mq2008/pairrank-informational-0123456789`. settings: by dotted name, as
    plain values. facts: choices, seeds, versions and the like, as text. summary: `<metric>` and, for several seeds,
    `<metric>_sd`, as summary.json has them. curves: `trace/<column>` and `evaluation/<split>_<column>`.
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


def tracked(path: Path, points: int = POINTS) -> Tracked:
    """The run in a directory; ValueError, which says what to type, when it is not finished or damaged."""
    state = read_state(path)
    if state is None or state.state != "finished":
        is_ = f"which is {state.state}" if state else "in which there is no run"
        raise ValueError(f"RUN must be a finished run, got {path}, {is_}: see `ol2r status`")
    manifest, directory = state.manifest, RunDirectory(path)
    from polars.exceptions import PolarsError

    try:
        content = yaml.safe_load((path / "config.yaml").read_text())
        return Tracked(
            path=path,
            id=manifest["id"],
            name=f"{manifest['dataset']['name']}/{path.resolve().name}",
            choices=manifest["choices"],
            settings={name: value for name, value in dotted(content) if name.rpartition(".")[2] != "_target_"},
            facts=_facts(manifest),
            summary=_summary(directory.read_json("summary.json")["metrics"]),
            curves=curves(directory, points),
            started=datetime.fromisoformat(manifest["started"]),
            ended=datetime.fromisoformat(manifest["ended"]),
        )
    except (OSError, ValueError, LookupError, TypeError, AttributeError, yaml.YAMLError, PolarsError) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ValueError(f"{path} is damaged ({reason}): type {manifest.get('command')} force=true") from error


def _facts(manifest: Mapping[str, Any]) -> dict[str, str]:
    git = manifest["git"] or {}
    facts = {
        "run": manifest["id"],
        "command": manifest["command"],
        "seeds": " ".join(map(str, manifest["seeds"])),
        "dataset_fingerprint": manifest["dataset"]["fingerprint"],
        "commit": f"{git['commit']}{' and changes' * git['dirty']}" if git else "",
        "device": manifest["device"],
        "seconds": str(manifest["seconds"]),
        "results_version": str(manifest["results_version"]),
        "ended": manifest["ended"],
    }
    facts |= {f"version_{name}": str(version) for name, version in manifest["versions"].items()}
    return facts | {f"choice_{group}": choice for group, choice in manifest["choices"].items()}


def _summary(metrics: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    means = {name: float(values["mean"]) for name, values in metrics.items()}
    spreads = {f"{name}_sd": float(values["sd"]) for name, values in metrics.items() if values["sd"] is not None}
    return means | spreads


def curves(directory: RunDirectory, points: int) -> dict[str, Curve]:
    """The curves of a run, of at most `points` points; columns that are null throughout are left out.

    A point stands at the last round of a stretch of rounds, all as long as each other but for the last one.
    """
    import polars as pl

    trace, evaluation = TRACE.read(directory), EVALUATION.read(directory)
    found: dict[str, Curve] = {}
    names = [name for name in TRACE.measures if name != "query"]
    length = -(-int(trace["round"].max() or 1) // points)  # type: ignore[arg-type]
    stretch = (pl.col("round") - 1) // length
    per_seed = (
        trace.sort("seed", "round")
        .group_by("seed", stretch.alias("stretch"))
        .agg(
            pl.col("round").max(),
            *(
                pl.col(name).drop_nulls().last() if name in _RUNNING_TOTALS else pl.col(name).cast(pl.Float64).mean()
                for name in names
            ),
        )
    )
    found |= _lines(per_seed, names, "trace/")
    for (split,), rows in evaluation.group_by("split"):
        found |= _lines(rows, EVALUATION.measures, f"evaluation/{split}_")
    return dict(sorted(found.items()))


def _lines(rows: pl.DataFrame, names: Any, prefix: str) -> dict[str, Curve]:
    """A curve for each column that has values, the mean over the rows of a round."""
    import polars as pl

    means = rows.group_by("round").agg(pl.col(*names).cast(pl.Float64).mean()).sort("round")
    columns = {name: means.select("round", name).drop_nulls() for name in names}
    return {f"{prefix}{name}": list(column.iter_rows()) for name, column in columns.items() if len(column)}
