"""`summary.json`: final values of a run, each as mean, sd (divisor n - 1; null for one seed) and n over the seeds.

    {"results_version", "seeds": their number, "rounds": the last round, "metrics": {name: {"mean", "sd", "n"}},
     "by_seed": {"seed": [..], name: [..]}}    the values of each seed, null where a metric does not apply to it

The metrics per seed, without those that do not apply to the run:

    <split>_<column>            of each column of evaluation.parquet the test or validation value of the deployable
                                ranker after the last evaluated round, such as test_ndcg_10
    <split>_<column>_untrained  the same at round 0
    test_ndcg_10_best           test NDCG@10 at the round with the best validation NDCG@10 (the first such round); only
                                with a validation split, because a round chosen by the test split is biased upwards;
                                without NDCG@10 that at the largest cutoff, such as test_ndcg_20_best
    best_round                  that round
    cosine                      to the offline ranker after the last evaluated round
    <column>                    of each column of trace.parquet what its `summary` says (`ol2r_cli/columns.py`)
"""

from __future__ import annotations

import shlex
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ol2r_cli.columns import SPLITS, Column, RunColumns, main_cutoff, ndcg_columns
from ol2r_cli.config.overrides import split_search_path
from ol2r_cli.config.own_choices import as_options, choice_folders, default_output_dir
from ol2r_cli.formatting import duration, plural, plus_minus, printable, wrapped
from ol2r_cli.run.identity import RESULTS_VERSION
from ol2r_cli.run.tables import EVALUATION, TRACE

if TYPE_CHECKING:
    import polars as pl

    from ol2r_cli.run.run import Run


def summarise(run: Run) -> dict[str, Any]:
    """The content of summary.json, from the tables on disk."""
    values = by_seed(run)
    metrics = {name: _over_seeds(values[name]) for name in values.columns if name != "seed"}
    return {
        "results_version": RESULTS_VERSION,
        "seeds": len(values),
        "rounds": run.rounds,
        "metrics": {name: over_seeds for name, over_seeds in metrics.items() if over_seeds["n"]},
        "by_seed": {name: values[name].to_list() for name in values.columns if name == "seed" or metrics[name]["n"]},
    }


def by_seed(run: Run) -> pl.DataFrame:
    """The values behind summary.json: a row per seed, a column per metric, null where the metric does not apply."""
    columns, trace = run.columns, TRACE.with_columns(run.columns.trace)
    summarised = (value for column in columns.trace.values() for value in _summarised(column))
    values = run.table(trace).group_by("seed").agg(*summarised)  # the trace is sorted by seed and round
    evaluation = run.table(EVALUATION.with_columns(columns.evaluation))
    for frame in _from_evaluation(evaluation, list(columns.evaluation)):
        values = values.join(frame, on="seed", how="full", coalesce=True)
    return values.sort("seed")


def _over_seeds(values: pl.Series) -> dict[str, float | int | None]:
    values = values.drop_nulls().cast(float)
    return {"mean": values.mean(), "sd": values.std(), "n": len(values)}  # type: ignore[dict-item]


def _summarised(column: Column) -> Iterator[pl.Expr]:
    """What summary.json has of a column. A sum without values is null and not 0: the measure does not apply."""
    import polars as pl

    values, summary = pl.col(column.name), column.summary
    settled = 10 * pl.col("round") > 9 * pl.col("round").max()
    if summary == "mean":
        yield values.cast(pl.Float64).mean()
        yield values.cast(pl.Float64).filter(settled).mean().name.suffix("_last_tenth")
    elif summary == "sum":
        wide = values.cast(pl.Float64 if column.type.startswith("Float") else pl.Int64)
        yield pl.when(values.count() > 0).then(wide.sum())
    elif summary == "last":
        yield values.drop_nulls().last()
    elif summary == "size":
        yield values.drop_nulls().last().abs()
    elif summary == "last_tenth":
        yield values.cast(pl.Float64).filter(settled).mean()


def _from_evaluation(evaluation: pl.DataFrame, columns: Sequence[str]) -> list[pl.DataFrame]:
    """Frames with one row per seed, to be joined."""
    import polars as pl

    by_split = [name for name in columns if name != "cosine"]
    evaluation = evaluation.sort("seed", "round").with_columns(pl.col(*columns).cast(pl.Float64))
    frames = []
    for split in SPLITS:
        rows = evaluation.filter(split=split)
        untrained = [pl.col(name).filter(pl.col("round") == 0).last().name.suffix("_untrained") for name in by_split]
        values = rows.group_by("seed").agg(*(pl.col(name).last() for name in by_split), *untrained)
        frames.append(values.rename({name: f"{split}_{name}" for name in values.columns if name != "seed"}))
    frames.append(evaluation.group_by("seed").agg(pl.col("cosine").drop_nulls().last()))
    ndcg = main_ndcg(evaluation)
    validation = evaluation.filter(pl.col("split") == "validation", pl.col(ndcg).is_not_null())
    best = validation.group_by("seed").agg(pl.col("round").sort_by(ndcg, descending=True, maintain_order=True).first())
    test = evaluation.filter(split="test").select("seed", "round", ndcg)
    chosen = best.join(test, on=["seed", "round"])
    frames.append(chosen.rename({"round": "best_round", ndcg: f"test_{ndcg}_best"}))
    return frames


def main_ndcg(evaluation: pl.DataFrame) -> str:
    """The column of NDCG by which a round is chosen: that of `main_cutoff` among the columns with values."""
    return f"ndcg_{main_cutoff(name for name in evaluation.columns if evaluation[name].count())}"


def record(run: Run) -> dict[str, Any]:
    """A finished run for other programs: its path, the content of run.json, and the metrics of summary.json."""
    return {"path": str(run.path), **run.manifest, "metrics": run.summary}


def render(run: Run, finished_before: bool = False) -> str:
    """The text that `ol2r run` prints for a finished run: its summary, and the commands to type next."""
    manifest = run.manifest
    metrics, choices, seeds, rounds = run.summary, run.choices, run.seeds, run.rounds
    model = f" ({choices['ranker/model']})" if "ranker/model" in choices else ""
    fairness = "" if choices.get("fairness", "none") == "none" else f", fairness {choices['fairness']}"
    which_seeds = f"{len(seeds)} seeds ({seeds[0]} to {seeds[-1]})" if len(seeds) > 1 else f"seed {seeds[0]}"
    online, cumulative, ndcg = ndcg_columns(main_cutoff(metrics))
    lines = {
        "experiment": f"ranker {choices['ranker']}{model}{fairness}, click model {choices['click']}, dataset "
        f"{choices['dataset']}, {rounds:,} rounds, {which_seeds}",
        "note": manifest.get("note", ""),
        f"test {ndcg.heading}": _test_line(metrics, f"test_{ndcg.name}", rounds),
        online.heading: _online_line(metrics, online.name),
        cumulative.heading: _plus_minus(metrics.get(cumulative.name), 2),
        "unfairness": _plus_minus(metrics.get("unfairness"), 3) if shows_unfairness(manifest) else "",
        **_declared_lines(metrics, manifest, {online.name, cumulative.name, f"test_{ndcg.name}"}),
        "time": _time_line(manifest),
        "files": str(run.path),
        "next": f"{_list(manifest)} (other users, rankers and datasets to try), {_status(run.path)} (all runs)",
    }
    head = f"{manifest['status']}: run {run.id}"
    if len(seeds) > 1:
        head += "; numbers are mean ± standard deviation over seeds"
    width = max(16, *(len(name) for name, line in lines.items() if line))
    texts = [head, *(f"  {name:<{width}} {line}" for name, line in lines.items() if line)]
    text = "\n".join(wrapped(printable(text), width + 3) for text in texts)
    return text + ("\n(done before: force=true runs it again)" if finished_before else "")


def shows_unfairness(manifest: Mapping[str, Any]) -> bool:
    """Whether the user chose a fairness, groups (which generated data has), exposure, or what is measured."""
    choices = manifest["choices"]
    if choices["dataset"] != "synthetic" or choices.get("fairness", "none") != "none":
        return True
    names = (word.lstrip("+").partition("=")[0] for word in shlex.split(manifest["command"]))
    return any(name.startswith(("dataset.group", "beta", "exposure", "measures")) for name in names)


def _declared_lines(metrics: Mapping[str, Any], manifest: Mapping[str, Any], shown: Container[str]) -> dict[str, str]:
    """A line for each column that a measure has declared: of the evaluation on test queries, and of the rounds; without
    those of the metrics that are `shown`."""
    others = RunColumns.of(manifest).additional
    evaluated = {f"test_{name}": column for name, column in others.evaluation.items()}
    return {
        f"test {column.heading}" if name in evaluated else column.heading: _plus_minus(metrics[name], column.digits)
        for name, column in {**evaluated, **others.trace}.items()
        if name in metrics and name not in shown
    }


def _list(manifest: Mapping[str, Any]) -> str:
    """The command that lists all choices, with the folders of own ones that are not found without being typed."""
    named: list[Path] = []
    with suppress(ValueError):  # a folder was removed in the meantime
        found = [folder.path for folder in choice_folders()]
        named = [folder for folder in split_search_path(shlex.split(manifest["command"]))[1] if folder not in found]
    return shlex.join(["ol2r", "list", *as_options(named)])


def _status(path: Path) -> str:
    """The command that lists the runs of the output folder that contains this run."""
    folder = path.parent.parent
    with suppress(ValueError):  # the project file has become bad in the meantime
        if folder == default_output_dir():
            return "ol2r status"
    return f"ol2r status {shlex.quote(str(folder))}"


def _plus_minus(values: Mapping[str, Any] | None, digits: int = 4) -> str:
    return "" if values is None else plus_minus(values["mean"], values["sd"], digits)


def _test_line(metrics: Mapping[str, Any], name: str, rounds: int) -> str:
    if name not in metrics:
        return ""
    line = f"{_plus_minus(metrics[name])} after {rounds:,} rounds"
    if f"{name}_untrained" in metrics:
        line = f"{_plus_minus(metrics[f'{name}_untrained'])} untrained, {line}"
    if f"{name}_best" in metrics:
        line += f"; {_plus_minus(metrics[f'{name}_best'])} at the best round by validation"
    return line


def _online_line(metrics: Mapping[str, Any], name: str) -> str:
    if name not in metrics:
        return ""
    last = metrics.get(f"{name}_last_tenth")
    end = f", {_plus_minus(last)} in the last tenth" if last else ""
    return f"{_plus_minus(metrics[name])} of the lists shown{end}"


def _time_line(manifest: Mapping[str, Any]) -> str:
    speed, threads = manifest["rounds_per_second"], manifest["threads"]
    processor = f"{manifest['device']}, {plural(threads, 'thread')}"
    startup = manifest.get("startup_seconds") or 0.0
    before = f", {duration(startup)} to start" if startup > 10 else ""
    return duration(manifest["seconds"]) + (f" at {speed:,.0f} rounds/s" if speed else "") + f" ({processor}){before}"
