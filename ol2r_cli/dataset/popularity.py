"""How often users ask each training query: all alike, by Zipf's law, or by counts of a log.

A few queries make up much of what people ask a search engine, and most queries are rare: their frequencies follow a
power law (Baeza-Yates et al., "The impact of caching on search engines", SIGIR 2007).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from ol2r_cli.config.ranges import Range, check_settings
from ol2r_cli.dataset.cache import digest
from ol2r_cli.dataset.parse import DataError
from ol2r_cli.dataset.table import Dataset

Popularity = Literal["uniform"] | Mapping[str, Any]
_PLACE = "dataset.popularity"


@dataclass(frozen=True)
class Zipf:
    """The query of rank r is asked with a probability that is proportional to 1 / r^`zipf`. `seed` draws the ranks."""

    zipf: Annotated[float, Range(0)]
    seed: Annotated[int, Range(0)] = 0

    def counts(self, queries: list[str]) -> NDArray[np.float64]:
        """Return how often each query is asked, up to a common factor."""
        rank = 1 + np.random.default_rng(self.seed).permutation(len(queries))
        return np.asarray(rank.astype(np.float64) ** -self.zipf)


@dataclass(frozen=True)
class CountFile:
    """A file with a line for each query: its id, and how often it was asked, separated by a comma, tab or blanks."""

    file: str

    def counts(self, queries: list[str]) -> NDArray[np.float64]:
        """Return how often each query was asked: 0 for one that is not in the file. DataError for a malformed file."""
        path = Path(self.file).expanduser()
        try:
            lines = path.read_text().splitlines()
        except OSError as error:
            raise ValueError(f"{_PLACE}.file must be a file that can be read, got {path} ({error.strerror})") from None
        counts: dict[str, float] = {}
        for number, line in enumerate(lines, 1):
            words = line.replace(",", " ").split()
            if len(words) != 2 or not _is_count(words[1]):
                raise DataError(f"{path}, line {number} must be a query and a count, got {line[:80]!r}")
            counts[words[0]] = float(words[1])
        found = np.array([counts.get(query, 0.0) for query in queries])
        if not found.any():
            raise DataError(f"{path} has a count for none of the {len(queries)} training queries, such as {queries[0]}")
        return found


def _is_count(word: str) -> bool:
    try:
        return 0 <= float(word) < float("inf")
    except ValueError:
        return False


def checked(popularity: Popularity) -> Zipf | CountFile | None:
    """Return what the setting means, None for queries that are asked alike; ValueError for a bad one."""
    if popularity == "uniform":
        return None
    kind = CountFile if isinstance(popularity, Mapping) and "file" in popularity else Zipf
    if not isinstance(popularity, Mapping):
        raise ValueError(f"{_PLACE} must be uniform, {{zipf: EXPONENT}} or {{file: FILE}}, got {popularity!r}")
    check_settings(kind, popularity, _PLACE)
    return kind(**popularity)


def asked_by(dataset: Dataset, popularity: Popularity) -> Dataset:
    """Return the dataset with the share of the rounds in which each training query is asked; as it is for `uniform`."""
    rule = checked(popularity)
    if rule is None:
        return dataset
    counts = rule.counts([dataset.query_ids[number] for number in dataset.splits["train"].tolist()])
    shares = counts / counts.sum()
    # Of Zipf's law the setting counts, because processors round powers differently.
    decisive = counts.tolist() if isinstance(rule, CountFile) else vars(rule)
    fingerprint = digest({"dataset": dataset.fingerprint, "popularity": decisive})
    return replace(dataset, fingerprint=fingerprint, popularity=torch.from_numpy(shares))
