"""Differences of two runs: choices, settings, data, environment, metrics, and the rounds in which they diverge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from ol2r_cli.config.catalogue import dotted
from ol2r_cli.config.overrides import as_typed
from ol2r_cli.report.estimates import Estimate, of_values
from ol2r_cli.report.finished_run import code_settings, default_settings, tables_of
from ol2r_cli.run.identity import NOT_HASHED
from ol2r_cli.run.run import Run
from ol2r_cli.run.tables import EVALUATION, TRACE, Table

if TYPE_CHECKING:
    import polars as pl

OBSERVED = ("query", "clicks", "online_ndcg")  # behaviour of user and ranker; other columns are internal state
TOLERANCE = 1e-6  # of real-valued measures: processors round differently
_ABSENT = "-"


class RunDifference(NamedTuple):
    """A choice, setting or property in which two runs differ, as text. note: whether it can affect results."""

    name: str
    first: str
    second: str
    note: str = ""


@dataclass(frozen=True)
class DiffedRun:
    """One of the two runs, and its settings by dotted name."""

    run: Run
    settings: Mapping[str, Any]

    @property
    def manifest(self) -> Mapping[str, Any]:
        return self.run.manifest

    @cached_property
    def defaults(self) -> dict[str, Any]:
        """The defaults of the chosen files of ol2r, without those that depend on the machine."""
        return default_settings(self.run.choices, self.settings)

    def as_typed(self, name: str) -> str:
        """A setting as it is typed, with a star where it is the default."""
        if name not in self.settings:
            return _ABSENT
        value = self.settings[name]
        return as_typed(value) + "*" * (name in self.defaults and self.defaults[name] == value)


def read(path: Path) -> DiffedRun:
    """The run in a directory, in any state; ValueError when its manifest or its settings are damaged."""
    run = Run.read(path)
    try:
        if run is None or not run.manifest:
            raise ValueError(run.error if run else "there is no run")
        return DiffedRun(run, dict(dotted(run.settings)))
    except (OSError, ValueError, AttributeError) as error:
        raise ValueError(f"RUN must be a run that can be read, got {path} ({' '.join(str(error).split())})") from None


def different_choices(first: DiffedRun, second: DiffedRun) -> list[RunDifference]:
    """Groups with different choices."""
    return list(_different(first.manifest["choices"], second.manifest["choices"]))


def different_settings(first: DiffedRun, second: DiffedRun) -> list[RunDifference]:
    """Settings that differ or that only one run has; without the classes of different choices."""
    parts = {difference.name.replace("/", ".") for difference in different_choices(first, second)}
    names = dict.fromkeys([*first.settings, *second.settings])
    return [
        RunDifference(name, first.as_typed(name), second.as_typed(name), _note(name, same_data(first, second)))
        for name in names
        if name.removesuffix("._target_") not in parts
        and first.settings.get(name, ...) != second.settings.get(name, ...)
    ]


def same_data(first: DiffedRun, second: DiffedRun) -> bool:
    """Whether their datasets have the same fingerprint."""
    return first.manifest["dataset"]["fingerprint"] == second.manifest["dataset"]["fingerprint"]


def different_environment(first: DiffedRun, second: DiffedRun) -> list[RunDifference]:
    """Data, versions of results and packages, commit, device, engine, threads, host and code, where they differ."""
    codes = (code_settings(run.manifest) for run in (first, second))
    return [
        *_different(_environment(first.manifest), _environment(second.manifest)),
        *(each._replace(note="can change results") for each in _different(*codes)),
    ]


def _environment(manifest: Mapping[str, Any]) -> dict[str, Any]:
    git = manifest.get("git")
    return {
        "dataset.fingerprint": manifest["dataset"]["fingerprint"][:12],
        "results_version": manifest["results_version"],
        **(manifest.get("versions") or {}),
        "commit": git and git["commit"][:12] + " and changes" * git["dirty"],
        **{name: manifest.get(name) for name in ("device", "engine", "threads", "host")},
    }


def _different(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[RunDifference]:
    for name in dict.fromkeys([*first, *second]):
        if first.get(name) != second.get(name):
            texts = (_ABSENT if run.get(name) is None else str(run[name]) for run in (first, second))
            yield RunDifference(name, *texts)


def _note(name: str, same: bool) -> str:
    parts = name.split(".")
    if parts[0] == "dataset":
        return "the data are the same" if same else ""
    if parts[0] in ("measure", "measures"):
        return "other columns"
    prefixes = {".".join(parts[:length]) for length in range(1, len(parts) + 1)}
    return "no effect on results" if prefixes & NOT_HASHED else ""


@dataclass(frozen=True)
class MetricDifference:
    """A metric of summary.json in both runs, as means over the seeds for which both have it.

    difference: second minus first, paired by seed; None without a common seed, and then each mean is over the seeds of
    its run. A mean is None where the run lacks the metric.
    """

    metric: str
    first: float | None
    second: float | None
    difference: Estimate | None


def compare_metrics(first: Path, second: Path) -> list[MetricDifference]:
    """All metrics that one of the runs has. ValueError when their tables cannot be read."""
    left, right = _metrics(first), _metrics(second)
    return [_compare(name, left.get(name, {}), right.get(name, {})) for name in left | right]


def _compare(name: str, left: Mapping[int, float], right: Mapping[int, float]) -> MetricDifference:
    difference = of_values({(None, seed): right[seed] - left[seed] for seed in left if seed in right})
    common = left.keys() & right.keys() or left.keys() | right.keys()
    first, second = ([value for seed, value in run.items() if seed in common] for run in (left, right))
    return MetricDifference(name, fmean(first) if first else None, fmean(second) if second else None, difference)


def _metrics(path: Path) -> dict[str, dict[int, float]]:
    """The values of each metric by seed, where it applies."""
    with tables_of(path) as run:
        rows: list[dict[str, Any]] = run.per_seed.to_dicts()
    names = dict.fromkeys(name for row in rows for name, value in row.items() if value is not None and name != "seed")
    return {name: {row["seed"]: row[name] for row in rows if row[name] is not None} for name in names}


@dataclass(frozen=True)
class Divergence:
    """The first round in which the rows of a seed differ.

    values: those of the differing columns, in both runs. query: that of the first run; None for an evaluation.
    """

    seed: int
    round: int
    values: Mapping[str, tuple[Any, Any]]
    query: int | None = None


@dataclass(frozen=True)
class RoundComparison:
    """Two runs, round by round.

    seeds: those of both runs. rounds: the number of rounds of both. observed: for each seed the first difference in the
    columns `OBSERVED`, earliest first. internal: differences in other columns that come earlier or alone. evaluation:
    differences of offline evaluations. same_extent: whether both have the same seeds and rounds.
    """

    seeds: Sequence[int]
    rounds: int
    observed: Sequence[Divergence]
    internal: Sequence[Divergence]
    evaluation: Sequence[Divergence]
    same_extent: bool

    @property
    def differ(self) -> bool:
        """Whether the two runs have different results."""
        return bool(self.observed or self.internal or self.evaluation) or not self.same_extent


def compare_rounds(first: Path, second: Path) -> RoundComparison:
    """Compare the traces and evaluations of two runs. ValueError when one cannot be read."""
    left, right = _read_table(first, TRACE), _read_table(second, TRACE)
    joined = left.join(right, on=TRACE.key, suffix=".second").sort("round", "seed")
    columns = [name for name in left.columns if name in right.columns and name not in TRACE.key]
    observed = _first_differences(joined, OBSERVED)
    diverged = {divergence.seed: divergence.round for divergence in observed}
    internal = _first_differences(joined, [name for name in columns if name not in OBSERVED])
    return RoundComparison(
        seeds=sorted(set(left["seed"]) & set(right["seed"])),
        rounds=int(joined["round"].max() or 0),  # type: ignore[arg-type]
        observed=observed,
        internal=[each for each in internal if each.round < diverged.get(each.seed, each.round + 1)],
        evaluation=_compare_evaluations(first, second),
        same_extent=left.select(TRACE.key).equals(right.select(TRACE.key)),
    )


def _compare_evaluations(first: Path, second: Path) -> list[Divergence]:
    left, right = (_by_split(_read_table(path, EVALUATION)) for path in (first, second))
    columns = [name for name in left.columns if name in right.columns and name not in ("seed", "round")]
    joined = left.join(right, on=("seed", "round"), suffix=".second").sort("round", "seed")
    return _first_differences(joined, sorted(columns, key=lambda name: not name.endswith("_10")))


def _by_split(evaluation: pl.DataFrame) -> pl.DataFrame:
    """One row for each seed and round, with columns such as test_ndcg_10."""
    import polars as pl

    measured = [name for name in evaluation.columns if name not in EVALUATION.key]
    parts = [
        evaluation.filter(split=split).drop("split").rename({name: f"{split}_{name}" for name in measured})
        for split in evaluation["split"].unique().sort()
    ]
    return pl.concat(parts, how="align") if parts else evaluation.drop("split")


def _first_differences(joined: pl.DataFrame, columns: Sequence[str]) -> list[Divergence]:
    """For each seed the first row in which any of the columns differs."""
    import polars as pl

    if not columns:
        return []
    rows = joined.filter(pl.any_horizontal(_differs(joined, name) for name in columns))
    rows = rows.unique("seed", keep="first", maintain_order=True)
    marked = rows.with_columns(_differs(joined, name).alias(f"{name}.differs") for name in columns)
    return [
        Divergence(
            row["seed"],
            row["round"],
            {name: (row[name], row[f"{name}.second"]) for name in columns if row[f"{name}.differs"]},
            row.get("query"),
        )
        for row in marked.iter_rows(named=True)
    ]


def _differs(joined: pl.DataFrame, name: str) -> pl.Expr:
    """Whether both runs have a value, and different ones. A measure that one run does not trace is no difference."""
    import polars as pl

    first, second = pl.col(name), pl.col(f"{name}.second")
    unequal = (first - second).abs() > TOLERANCE if joined.schema[name].is_float() else first != second
    return unequal.fill_null(False)


def _read_table(path: Path, table: Table) -> pl.DataFrame:
    with tables_of(path) as run:
        return run.table(table).sort(table.key)
