"""Datasets of click counts: a few documents a query, with the attraction that a log shows when position bias is out.

A line of the file says how often a document of a query was shown at a place, and how often it was clicked there:
`click_log` reads it, and `position_bias` estimates examination.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from numpy.typing import NDArray

from ol2r_cli.config.ranges import Count, Range
from ol2r_cli.dataset.cache import digest, expand
from ol2r_cli.dataset.click_log import read
from ol2r_cli.dataset.position_bias import harvest
from ol2r_cli.dataset.table import LARGEST_GRADE, LARGEST_INT8, Dataset, Intents

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

    def load(self) -> Dataset:
        """Return the table; ValueError if there is no file, DataError if it is malformed."""
        file = expand(self.path) if self.path else expand(self.data_dir) / "real_clicks/yandex_counts.csv"
        if not file.is_file():
            get = f"get it from {self.source}, then type dataset.path=FILE"
            raise ValueError(f"dataset.path must be a file of click counts, got none (looked for: {file}); {get}")
        log, bad = read(file, leave_out="more clicks")
        try:
            examined = log.impressions @ harvest(log, all_pairs=False)
        except ValueError as error:
            raise ValueError(f"{file}: {error}") from None
        attraction = np.round((log.clicks.sum(1) / examined).clip(max=1), _DIGITS)
        shown = log.impressions.sum(1)
        rows: dict[str, list[int]] = {}
        for row in np.argsort(-shown, kind="stable").tolist():
            rows.setdefault(log.query_ids[log.query[row]], []).append(row)
        kept = sorted(rows, key=lambda query: -shown[rows[query]].sum())[: self.queries]
        lists = [attraction[rows[query][: self.documents]] for query in kept]
        number, offsets = self.intents or 1, np.cumsum([0, *map(len, lists)])
        by_intent = [[_moved(each, len(each) * intent // number) for each in lists] for intent in range(number)]
        attractions = np.stack([np.concatenate(each) for each in by_intent])
        grades = np.stack([np.concatenate([(each < each[:, None]).sum(1) for each in moved]) for moved in by_intent])
        intents = Intents(torch.from_numpy(grades.astype(np.int8)), self.documents, torch.from_numpy(attractions))
        dataset = Dataset(
            name=self.name,
            fingerprint=digest([kept, offsets.tolist(), attractions.tolist(), self.documents, self.intent]),
            features=torch.eye(int(offsets[-1])),
            labels=intents.labels[0],
            offsets=torch.from_numpy(offsets),
            query_ids=kept,
            grades=self.documents,
            splits={"train": torch.arange(len(kept))},
            warnings=(f"{bad} rows of {file} have more clicks than impressions, and are left out",) if bad else (),
            intents=intents if self.intents else None,
            attraction=torch.from_numpy(attractions[0]),
        )
        return dataset if self.intent is None else dataset.judged_by(self.intent)


def _moved(attraction: Floats, by: int) -> Floats:
    """Return the attractions after so many ranks."""
    order = np.argsort(-attraction, kind="stable")
    return np.roll(attraction[order], by)[np.argsort(order)]
