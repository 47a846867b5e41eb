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
from collections.abc import Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

import polars as pl

from ol2r_cli.columns import SPLITS, Column, RunColumns, main_cutoff, ndcg_columns
from ol2r_cli.config.overrides import split_search_path
from ol2r_cli.config.own_choices import as_options, choice_folders, default_output_dir
from ol2r_cli.formatting import duration, plural, printable, unbroken, wrapped
from ol2r_cli.metrics.intervals import LEVEL, with_interval
from ol2r_cli.program import as_called
from ol2r_cli.run import SUMMARY
from ol2r_cli.run.identity import RESULTS_VERSION
from ol2r_cli.run.run import EVALUATION, TRACE, Run


def summarise(run: Run) -> dict[str, Any]:
    """Return the content of summary.json, from the tables on disk."""
    columns = run.columns
    summarised = chain.from_iterable(map(_summarised, columns.trace.values()))
    # The tables are sorted by seed and round.
    values = run.table(TRACE.with_columns(columns.trace)).group_by("seed").agg(*summarised)
    evaluation = run.table(EVALUATION.with_columns(columns.evaluation))
    evaluation = evaluation.with_columns(pl.col(*columns.evaluation).cast(pl.Float64))
    frames = []
    for split in SPLITS:
        of_split = {f"{split}_{name}": pl.col(name) for name in columns.evaluation if name != "cosine"}
        untrained = {f"{name}_untrained": of.filter(pl.col("round") == 0).last() for name, of in of_split.items()}
        last = {name: of.last() for name, of in of_split.items()}
        frames.append(evaluation.filter(split=split).group_by("seed").agg(**last, **untrained))
    frames.append(evaluation.group_by("seed").agg(pl.col("cosine").drop_nulls().last()))
    ndcg = main_ndcg(evaluation)
    validation = evaluation.filter(pl.col("split") == "validation", pl.col(ndcg).is_not_null())
    best = validation.group_by("seed").agg(pl.col("round").sort_by(ndcg, descending=True, maintain_order=True).first())
    test = evaluation.filter(split="test").select("seed", "round", ndcg)
    chosen = best.join(test, on=["seed", "round"])
    frames.append(chosen.rename({"round": "best_round", ndcg: f"test_{ndcg}_best"}))
    for frame in frames:
        values = values.join(frame, on="seed", how="full", coalesce=True)
    columns_of = values.sort("seed").to_dict()
    by_metric = {name: column for name, column in columns_of.items() if name == "seed" or column.count()}
    finals = {name: column.drop_nulls().cast(float) for name, column in by_metric.items() if name != "seed"}
    return {
        "results_version": RESULTS_VERSION,
        "seeds": len(by_metric["seed"]),
        "rounds": run.rounds,
        "metrics": {name: {"mean": of.mean(), "sd": of.std(), "n": len(of)} for name, of in finals.items()},
        "by_seed": {name: column.to_list() for name, column in by_metric.items()},
    }


def _summarised(column: Column) -> list[pl.Expr]:
    """Return what summary.json has of a column. A sum without values is null and not 0: the measure does not apply."""
    values, last = pl.col(column.name), pl.col(column.name).drop_nulls().last()
    mean = values.cast(pl.Float64).mean()
    last_tenth = values.cast(pl.Float64).filter(10 * pl.col("round") > 9 * pl.col("round").max()).mean()
    wide = values.cast(pl.Float64 if column.type.startswith("Float") else pl.Int64)
    total = pl.when(values.count() > 0).then(wide.sum())
    summaries: dict[str, list[pl.Expr]] = {"mean": [mean, last_tenth.name.suffix("_last_tenth")], "sum": [total]}
    return (summaries | {"last_tenth": [last_tenth], "last": [last], "size": [last.abs()]}).get(column.summary, [])


def main_ndcg(evaluation: pl.DataFrame) -> str:
    """Return the column of NDCG by which a round is chosen: that of `main_cutoff` among the columns with values."""
    return f"ndcg_{main_cutoff(name for name in evaluation.columns if evaluation[name].count())}"


def record(run: Run) -> dict[str, Any]:
    """Return a finished run for other programs: its path, the content of run.json, and the metrics of summary.json."""
    return {"path": str(run.path), **run.manifest, "metrics": run.summary}


def render(run: Run, finished_before: bool = False) -> str:
    """Return the text that `ol2r run` prints for a finished run: its summary, and the commands to type next."""
    manifest, metrics, choices, seeds = run.manifest, run.summary, run.choices, run.seeds

    def of(name: str, digits: int = 4, words: str = "{}") -> str:
        values = metrics.get(name)
        return words.format(with_interval(values, digits)) if values else ""

    model = f" ({choices['ranker/model']})" if "ranker/model" in choices else ""
    fairness = "" if choices.get("fairness", "none") == "none" else f", fairness {choices['fairness']}"
    which_seeds = f"{len(seeds)} seeds ({seeds[0]} to {seeds[-1]})" if len(seeds) > 1 else f"seed {seeds[0]}"
    online, cumulative, ndcg = ndcg_columns(main_cutoff(metrics))
    test = f"test_{ndcg.name}"
    words = [word.lstrip("+") for word in shlex.split(manifest["command"])]
    before = "at the start" if any(word.startswith(("start.run=", "start.labels=")) for word in words) else "untrained"
    is_typed = any(word.startswith("exploration=") for word in words)
    exploration = f", exploration {choices['exploration']}" if is_typed else ""
    lines = {
        "experiment": f"ranker {choices['ranker']}{model}{exploration}{fairness}, click model {choices['click']}, "
        f"dataset {choices['dataset']}, {run.rounds:,} rounds, {which_seeds}",
        "note": manifest.get("note", ""),
        f"test {ndcg.heading}": of(f"{test}_untrained", words=f"{{}} {before}, ")
        + of(test, words=f"{{}} after {run.rounds:,} rounds")
        + of(f"{test}_best", words="; {} at the best round by validation"),
        online.heading: of(online.name, words="{} of the lists shown")
        + of(f"{online.name}_last_tenth", words=", {} in the last tenth"),
        cumulative.heading: of(cumulative.name, 2),
        "unfairness": of("unfairness", 3) if shows_unfairness(manifest) else "",
    }
    declared = RunColumns.of(manifest).additional  # of measures
    for name, column in declared.evaluation.items():
        if f"test_{name}" != test:
            lines[f"test {column.heading}"] = of(f"test_{name}", column.digits)
    for name, column in declared.trace.items():
        if name not in (online.name, cumulative.name):
            lines[column.heading] = of(name, column.digits)
    speed, startup = manifest["rounds_per_second"], manifest.get("startup_seconds") or 0.0
    lines["time"] = duration(manifest["seconds"]) + (f" at {speed:,.0f} rounds/s" if speed else "")
    lines["time"] += f" ({manifest['device']}, {plural(manifest['threads'], 'thread')})"
    lines["time"] += f", {duration(startup)} to start" if startup > 10 else ""
    lines["files"] = str(run.path)
    head = f"{manifest['status']}: run {run.id}"
    if len(seeds) > 1:
        head += f"; numbers are means over seeds ± half the {LEVEL:.0%} interval of the mean"
    width = max(16, *(len(name) for name, line in lines.items() if line))
    texts = [head, *(f"  {name:<{width}} {line}" for name, line in lines.items() if line)]
    texts = [printable(text) for text in texts]
    for name, (command, effect) in zip(("next", ""), _next_commands(run), strict=True):
        texts.append(f"  {name:<{width}} {unbroken(printable(as_called(command)))} ({effect})")
    text = "\n".join(wrapped(text, width + 3) for text in texts)
    return text + ("\n(done before: force=true runs it again)" if finished_before else "")


def _next_commands(run: Run) -> list[tuple[str, str]]:
    """Return two commands to type after a run, each with what it shows: from the second run on a report.

    They name the folders that are not found without being named.
    """
    root = run.path.parents[1]
    folders = [str(root)]
    with suppress(ValueError):  # the project file is bad by now
        folders = [] if root == default_output_dir() else folders
    status = shlex.join(["ol2r", "status", *folders]), "all runs"
    finished = root.glob(f"*/*/{SUMMARY}")
    if any(path.parent != run.path for path in finished):
        return [(shlex.join(["ol2r", "report", *folders]), "these runs side by side"), status]
    own = list[Path]()
    with suppress(ValueError):  # a folder of choices was removed
        known = [folder.path for folder in choice_folders()]
        own = [path for path in split_search_path(shlex.split(run.command))[1] if path not in known]
    return [(shlex.join(["ol2r", "list", *as_options(own)]), "other users, rankers and datasets to try"), status]


def shows_unfairness(manifest: Mapping[str, Any]) -> bool:
    """Return whether the user chose a fairness, groups (which generated data has), exposure, or what is measured."""
    choices = manifest["choices"]
    if choices["dataset"] != "synthetic" or choices.get("fairness", "none") != "none":
        return True
    names = (word.lstrip("+").partition("=")[0] for word in shlex.split(manifest["command"]))
    return any(name.startswith(("dataset.group", "beta", "exposure", "measures")) for name in names)
