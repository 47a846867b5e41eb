"""Recomputes what can be recomputed of a finished run from its own files, and compares it with what they say."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ol2r_cli.columns import ndcg_columns
from ol2r_cli.metrics.ranking import dcg, gains, ideal_lists
from ol2r_cli.run import INTERACTIONS, SUMMARY
from ol2r_cli.run.identity import RESULTS_VERSION
from ol2r_cli.run.run import Run, damaged_files
from ol2r_cli.run.summary import summarise
from ol2r_cli.run.tables import EVALUATION, TRACE
from ol2r_cli.run.trained_ranker import dataset_settings, dataset_source

if TYPE_CHECKING:
    import polars as pl

_ODD_VALUES = OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError  # of an edited run
TOLERANCE = 1e-6  # of online NDCG, which is stored in single precision, and of cumulative NDCG per round


def differences(run: Run, notes: list[str] | None = None) -> Iterator[str]:
    """What is wrong with a finished run, each in a few words; nothing if it is intact.

    Looked at: sizes and hashes of files, rounds and seeds of the tables, cumulative NDCG against online NDCG, clicks
    and online NDCG against the saved interactions, and the summary against the tables. Online NDCG needs the labels of
    the data; where they are not found, a line is added to `notes`.
    """
    import polars as pl

    wrong = list(damaged_files(run.path, run.manifest["files"]))
    yield from wrong
    try:
        yield from _trace(run)
        if len(run.interactions):
            yield from _interactions(run, [] if notes is None else notes)
        yield from _evaluations(run.evaluation, run.rounds, run.seeds)
        yield from _summary(run)
    except (*_ODD_VALUES, pl.exceptions.PolarsError) as error:
        if not wrong:  # otherwise the damage has been named
            yield f"cannot be read ({str(error).splitlines()[0]})"


def _trace(run: Run) -> Iterator[str]:
    """Whether the trace has each round of each seed once, and whether cumulative NDCG is the discounted sum of online
    NDCG, where queries that are skipped count 0."""
    import polars as pl

    trace, number, seeds = run.trace, pl.col("round"), sorted(run.seeds)
    found = trace.group_by("seed").agg(number.len().alias("rows"), number.min(), number.max().alias("last"))
    unique = not trace.select(pl.struct("seed", "round").is_duplicated().any()).item()
    if not unique or sorted(found.rows()) != [(seed, run.rounds, 1, run.rounds) for seed in seeds]:
        yield f"{TRACE.file} has {len(trace):,} rows, which are not rounds 1 to {run.rounds:,} of seeds {seeds}"
    for cutoff, discount in _ndcg_discounts(run.settings).items():
        online, cumulative = (column.name for column in ndcg_columns(cutoff)[:2])
        steps = pl.col(online).cast(pl.Float64).fill_null(0) * discount ** (number - 1)
        error = (steps.cum_sum().over("seed") - pl.col(cumulative)).abs() / number
        largest = trace.select(error.max()).item()
        if largest is None or largest > TOLERANCE:
            yield f"{TRACE.file}: {cumulative} is not the discounted sum of {online}"


def _ndcg_discounts(settings: Mapping[str, Any]) -> dict[int, float]:
    """The discount of cumulative NDCG at each cutoff that a run has measured."""
    of_ndcg = [node for name, node in settings["measure"].items() if name.partition("@")[0] == "ndcg"]
    return {node["cutoff"]: node["discount"] for node in of_ndcg}


def _interactions(run: Run, notes: list[str]) -> Iterator[str]:
    """Whether saved interactions have the queries and the numbers of clicks of the trace, and whether online NDCG is
    that of their documents, by the labels of the run's data."""
    import polars as pl

    trace, columns = run.trace, ["seed", "round", "query", "clicks"]
    rounds = run.interactions.group_by("seed", "round").agg(pl.col("query").first(), clicks=pl.col("click").sum())
    if rounds.select(columns).sort("seed", "round").rows() != trace.select(columns).sort("seed", "round").rows():
        yield f"{INTERACTIONS} has other queries or clicks than {TRACE.file}"
    try:
        dataset = dataset_source(dataset_settings(run)).load()
        if dataset.fingerprint != run.fingerprint:
            raise ValueError("there are other data now")
    except ValueError as error:
        notes.append(f"{run.path}: online NDCG is not recomputed, because its data cannot be read ({error})")
        return
    several = "user_intent" in trace.columns
    split = dataset.split("train", by_intent=several)
    query, label = split.judged()
    gain = gains(split.labels).numpy()
    intents = trace.select("seed", "round", "query", intent=pl.col("user_intent") - 1 if several else pl.lit(0))
    shown = run.interactions.join(intents.drop("query"), on=["seed", "round"], maintain_order="left")
    place = shown["document"].to_numpy() + shown["intent"].cast(pl.Int64).to_numpy() * len(dataset.labels)
    shown = shown.with_columns(gain=pl.lit(gain[place]) / (pl.col("rank") + 1).log(2))
    for cutoff in _ndcg_discounts(run.settings):
        places = min(cutoff, run.settings["positions"])
        best = dcg(ideal_lists(query, label, len(split) * split.intents, places)).numpy()
        first = shown.filter(pl.col("rank") <= cutoff)
        reached = first.group_by("seed", "round").agg(pl.col("gain").sum())
        rounds = trace.join(reached, on=["seed", "round"], how="left")
        ideal = best[rounds["query"].to_numpy() + intents["intent"].cast(pl.Int64).to_numpy() * len(split)]
        ndcg = (rounds["gain"].to_numpy() / np.maximum(ideal, 1e-12)) * (ideal > 0)
        column = ndcg_columns(cutoff)[0].name
        stored = rounds[column].to_numpy()
        differs = (np.abs(stored - ndcg) > TOLERANCE) | (np.isnan(stored) & (ideal > 0))
        if differs.any():
            yield f"{TRACE.file}: {column} is not that of {INTERACTIONS} in {differs.sum():,} of {len(rounds):,} rows"


def _evaluations(evaluation: pl.DataFrame, rounds: int, seeds: list[int]) -> Iterator[str]:
    """Whether every split is evaluated for all seeds in the same rounds, the last one included."""
    import polars as pl

    for (split,), rows in evaluation.group_by("split", maintain_order=True):
        of_seeds = [group["round"].to_list() for _, group in rows.group_by("seed", maintain_order=True)]
        same = all(numbers == of_seeds[0] for numbers in of_seeds)
        if not same or len(of_seeds) != len(seeds) or of_seeds[0][-1:] != [rounds]:
            yield f"{EVALUATION.file}: split {split} lacks rounds of a seed"
    if evaluation.select(pl.struct(EVALUATION.key).is_duplicated().any()).item():
        yield f"{EVALUATION.file} has rows twice"


def _summary(run: Run) -> Iterator[str]:
    """Whether the summary is that of the tables, up to the last digits, which differ between versions of polars."""
    content, expected = run.summary_file, summarise(run)
    if content.get("results_version") != RESULTS_VERSION:
        return
    for part in ("rounds", "seeds", "metrics", "by_seed"):
        found, right = content.get(part), expected[part]
        if not isinstance(found, dict) or not isinstance(right, dict):
            names = [] if _equal(found, right) else [""]
        else:
            names = [f" {name}" for name in {**found, **right} if not _equal(found.get(name), right.get(name))]
        if names:
            yield f"{SUMMARY}: {part}{','.join(names)} is not that of the tables"


def _equal(content: Any, right: Any) -> bool:
    if isinstance(content, dict) and isinstance(right, dict):
        return content.keys() == right.keys() and all(_equal(content[name], right[name]) for name in content)
    if isinstance(content, list) and isinstance(right, list):
        return len(content) == len(right) and all(map(_equal, content, right))
    if isinstance(content, float) and isinstance(right, float):
        return math.isclose(content, right, rel_tol=1e-9, abs_tol=1e-9)
    return bool(content == right)
