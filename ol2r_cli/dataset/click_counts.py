"""Datasets of click counts: a few documents a query, with the attraction that a log shows when position bias is out.

A line of the file says how often a document of a query was shown at a place, and how often it was clicked there.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
from numpy.typing import NDArray

from ol2r_cli.config.ranges import Count, Range
from ol2r_cli.dataset.cache import digest, expand
from ol2r_cli.dataset.parse import DataError
from ol2r_cli.dataset.table import LARGEST_INT8, Dataset, Intents

_COLUMNS = ["query", "document", "place", "impressions", "clicks"]
_PUBLISHED = ["query", "url", "pos", "Impression", "Click"]  # in the file of `source`; `pos` counts from 0
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
    documents: Several
    intents: Several | None
    intent: Count | None
    source: str

    def load(self) -> Dataset:
        """Return the table; ValueError if there is no file, DataError if it is malformed."""
        file = expand(self.path) if self.path else expand(self.data_dir) / "real_clicks/yandex_counts.csv"
        if not file.is_file():
            get = f"get it from {self.source}, then type dataset.path=FILE"
            raise ValueError(f"dataset.path must be a file of click counts, got none (looked for: {file}); {get}")
        pairs, shown, clicks, bad = read_counts(file)
        attraction = np.round((clicks.sum(1) / (shown @ examination(shown, clicks))).clip(max=1), _DIGITS)
        rows: dict[str, list[int]] = {}
        for row in np.argsort(-shown.sum(1), kind="stable").tolist():
            rows.setdefault(pairs[row][0], []).append(row)
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


def read_counts(file: Path) -> tuple[list[tuple[str, str]], Floats, Floats, int]:
    """Return pairs of query and document, their impressions and clicks [pairs, places], and how many rows are left out.

    These have more clicks than impressions. DataError, with the line, for a malformed row.
    """
    rows: dict[tuple[str, str], dict[int, tuple[int, int]]] = {}
    bad = 0
    with file.open(newline="", errors="replace") as lines:
        reader = csv.DictReader(lines)
        names = _PUBLISHED if "pos" in (reader.fieldnames or ()) else _COLUMNS
        first = 0 if names is _PUBLISHED else 1
        for line in reader:
            query, document, *numbers = (line.get(name) or "" for name in names)
            if not all(map(str.isdecimal, numbers)) or int(numbers[0]) < first:
                expected = f"the columns {','.join(names)}, places from {first} and whole numbers"
                found = ",".join(map(str, line.values()))[:60]
                raise DataError(f"{file}:{reader.line_num}: found {found!r}, expected {expected}")
            place, shown, clicks = map(int, numbers)
            bad += clicks > shown
            if clicks <= shown > 0:
                rows.setdefault((query, document), {})[place - first] = shown, clicks
    counts = np.zeros((2, len(rows), 1 + max((max(places) for places in rows.values()), default=0)))
    for row, places in enumerate(rows.values()):
        for place, of_place in places.items():
            counts[:, row, place] = of_place
    return list(rows), counts[0], counts[1], bad


def examination(shown: Floats, clicks: Floats) -> Floats:
    """Return how likely each place is examined, relative to the first, by intervention harvesting.

    The ratio of neighbouring places is that of the click rates there of documents shown at both, weighted by the fewer
    impressions (the adjacent chain of Agarwal et al., WSDM 2019). ValueError where there are none.
    """
    rate, both = clicks / shown.clip(min=1), np.minimum(shown[:, :-1], shown[:, 1:])
    above, below = (both * rate[:, :-1]).sum(0), (both * rate[:, 1:]).sum(0)
    if not len(shown) or not (above * below).all():
        raise ValueError("dataset.path must have clicks on documents shown at every two neighbouring places, got none")
    return np.cumprod([1, *(below / above)])


def _moved(attraction: Floats, by: int) -> Floats:
    """Return the attractions after so many ranks."""
    order = np.argsort(-attraction, kind="stable")
    return np.roll(attraction[order], by)[np.argsort(order)]
