"""`summary.json`: final values of a run, each as mean, sd (divisor n - 1; null for one seed) and n over the seeds.

    {"results_version", "seeds": their number, "rounds": the last round, "metrics": {name: {"mean", "sd", "n"}},
     "by_seed": {"seed": [..], name: [..]}}    the values of each seed, null where a metric does not apply to it

The metrics per seed, without those that do not apply to the run:

    <split>_ndcg_<k>            test or validation NDCG@k of the deployable ranker after the last evaluated round
    <split>_ndcg_<k>_untrained  the same at round 0
    test_ndcg_10_best           test NDCG@10 at the round with the best validation NDCG@10 (the first such round); only
                                with a validation split, because a round chosen by the test split is biased upwards
    best_round                  that round
    cosine                      to the offline ranker after the last evaluated round
    online_ndcg                 mean NDCG of the shown lists; online_ndcg_last_tenth: of the last 10 per cent of rounds
    cumulative_ndcg             after the last round
    regret clicks pairs violations   sums over all rounds
    unfairness                  absolute value of the cumulative unfairness after the last round
    blocks block_size_1 block_size_5 block_size_10 certain_top10   means over the last 10 per cent of rounds
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ol2r_cli.config.overrides import split_search_path
from ol2r_cli.config.own_choices import as_options, choice_folders
from ol2r_cli.config.project_file import default_output_dir
from ol2r_cli.formatting import duration, plural, plus_minus
from ol2r_cli.run.directory import MANIFEST, SUMMARY, RunDirectory
from ol2r_cli.run.identity import RESULTS_VERSION
from ol2r_cli.run.tables import EVALUATION, TRACE

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
    """The values behind summary.json: a row per seed, a column per metric, null where the metric does not apply."""
    return _by_seed(TRACE.read(directory), EVALUATION.read(directory))


def _by_seed(trace: pl.DataFrame, evaluation: pl.DataFrame) -> pl.DataFrame:
    values = _from_trace(trace)
    for frame in _from_evaluation(evaluation):
        values = values.join(frame, on="seed", how="full", coalesce=True)
    return values.sort("seed")


def _over_seeds(values: pl.Series) -> dict[str, float | int | None]:
    values = values.drop_nulls().cast(float)
    return {"mean": values.mean(), "sd": values.std(), "n": len(values)}  # type: ignore[dict-item]


def _from_trace(trace: pl.DataFrame) -> pl.DataFrame:
    """One row per seed. A sum without values is null and not 0, because the measure does not apply."""
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
    """Frames with one row per seed, to be joined."""
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


def render_run(directory: RunDirectory, finished_before: bool = False) -> str:
    """The text that `ol2r run` prints for a finished run."""
    text = render(directory.read_json(SUMMARY), directory.read_json(MANIFEST), directory.path)
    return text + ("\n(done before: force=true runs it again)" if finished_before else "")


def render(summary: Mapping[str, Any], manifest: Mapping[str, Any], path: str | Path) -> str:
    """The summary of the run in the directory `path` as text, with the commands to type next."""
    metrics, choices, seeds = summary["metrics"], manifest["choices"], manifest["seeds"]
    model = f" ({choices['ranker/model']})" if "ranker/model" in choices else ""
    fairness = "" if choices.get("fairness", "none") == "none" else f", fairness {choices['fairness']}"
    which_seeds = f"{len(seeds)} seeds ({seeds[0]} to {seeds[-1]})" if len(seeds) > 1 else f"seed {seeds[0]}"
    lines = {
        "experiment": f"ranker {choices['ranker']}{model}{fairness}, click model {choices['click']}, dataset "
        f"{choices['dataset']}, {summary['rounds']:,} rounds, {which_seeds}",
        "test NDCG@10": _test_line(metrics, summary["rounds"]),
        "online NDCG": _online_line(metrics),
        "cumulative NDCG": _plus_minus(metrics.get("cumulative_ndcg"), 2),
        "unfairness": _plus_minus(metrics.get("unfairness"), 3),
        "time": _time_line(manifest),
        "files": str(path),
        "next": f"{_list(manifest)} (other users, rankers and datasets to try), {_status(Path(path))} (all runs)",
    }
    head = f"{manifest['status']}: run {manifest['id']}"
    if len(seeds) > 1:
        head += "; numbers are mean ± standard deviation over seeds"
    return "\n".join([head, *(f"  {name:<16} {line}" for name, line in lines.items() if line)])


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
    processor = f"{manifest['device']}, {plural(threads, 'thread')}"
    return duration(manifest["seconds"]) + (f" at {speed:,.0f} rounds/s" if speed else "") + f" ({processor})"
