"""What a click log and, where there are some, documents with features say: who clicks how, and on what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ol2r_cli.dataset.table import Dataset
from ol2r_cli.plugins.advise.pages import simulated_user
from ol2r_cli.plugins.advise.play import DrawnWorld
from ol2r_cli.plugins.advise.world import WorldDocuments
from ol2r_cli.plugins.advise.worlds import Kind, production_rank, worlds
from ol2r_cli.plugins.click_logs.click_log import ClickLog
from ol2r_cli.plugins.click_logs.fitted_user import joined_rows
from ol2r_cli.tensor.shapes import Bool, Float, Int


class Evidence(NamedTuple):
    """A log, and the documents of worlds.

    log: with documents of the data that it never shows. rows: of it, for each document of `documents`, whose first
    feature is the rank in production, or with others 1 / log2(1 + rank). share: of the pages, those of queries that
    `documents` has and that come again. joined: what was joined, or nothing. features: of all documents of the log, the
    mean of those that are not in the data.
    """

    log: ClickLog
    documents: WorldDocuments
    rows: Int[np.ndarray, "N"]
    share: float
    joined: str = ""
    features: Float[np.ndarray, "D F"] | None = None

    @property
    def places(self) -> int:
        """The number of ranks of a page."""
        return self.log.impressions.shape[1]


def evidence_of(log: ClickLog, left_out: Bool[np.ndarray, "D"] | None = None) -> Evidence:
    """Return the evidence of a log alone: worlds have its documents, but those left out."""
    rows = np.argsort(log.query, kind="stable")
    if left_out is not None:
        rows = rows[~left_out[rows]]
    names = list(log.query_ids) or [str(number) for number in range(int(log.query.max()) + 1)]
    return _evidence(log, rows, names, None, "")


def evidence_with(log: ClickLog, dataset: Dataset) -> Evidence:
    """Return the evidence of a log with the features of a dataset: worlds have its documents of the log's queries, also
    those that were never shown. ValueError where less than half can be joined."""
    found, joined = joined_rows(log, dataset)
    offsets, names = dataset.offsets.numpy(), list(log.query_ids)
    in_data = {name: number for number, name in enumerate(dataset.query_ids)}
    of_row = np.full(len(dataset.labels), -1)
    of_row[found[found >= 0]] = np.flatnonzero(found >= 0)
    there = np.unique(log.query[found >= 0])
    of_query = [np.arange(*offsets[in_data[names[query]] : in_data[names[query]] + 2]) for query in there]
    table = np.concatenate(of_query)
    new = of_row[table] < 0
    of_row[table[new]] = len(log.query) + np.arange(new.sum())
    query = np.concatenate([log.query, np.repeat(there, list(map(len, of_query)))[new]])
    none = np.zeros((int(new.sum()), log.impressions.shape[1]))
    shown, clicks = (np.concatenate([counts, none]) for counts in (log.impressions, log.clicks))
    extended = ClickLog(query, shown, clicks, log.pages, log.query_ids)
    return _evidence(extended, of_row[table], names, dataset.features.numpy()[table], joined)


def _evidence(
    log: ClickLog, rows: Int[np.ndarray, "N"], names: list[str], features: Float[np.ndarray, "N F"] | None, joined: str
) -> Evidence:
    """Return the evidence of these rows of a log, with features of them or without. names: of queries."""
    queries, sizes = np.unique(log.query[rows], return_counts=True)
    by_rank = np.zeros((len(names), log.impressions.shape[1]))
    np.add.at(by_rank, log.query, log.impressions)
    pages = by_rank.max(1)
    once = float((pages[queries] == 1).sum())  # the share of pages of new queries: Good, Biometrika 1953
    rank = production_rank(log)[rows]
    table = rank[:, None] if features is None else np.column_stack([1 / np.log2(1 + rank), features])
    documents = WorldDocuments(
        features=table.astype(np.float32),
        rank=rank,
        offsets=np.append(0, np.cumsum(sizes)),
        query_ids=[names[query] for query in queries],
        shares=pages[queries] / pages[queries].sum(),
    )
    share = float((pages[queries].sum() - once) / pages.sum())
    if features is None:
        return Evidence(log, documents, rows, share)
    of_log = np.tile(table.mean(0), (len(log.query), 1))
    of_log[rows] = table
    return Evidence(log, documents, rows, share, joined, of_log)


def drawn_worlds(
    log: ClickLog, kinds: Sequence[Kind], point: int, refits: int, seed: int, features: Float[np.ndarray, "D F"] | None
) -> list[DrawnWorld]:
    """Return worlds of the fit and of refits, as many of each kind of user, with the grades of the log's documents."""
    drawn = []
    for number, kind in enumerate(kinds):
        of_fit, refitted = ((each + len(kinds) - 1 - number) // len(kinds) for each in (point, refits))
        drawn += [
            DrawnWorld(is_refit, simulated_user(user), grades)
            for is_refit, user, grades in worlds(log, kind, of_fit, refitted, seed + number, features)
        ]
    return drawn


def share_near_rank(log: ClickLog) -> float:
    """Return the share of shown documents that are within one rank of their rank in production."""
    away = abs(np.arange(1, log.impressions.shape[1] + 1) - production_rank(log)[:, None])
    return float(log.impressions[away <= 1].sum() / log.impressions.sum())
