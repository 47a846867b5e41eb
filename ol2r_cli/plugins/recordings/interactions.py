"""Interactions: queries, shown documents and clicks of every round, in interactions.parquet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from ol2r_cli.columns import ndcg_columns
from ol2r_cli.config.ranges import check_settings
from ol2r_cli.dataset.table import Dataset
from ol2r_cli.interfaces import Interaction
from ol2r_cli.metrics.ranking import dcg, gains, ideal_lists
from ol2r_cli.run.recomputed import TOLERANCE, dataset_settings, dataset_source, ndcg_discounts
from ol2r_cli.run.run import INTERACTIONS, TRACE, Run

if TYPE_CHECKING:
    from ol2r_cli.run.experiment import Experiment
    from ol2r_cli.run.runner import Runner


@dataclass(frozen=True)
class InteractionSettings:
    """What the setting may be."""

    save_interactions: bool


def prepare(experiment: Experiment) -> None:
    """Raise ValueError for a wrong value."""
    check_settings(InteractionSettings, {"save_interactions": experiment.settings["save_interactions"]}, "")


def record(runner: Runner, t: int, interaction: Interaction) -> None:
    """Record one row per replica and shown document of round `t`."""
    shown, clicks = interaction.shown.cpu().numpy(), interaction.clicks.cpu().numpy()
    document = interaction.candidates.document.gather(1, interaction.ranking).cpu().numpy()
    query = np.broadcast_to(interaction.candidates.query.cpu().numpy()[:, None], shown.shape)
    columns = {"query": query, "document": document, "click": clicks}
    runner.trace.record_places(INTERACTIONS, t, shown, columns)


def differences(run: Run, notes: list[str]) -> Iterator[str]:
    """Yield a fault unless saved interactions have the queries and the numbers of clicks of the trace, and online NDCG
    is that of their documents, by the labels of the run's data; where these are not found, a line is added to `notes`.
    """
    if run.interactions.is_empty():
        return
    trace, columns = run.trace, ["seed", "round", "query", "clicks"]
    rounds = run.interactions.group_by("seed", "round").agg(pl.col("query").first(), clicks=pl.col("click").sum())
    if rounds.select(columns).sort("seed", "round").rows() != trace.select(columns).sort("seed", "round").rows():
        yield f"{INTERACTIONS.file} has other queries or clicks than {TRACE.file}"
    try:
        dataset = dataset_source(dataset_settings(run)).load()
        if dataset.fingerprint != run.fingerprint:
            raise ValueError("there are other data now")
    except ValueError as error:
        notes.append(f"{run.path}: online NDCG is not recomputed, because its data cannot be read ({error})")
        return
    yield from _online_ndcg(run, dataset)


def _online_ndcg(run: Run, dataset: Dataset) -> Iterator[str]:
    """Yield a fault for each cutoff at which online NDCG is not that of the saved interactions."""
    several = "user_intent" in run.trace.columns
    intent = pl.col("user_intent").cast(pl.Int64) - 1 if several else pl.lit(0, pl.Int64)
    rounds = run.trace.with_columns(intent=intent)
    split = dataset.split("train", by_intent=several)
    query, label = split.judged()
    shown = run.interactions.join(rounds.select("seed", "round", "intent"), on=["seed", "round"], maintain_order="left")
    judged = (shown["document"] + shown["intent"] * len(dataset.labels)).to_numpy()
    shown = shown.with_columns(gain=pl.lit(gains(split.labels).numpy()[judged]) / (pl.col("rank") + 1).log(2))
    for cutoff in ndcg_discounts(run):
        column = ndcg_columns(cutoff)[0].name
        places = min(cutoff, run.settings["positions"])
        best = dcg(ideal_lists(query, label, len(split) * split.intents, places)).numpy()
        reached = shown.filter(pl.col("rank") <= cutoff).group_by("seed", "round").agg(pl.col("gain").sum())
        compared = rounds.join(reached, on=["seed", "round"], how="left")
        ideal = best[(compared["query"] + compared["intent"] * len(split)).to_numpy()]
        ndcg = (compared["gain"].to_numpy() / np.maximum(ideal, 1e-12)) * (ideal > 0)
        stored = compared[column].to_numpy()
        differs = (np.abs(stored - ndcg) > TOLERANCE) | (np.isnan(stored) & (ideal > 0))
        if differs.any():
            rows = f"{differs.sum():,} of {len(compared):,} rows"
            yield f"{TRACE.file}: {column} is not that of {INTERACTIONS.file} in {rows}"
