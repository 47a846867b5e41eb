"""Differences of two runs: choices, settings, data, environment, metrics, and the rounds in which they diverge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from ol2r_cli.config.catalogue import dotted
from ol2r_cli.config.overrides import as_typed
from ol2r_cli.report.estimates import Estimate, of_values
from ol2r_cli.report.finished_run import code_settings, default_settings, read_tables
from ol2r_cli.run.identity import NOT_HASHED
from ol2r_cli.run.run import EVALUATION, TRACE, Run, Table

if TYPE_CHECKING:
    import polars as pl

OBSERVED = ("query", "clicks", "online_ndcg")  # behaviour of user and ranker; other columns are internal state
TOLERANCE = 1e-6  # of real-valued measures: processors round differently
_ABSENT = "-"

Row = tuple[str, ...]  # what differs, as text in both runs, and whether it can affect results


def read(path: Path) -> Run:
    """The run in a directory, in any state; ValueError when its manifest or its settings are damaged."""
    run = Run.read(path)
    try:
        if run is None or not run.manifest:
            raise ValueError(run.error if run else "there is no run")
        dict(dotted(run.settings))  # read now, so that damage is reported here
        return run
    except (OSError, ValueError, AttributeError) as error:
        raise ValueError(f"RUN must be a run that can be read, got {path} ({' '.join(str(error).split())})") from None


def different_choices(first: Run, second: Run) -> list[Row]:
    """Groups with different choices."""
    return _different(first.choices, second.choices)


def different_settings(first: Run, second: Run) -> list[Row]:
    """Settings that differ or that only one run has, as typed, with a star where one is the default.

    Without the classes of different choices.
    """
    parts = {name.replace("/", ".") for name, *_ in different_choices(first, second)}
    settings = [dict(dotted(run.settings)) for run in (first, second)]
    texts = []
    for run, of_run in zip((first, second), settings, strict=True):
        defaults = default_settings(run.choices, of_run)
        starred = {name: "*" * (defaults.get(name, ...) == value) for name, value in of_run.items()}
        texts.append({name: as_typed(value) + starred[name] for name, value in of_run.items()})
    names = [
        name
        for name in texts[0] | texts[1]
        if name.removesuffix("._target_") not in parts and settings[0].get(name, ...) != settings[1].get(name, ...)
    ]
    same = first.fingerprint == second.fingerprint
    return [(name, *(of_run.get(name, _ABSENT) for of_run in texts), _note(name, same)) for name in names]


def _note(name: str, same: bool) -> str:
    parts = name.split(".")
    if parts[0] == "dataset":
        return "the data are the same" if same else ""
    if parts[0] in ("measure", "measures"):
        return "other columns"
    prefixes = {".".join(parts[:length]) for length in range(1, len(parts) + 1)}
    return "no effect on results" if prefixes & NOT_HASHED else ""


def different_environment(first: Run, second: Run) -> list[Row]:
    """Data, versions of results and packages, commit, device, engine, threads, host and code, where they differ."""
    codes = _different(code_settings(first.manifest), code_settings(second.manifest), "can change results")
    return _different(_environment(first.manifest), _environment(second.manifest)) + codes


def _environment(manifest: Mapping[str, Any]) -> dict[str, Any]:
    git = manifest.get("git")
    return {
        "dataset.fingerprint": manifest["dataset"]["fingerprint"][:12],
        "results_version": manifest["results_version"],
        **(manifest.get("versions") or {}),
        "commit": git and git["commit"][:12] + " and changes" * git["dirty"],
        **{name: manifest.get(name) for name in ("device", "engine", "threads", "host")},
    }


def _different(first: Mapping[str, Any], second: Mapping[str, Any], note: str = "") -> list[Row]:
    return [
        (name, *(_ABSENT if run.get(name) is None else str(run[name]) for run in (first, second)), note)
        for name in dict.fromkeys([*first, *second])
        if first.get(name) != second.get(name)
    ]


class MetricDifference(NamedTuple):
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
    metrics, others = _metrics(first), _metrics(second)
    compared = []
    for name in metrics | others:
        left, right = metrics.get(name, {}), others.get(name, {})
        common = left.keys() & right.keys()
        one, other = ([run[seed] for seed in run if seed in common or not common] for run in (left, right))
        difference = of_values({(None, seed): right[seed] - left[seed] for seed in common})
        means = (fmean(one) if one else None, fmean(other) if other else None)
        compared.append(MetricDifference(name, *means, difference))
    return compared


def _metrics(path: Path) -> dict[str, dict[int, float]]:
    """The values of each metric by seed, where it applies."""
    table = read_tables(path, lambda run: run.per_seed)
    columns = {name: zip(table["seed"], table[name], strict=True) for name in table.columns if name != "seed"}
    by_metric = {name: {s: value for s, value in column if value is not None} for name, column in columns.items()}
    return {name: values for name, values in by_metric.items() if values}


class Divergence(NamedTuple):
    """The first round in which the rows of a seed differ.

    values: those of the differing columns, in both runs. query: that of the first run; None for an evaluation.
    """

    seed: int
    round: int
    values: Mapping[str, tuple[Any, Any]]
    query: int | None = None


class RoundComparison(NamedTuple):
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
    left, right = (_read_table(path, TRACE) for path in (first, second))
    joined = left.join(right, on=TRACE.key, suffix=".second").sort("round", "seed")
    columns = [name for name in left.columns if name in right.columns and name not in TRACE.key]
    observed = _first_differences(joined, OBSERVED)
    diverged = {divergence.seed: divergence.round for divergence in observed}
    internal = _first_differences(joined, [name for name in columns if name not in OBSERVED])
    one, other = (_by_split(_read_table(path, EVALUATION)) for path in (first, second))
    measured = [name for name in one.columns if name in other.columns and name not in ("seed", "round")]
    evaluated = one.join(other, on=("seed", "round"), suffix=".second").sort("round", "seed")
    return RoundComparison(
        seeds=sorted(set(left["seed"]) & set(right["seed"])),
        rounds=int(joined["round"].max() or 0),  # type: ignore[arg-type]
        observed=observed,
        internal=[each for each in internal if each.round < diverged.get(each.seed, each.round + 1)],
        evaluation=_first_differences(evaluated, sorted(measured, key=lambda name: not name.endswith("_10"))),
        same_extent=left.select(TRACE.key).equals(right.select(TRACE.key)),
    )


def _read_table(path: Path, table: Table) -> pl.DataFrame:
    return read_tables(path, lambda run: run.table(table).sort(table.key))


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
    """For each seed the first row in which any of the columns differs: both runs have a value, and different ones.

    A measure that one run does not trace is no difference.
    """
    import polars as pl

    if not columns:
        return []
    differs = {}
    for name in columns:
        first, second = pl.col(name), pl.col(f"{name}.second")
        unequal = (first - second).abs() > TOLERANCE if joined.schema[name].is_float() else first != second
        differs[name] = unequal.fill_null(False)
    rows = joined.filter(pl.any_horizontal(differs.values())).unique("seed", keep="first", maintain_order=True)
    marked = rows.with_columns(each.alias(f"{name}.differs") for name, each in differs.items())
    return [
        Divergence(
            row["seed"],
            row["round"],
            {name: (row[name], row[f"{name}.second"]) for name in columns if row[f"{name}.differs"]},
            row.get("query"),
        )
        for row in marked.iter_rows(named=True)
    ]
