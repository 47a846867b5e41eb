"""Recomputes what can be recomputed of a finished run from its own files, and compares it with what they say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ol2r_cli.metrics.measurement import DISCOUNT
from ol2r_cli.run.directory import INTERACTIONS, SUMMARY, RunDirectory
from ol2r_cli.run.identity import RESULTS_VERSION
from ol2r_cli.run.integrity import REMOVABLE, read_table, sha256
from ol2r_cli.run.run_state import RunState
from ol2r_cli.run.summary import summarise
from ol2r_cli.run.tables import EVALUATION, TRACE

if TYPE_CHECKING:
    import polars as pl

TOLERANCE = 1e-6  # of cumulative NDCG per round: online NDCG is stored in single precision


def differences(run: RunState) -> Iterator[str]:
    """What is wrong with a finished run, each in a few words; nothing if it is intact.

    Looked at: sizes and hashes of files, rounds and seeds of the tables, cumulative NDCG against online NDCG, clicks
    against the saved interactions, and the summary against the tables.
    """
    wrong = list(_files(run.path, run.manifest))
    directory, rounds, seeds = RunDirectory(run.path), run.rounds, list(run.manifest["seeds"])
    if run.manifest.get("files") is None and not (directory / SUMMARY).is_file():
        wrong.append(f"{SUMMARY} is missing")
    yield from wrong
    try:
        trace, evaluation = TRACE.read(directory), EVALUATION.read(directory)
        yield from _rows(trace, rounds, seeds)
        yield from _cumulative(trace)
        yield from _interactions(directory, trace)
        yield from _evaluations(evaluation, rounds, seeds)
        yield from _summary(directory)
    except (OSError, ValueError, LookupError, TypeError) as error:
        if not wrong:  # otherwise the damage has been named
            yield f"cannot be read ({str(error).splitlines()[0]})"


def _files(path: Path, manifest: dict[str, Any]) -> Iterator[str]:
    """Files that are missing or have another content than when the run finished."""
    for name, record in (manifest.get("files") or {}).items():
        file = path / name
        if not file.is_file():
            if name not in REMOVABLE:
                yield f"{name} is missing"
        elif file.stat().st_size != record["bytes"] or sha256(file) != record["sha256"]:
            yield f"{name} has another content than when the run finished"


def _rows(trace: pl.DataFrame, rounds: int, seeds: list[int]) -> Iterator[str]:
    """Whether the trace has each round of each seed once."""
    import polars as pl

    number = pl.col("round")
    found = trace.group_by("seed").agg(number.len().alias("rows"), number.min(), number.max().alias("last"))
    unique = not trace.select(pl.struct("seed", "round").is_duplicated().any()).item()
    if not unique or sorted(found.rows()) != [(seed, rounds, 1, rounds) for seed in sorted(seeds)]:
        yield f"{TRACE.file} has {len(trace):,} rows, which are not rounds 1 to {rounds:,} of seeds {sorted(seeds)}"


def _cumulative(trace: pl.DataFrame) -> Iterator[str]:
    """Whether cumulative NDCG is the discounted sum of online NDCG; queries that are skipped count 0."""
    import polars as pl

    steps = pl.col("online_ndcg").cast(pl.Float64).fill_null(0) * DISCOUNT ** (pl.col("round") - 1)
    error = (steps.cum_sum().over("seed") - pl.col("cumulative_ndcg")).abs() / pl.col("round")
    largest = trace.select(error.max()).item()
    if largest is None or largest > TOLERANCE:
        yield f"{TRACE.file}: cumulative_ndcg is not the discounted sum of online_ndcg"


def _interactions(directory: RunDirectory, trace: pl.DataFrame) -> Iterator[str]:
    """Whether saved interactions have the queries and the numbers of clicks of the trace."""
    import polars as pl

    if not (directory / INTERACTIONS).is_file():
        return
    saved = read_table(directory / INTERACTIONS)
    rounds = saved.group_by("seed", "round").agg(pl.col("query").first(), pl.col("click").sum().alias("clicks"))
    columns = ["seed", "round", "query", "clicks"]
    found = rounds.select(columns).sort("seed", "round").rows()
    if found != trace.select(columns).sort("seed", "round").rows():
        yield f"{INTERACTIONS} has other queries or clicks than {TRACE.file}"


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


def _summary(directory: RunDirectory) -> Iterator[str]:
    """Whether the summary is that of the tables."""
    content = directory.read_json(SUMMARY)
    if content.get("results_version") != RESULTS_VERSION:
        return
    expected = summarise(directory)
    for part in ("rounds", "seeds", "metrics", "by_seed"):
        names = _parts_that_differ(content.get(part), expected[part])
        if names:
            yield f"{SUMMARY}: {part} {', '.join(names)}".rstrip() + " is not that of the tables"


def _parts_that_differ(content: Any, expected: Any) -> list[str]:
    """Names of the entries that differ; a single empty name for values that are no mappings."""
    if not isinstance(content, dict) or not isinstance(expected, dict):
        return [] if _equal(content, expected) else [""]
    names = dict.fromkeys([*content, *expected])
    return [name for name in names if not _equal(content.get(name), expected.get(name))]


def _equal(content: Any, expected: Any) -> bool:
    """Whether values are equal up to the last digits, which differ between versions of polars."""
    if isinstance(content, dict) and isinstance(expected, dict):
        return content.keys() == expected.keys() and all(_equal(content[name], expected[name]) for name in content)
    if isinstance(content, list) and isinstance(expected, list):
        return len(content) == len(expected) and all(map(_equal, content, expected))
    if isinstance(content, float) and isinstance(expected, float):
        return abs(content - expected) <= 1e-9 * max(1.0, abs(expected))
    return bool(content == expected)
