"""Datasets of click counts: a few documents a query, with the attraction that a log shows when position bias is out.

A line of the file says how often a document of a query was shown at a place, and how often it was clicked there:
`click_log` reads it, and `position_bias` estimates examination.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
from numpy.typing import NDArray

from ol2r_cli.config.ranges import Count, Range
from ol2r_cli.dataset.cache import digest, expand
from ol2r_cli.dataset.popularity import Popularity, asked_by, checked
from ol2r_cli.dataset.prepare import Transformation
from ol2r_cli.dataset.table import LARGEST_GRADE, LARGEST_INT8, Dataset, Intents
from ol2r_cli.plugins.click_logs.click_log import ClickLog, read
from ol2r_cli.plugins.click_logs.position_bias import adjacent_chain

_DIGITS = 6  # of an attraction, so that it does not depend on how a machine rounds sums

Several = Annotated[int, Range(2, LARGEST_INT8)]
Floats = NDArray[np.float64]


@dataclass(eq=False)
class ClickCounts:
    """The `queries` that were shown most (null: all), all for training, with their `documents` that were shown most.

    A document's grade is the number of documents of the query that attract less; its feature is 1 for itself. Users
    with intent i of I = `intents` are attracted as if the D documents of a query had moved by (i - 1) D / I ranks, best
    to worst in a circle. configs/dataset/yandex_bandit.yaml explains the other settings.
    """

    name: str
    path: str | None
    data_dir: str
    queries: Count | None
    documents: Annotated[int, Range(2, LARGEST_GRADE + 1)]  # whose ranks are the grades
    intents: Several | None
    intent: Count | None
    source: str
    popularity: Popularity

    def __post_init__(self) -> None:
        checked(self.popularity)

    def load(self) -> Dataset:
        """Return the table; ValueError if there is no file, DataError if it is malformed."""
        file = self._file()
        log, bad = read(file, leave_out="more clicks")
        attraction = _attraction(log, file)
        rows_of = self._most_shown(log)
        lists = [attraction[rows] for rows in rows_of.values()]
        offsets = np.cumsum([0, *map(len, lists)])
        query_ids = list(rows_of)
        intents, attractions = _by_intent(lists, self.intents or 1, self.documents)
        dataset = Dataset(
            name=self.name,
            fingerprint=digest([query_ids, offsets.tolist(), attractions.tolist(), self.documents, self.intent]),
            features=torch.eye(int(offsets[-1])),
            labels=intents.labels[0],
            offsets=torch.from_numpy(offsets),
            query_ids=query_ids,
            grades=self.documents,
            splits={"train": torch.arange(len(query_ids))},
            warnings=(f"{bad} rows of {file} have more clicks than impressions, and are left out",) if bad else (),
            intents=intents if self.intents else None,
            attraction=torch.from_numpy(attractions[0]),
        ).judged_by(self.intent)
        return asked_by(dataset, self.popularity)

    def transformation(self, features: int, fingerprint: str) -> Transformation:
        """Return how features of other documents become those that rankers see: they stay as they are."""
        return Transformation("none", np.ones(features, bool))

    def _file(self) -> Path:
        """Return the file of counts; ValueError if there is none."""
        file = expand(self.path) if self.path else expand(self.data_dir) / "real_clicks/yandex_counts.csv"
        if not file.is_file():
            get = f"get it from {self.source}, then type dataset.path=FILE"
            raise ValueError(f"dataset.path must be a file of click counts, got none (looked for: {file}); {get}")
        return file

    def _most_shown(self, log: ClickLog) -> dict[str, list[int]]:
        """Return the rows of the chosen documents of each chosen query, those that were shown most first."""
        shown = log.impressions.sum(1)
        rows_of: dict[str, list[int]] = {}
        for row in np.argsort(-shown, kind="stable").tolist():
            rows_of.setdefault(log.query_ids[log.query[row]], []).append(row)
        chosen = sorted(rows_of, key=lambda query: -shown[rows_of[query]].sum())[: self.queries]
        return {query: rows_of[query][: self.documents] for query in chosen}


def _attraction(log: ClickLog, file: Path) -> Floats:
    """Return P(click | examined) of each document: its clicks, over how often it was examined by harvested bias."""
    try:
        examination = adjacent_chain(log)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None
    attraction = log.clicks.sum(1) / (log.impressions @ examination)
    return np.round(attraction.clip(max=1), _DIGITS)


def _by_intent(lists: Sequence[Floats], intents: int, grades: int) -> tuple[Intents, Floats]:
    """Return labels and attractions [I, N] of all documents, by intent; `lists` has the attractions by query."""
    labels, attractions = [], []
    for intent in range(intents):
        moved = [_moved(attraction, len(attraction) * intent // intents) for attraction in lists]
        attractions.append(np.concatenate(moved))
        # The grade of a document is how many of its query attract less.
        below = [(attraction < attraction[:, None]).sum(1) for attraction in moved]
        labels.append(np.concatenate(below))
    by_intent = np.stack(attractions)
    return Intents(torch.from_numpy(np.stack(labels).astype(np.int8)), grades, torch.from_numpy(by_intent)), by_intent


def _moved(attraction: Floats, ranks: int) -> Floats:
    """Return the attractions after all documents have moved by so many ranks, best to worst in a circle."""
    order = np.argsort(-attraction, kind="stable")
    return np.roll(attraction[order], ranks)[np.argsort(order)]
