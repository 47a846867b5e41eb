"""How often users ask each training query: all alike, by Zipf's law, or by counts of a log.

A few queries make up much of what people ask a search engine, and most queries are rare: their frequencies follow a
power law (Baeza-Yates et al., "The impact of caching on search engines", SIGIR 2007).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from ol2r_cli.config.ranges import Range, check_settings, with_whole_numbers
from ol2r_cli.dataset.cache import digest
from ol2r_cli.dataset.parse import DataError, utf8_lines
from ol2r_cli.dataset.table import Dataset
from ol2r_cli.tensor.numpy_streams import Permutations

Popularity = Literal["uniform"] | Mapping[str, Any]
_PLACE = "dataset.popularity"
_QUERY_AND_COUNT = re.compile(r"(\S.*?)(?:[ \t]*[,\t][ \t]*|[ \t]+)([^\s,]+)")
_MOST_MISSING = 0.5  # of the training queries, and of the queries of the file


@dataclass(frozen=True)
class Zipf:
    """The query of rank r is asked with a probability that is proportional to 1 / r^`zipf`. `seed` draws the ranks."""

    zipf: Annotated[float, Range(0)]
    seed: Annotated[int, Range(0)] = 0

    def counts(self, queries: list[str]) -> NDArray[np.float64]:
        """Return how often each query is asked, up to a common factor."""
        rank = 1 + Permutations(self.seed).permuted(np.arange(len(queries)))
        return np.asarray(rank.astype(np.float64) ** -self.zipf)


@dataclass(frozen=True)
class CountFile:
    """A file with a line for each query: its id, and how often it was asked, separated by a comma, tab or blanks.

    It is UTF-8, plain or gzipped. Counts of a query that has several lines are added. An id with blanks or commas
    stands in quotes or not.
    """

    file: str

    def by_query(self) -> dict[str, float]:
        """Return how often each query of the file was asked; DataError for a malformed file."""
        path, counts = Path(self.file).expanduser(), dict[str, float]()
        try:
            for number, line in enumerate(utf8_lines(path), 1):
                if not line.strip():
                    continue
                match = _QUERY_AND_COUNT.fullmatch(line.strip())
                if match is None or not _is_count(match[2]):
                    said = line.strip()[:80]
                    raise DataError(f"{path}, line {number} must be a query and a count, got {said!r}")
                query = match[1][1:-1].replace('""', '"') if match[1][0] == match[1][-1] == '"' else match[1]
                counts[query] = counts.get(query, 0.0) + float(match[2])
        except OSError as error:
            raise ValueError(f"{_PLACE}.file must be a file that can be read, got {path} ({error.strerror})") from None
        return counts


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
    return kind(**with_whole_numbers(popularity))


def asked_by(dataset: Dataset, popularity: Popularity) -> Dataset:
    """Return the dataset with the share of the rounds in which each training query is asked; as it is for `uniform`."""
    rule = checked(popularity)
    if rule is None:
        return dataset
    queries = [dataset.query_ids[number] for number in dataset.splits["train"].tolist()]
    counts, told = _joined(rule, queries, dataset) if isinstance(rule, CountFile) else (rule.counts(queries), ())
    shares = np.ldexp(counts, -np.frexp(counts.max())[1])  # exact, so that their sum is finite
    shares /= shares.sum()
    # Of Zipf's law the setting counts, because processors round powers differently.
    decisive = counts.tolist() if isinstance(rule, CountFile) else vars(rule)
    fingerprint = digest({"dataset": dataset.fingerprint, "popularity": decisive})
    warnings = dataset.warnings + told
    return replace(dataset, fingerprint=fingerprint, popularity=torch.from_numpy(shares), warnings=warnings)


def _joined(file: CountFile, queries: list[str], dataset: Dataset) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """Return how often each training query was asked, 0 for one that is not in the file, and a line if some are not.

    DataError where the file is of other queries: it has less than half of the training queries, and less than half of
    its queries are of the dataset, so that ids are likely to be written otherwise.
    """
    by_query, known = file.by_query(), set(dataset.query_ids)
    counts = np.array([by_query.get(query, 0.0) for query in queries])
    never, foreign = [query for query in queries if query not in by_query], by_query.keys() - known
    if not counts.any():
        raise DataError(
            f"{file.file} has a count for none of the {len(queries)} training queries, such as {queries[0]}"
        )
    joined = f"{file.file} has a count for {len(queries) - len(never)} of the {len(queries)} training queries"
    unknown = f"{len(foreign)} of its {len(by_query)} queries, such as {min(foreign, default='')}, are not in the data"
    if len(never) > _MOST_MISSING * len(queries) and len(foreign) > _MOST_MISSING * len(by_query):
        raise DataError(f"{joined}, not for {never[0]}, and {unknown}: half of one of both must be joined")
    if not never:
        return counts, ()
    return counts, (f"{joined}; the others, such as {never[0]}, are never asked" + (f"; {unknown}" if foreign else ""),)
