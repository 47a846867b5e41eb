"""`summary.json`: one run in numbers, each as mean, sd (n - 1; null for one seed) and n over the seeds.

    {"results_version", "seeds": how many, "rounds": the last one, "metrics": {name: {"mean", "sd", "n"}},
     "by_seed": {"seed": [..], name: [..]}}    the values themselves, null where a metric does not apply to a seed

Metrics, per seed; those that do not apply to the run are absent:

    <split>_ndcg_<k>            test or validation NDCG@k of the deployable ranker after the last evaluated round
    <split>_ndcg_<k>_untrained  the same at round 0
    test_ndcg_10_best           test NDCG@10 at the round with the best validation NDCG@10 (the first such round); only
                                with a validation split, since choosing the round by the test split would flatter
    best_round                  that round
    cosine                      to the offline ranker after the last evaluated round
    online_ndcg                 mean NDCG of the shown lists; online_ndcg_last_tenth: of the last 10 per cent of rounds
    cumulative_ndcg             after the last round
    regret clicks pairs violations   sums over all rounds
    unfairness                  size (without sign) of the cumulative unfairness after the last round
    blocks block_size_1 block_size_5 block_size_10 certain_top10   means over the last 10 per cent of rounds
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ol2r_cli.results.directory import RunDirectory
from ol2r_cli.results.identity import RESULTS_VERSION
from ol2r_cli.results.manifest import duration
from ol2r_cli.results.schema import EVALUATION, TRACE

if TYPE_CHECKING:
    import polars as pl

_SUMS = ("regret", "clicks", "pairs", "violations")
_SETTLED = ("blocks", "block_size_1", "block_size_5", "block_size_10", "certain_top10")
_CUTOFFS = ("ndcg_1", "ndcg_3", "ndcg_5", "ndcg_10")


def summarise(directory: RunDirectory) -> dict[str, Any]:
    """The content of summary.json, from the tables on disk."""
    trace = TRACE.read(directory)
    values = _by_seed(trace, EVALUATION.read(directory))
    metrics = {name: _over_seeds(values[name]) for name in values.columns if name != "seed"}
    return {
        "results_version": RESULTS_VERSION,
        "seeds": trace["seed"].n_unique(),
        "rounds": trace["round"].max() or 0,
        "metrics": {name: over_seeds for name, over_seeds in metrics.items() if over_seeds["n"]},
        "by_seed": {name: values[name].to_list() for name in values.columns if name == "seed" or metrics[name]["n"]},
    }


def by_seed(directory: RunDirectory) -> pl.DataFrame:
    """The values behind summary.json: one row per seed, a column per metric, null where it does not apply."""
    return _by_seed(TRACE.read(directory), EVALUATION.read(directory))


def _by_seed(trace: pl.DataFrame, evaluation: pl.DataFrame) -> pl.DataFrame:
    values = _from_trace(trace)
    for frame in _from_evaluation(evaluation):
        values = values.join(frame, on="seed", how="full", coalesce=True)
    return values.sort("seed")


def _over_seeds(values: pl.Series) -> dict[str, float | int | None]:
    values = values.drop_nulls().cast(float)
    sd = values.std(ddof=1) if len(values) > 1 else None
    return {"mean": values.mean(), "sd": sd, "n": len(values)}  # type: ignore[dict-item]


def _from_trace(trace: pl.DataFrame) -> pl.DataFrame:
    """One row per seed. Sums of nothing are null, not 0: the measure did not apply."""
    import polars as pl

    settled = 10 * pl.col("round") > 9 * pl.col("round").max()
    return (
        trace.sort("seed", "round")
        .group_by("seed")
        .agg(
            pl.col("online_ndcg").cast(pl.Float64).mean(),
            pl.col("online_ndcg").cast(pl.Float64).filter(settled).mean().alias("online_ndcg_last_tenth"),
            pl.col("cumulative_ndcg").drop_nulls().last(),
            *(pl.when(pl.col(name).count() > 0).then(pl.col(name).cast(pl.Int64).sum()) for name in _SUMS),
            pl.col("unfairness").drop_nulls().last().abs(),
            *(pl.col(name).cast(pl.Float64).filter(settled).mean() for name in _SETTLED),
        )
    )


def _from_evaluation(evaluation: pl.DataFrame) -> list[pl.DataFrame]:
    """Frames with one row per seed."""
    import polars as pl

    evaluation = evaluation.sort("seed", "round").with_columns(pl.col(*_CUTOFFS, "cosine").cast(pl.Float64))
    frames = []
    for split in ("test", "validation"):
        rows = evaluation.filter(split=split)
        untrained = [pl.col(name).filter(pl.col("round") == 0).last().name.suffix("_untrained") for name in _CUTOFFS]
        ndcg = rows.group_by("seed").agg(*(pl.col(name).last() for name in _CUTOFFS), *untrained)
        frames.append(ndcg.rename({name: f"{split}_{name}" for name in ndcg.columns if name != "seed"}))
    frames.append(evaluation.group_by("seed").agg(pl.col("cosine").drop_nulls().last()))
    validation = evaluation.filter(pl.col("split") == "validation", pl.col("ndcg_10").is_not_null())
    best = validation.group_by("seed").agg(
        pl.col("round").sort_by("ndcg_10", descending=True, maintain_order=True).first()
    )
    test = evaluation.filter(split="test").select("seed", "round", "ndcg_10")
    chosen = best.join(test, on=["seed", "round"])
    frames.append(chosen.rename({"round": "best_round", "ndcg_10": "test_ndcg_10_best"}))
    return frames


def render(summary: Mapping[str, Any], manifest: Mapping[str, Any], path: str | Path) -> str:
    """The summary of the run in `path` as lines of text for somebody who sees the tool for the first time."""
    metrics, choices, seeds = summary["metrics"], manifest["choices"], manifest["seeds"]
    model = f" ({choices['ranker/model']})" if "ranker/model" in choices else ""
    fairness = "" if choices.get("fairness", "none") == "none" else f", fairness {choices['fairness']}"
    several = f"{len(seeds)} seeds ({seeds[0]} to {seeds[-1]})" if len(seeds) > 1 else f"seed {seeds[0]}"
    lines = {
        "experiment": f"ranker {choices['ranker']}{model}{fairness}, click model {choices['click']}, dataset "
        f"{choices['dataset']}, {summary['rounds']:,} rounds, {several}",
        "test NDCG@10": _test_line(metrics, summary["rounds"]),
        "online NDCG": _online_line(metrics),
        "cumulative NDCG": _plus_minus(metrics.get("cumulative_ndcg"), 2),
        "unfairness": _plus_minus(metrics.get("unfairness"), 3),
        "time": _time_line(manifest),
        "files": str(path),
        "next": f"ol2r list (other users, rankers and datasets to try), {_status(Path(path))} (all runs)",
    }
    head = f"{manifest['status']}: run {manifest['id']}"
    if len(seeds) > 1:
        head += "; numbers are mean ± standard deviation over seeds"
    return "\n".join([head, *(f"  {name:<16} {line}" for name, line in lines.items() if line)])


def _status(path: Path) -> str:
    """What shows the runs of the output folder that this one is in: without an argument it looks below outputs."""
    folder = path.parent.parent
    return "ol2r status" if folder == Path("outputs") else f"ol2r status {shlex.quote(str(folder))}"


def _plus_minus(values: Mapping[str, Any] | None, digits: int = 4) -> str:
    if values is None:
        return ""
    spread = "" if values["sd"] is None else f" ± {values['sd']:.{digits}f}"
    return f"{values['mean']:.{digits}f}{spread}"


def _test_line(metrics: Mapping[str, Any], rounds: int) -> str:
    if "test_ndcg_10" not in metrics:
        return ""
    line = f"{_plus_minus(metrics['test_ndcg_10'])} after {rounds:,} rounds"
    if "test_ndcg_10_untrained" in metrics:
        line = f"{_plus_minus(metrics['test_ndcg_10_untrained'])} untrained, {line}"
    if "test_ndcg_10_best" in metrics:
        line += f"; {_plus_minus(metrics['test_ndcg_10_best'])} at the best round by validation"
    return line


def _online_line(metrics: Mapping[str, Any]) -> str:
    if "online_ndcg" not in metrics:
        return ""
    last = metrics.get("online_ndcg_last_tenth")
    end = f", {_plus_minus(last)} in the last tenth" if last else ""
    return f"{_plus_minus(metrics['online_ndcg'])} of the lists shown{end}"


def _time_line(manifest: Mapping[str, Any]) -> str:
    speed = manifest["rounds_per_second"]
    threads = manifest["threads"]
    place = f"{manifest['device']}, {threads} thread{'' if threads == 1 else 's'}"
    return duration(manifest["seconds"]) + (f" at {speed:,.0f} rounds/s" if speed else "") + f" ({place})"
