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

from collections.abc import Iterator
from itertools import chain
from typing import Any

import polars as pl

from ol2r_cli.columns import SPLITS, Column, main_cutoff
from ol2r_cli.run.identity import RESULTS_VERSION
from ol2r_cli.run.run import EVALUATION, TRACE, Run


def summarise(run: Run) -> dict[str, Any]:
    """Return the content of summary.json, from the tables on disk, which are sorted by seed and round."""
    columns = run.columns.trace
    trace = run.table(TRACE.with_columns(columns))
    values = trace.group_by("seed").agg(*chain.from_iterable(map(_summarised, columns.values())))
    for frame in _of_evaluation(run):
        values = values.join(frame, on="seed", how="full", coalesce=True)
    columns_of = values.sort("seed").to_dict()
    by_seed = {name: column for name, column in columns_of.items() if name == "seed" or column.count()}
    finals = {name: column.drop_nulls().cast(float) for name, column in by_seed.items() if name != "seed"}
    return {
        "results_version": RESULTS_VERSION,
        "seeds": len(by_seed["seed"]),
        "rounds": run.rounds,
        "metrics": {name: {"mean": of.mean(), "sd": of.std(), "n": len(of)} for name, of in finals.items()},
        "by_seed": {name: column.to_list() for name, column in by_seed.items()},
    }


def _of_evaluation(run: Run) -> Iterator[pl.DataFrame]:
    """Yield the metrics of the evaluation, a row per seed."""
    columns = run.columns.evaluation
    evaluation = run.table(EVALUATION.with_columns(columns)).with_columns(pl.col(*columns).cast(pl.Float64))
    for split in SPLITS:
        of_split = {f"{split}_{name}": pl.col(name) for name in columns if name != "cosine"}
        untrained = {f"{name}_untrained": of.filter(pl.col("round") == 0).last() for name, of in of_split.items()}
        last = {name: of.last() for name, of in of_split.items()}
        yield evaluation.filter(split=split).group_by("seed").agg(**last, **untrained)
    yield evaluation.group_by("seed").agg(pl.col("cosine").drop_nulls().last())
    ndcg = main_ndcg(evaluation)
    validation = evaluation.filter(pl.col("split") == "validation", pl.col(ndcg).is_not_null())
    best = validation.group_by("seed").agg(pl.col("round").sort_by(ndcg, descending=True, maintain_order=True).first())
    test = evaluation.filter(split="test").select("seed", "round", ndcg)
    yield best.join(test, on=["seed", "round"]).rename({"round": "best_round", ndcg: f"test_{ndcg}_best"})


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
